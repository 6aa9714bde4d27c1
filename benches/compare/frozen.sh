#!/bin/sh
# What choosing 10,000 candidates takes, and what freezing and verifying 5,000 tasks take against sha256sum.
set -eu
cd "$(dirname "$0")/../.."
exec cargo bench --quiet -p dataset --bench scale -- "${1:-5000}"
