#!/bin/bash
sed -i 's/[.]lstrip("-")/.strip("-")/' /app/slugs.py
