# Sourced by the comparisons whose trials do nothing: the task, and a job with the peak memory of the program.

# trivial_task DIR [LINES OF task.toml]: a task that makes a file; its environment is the host, unless the lines name an image.
trivial_task() {
  local task=$1 lines=${2:-}
  mkdir -p "$task"/environment "$task"/solution "$task"/tests
  printf 'schema_version = "1.4"\n%s' "$lines" >"$task/task.toml"
  echo 'Make /app/done.' >"$task/instruction.md"
  case $lines in *docker_image*) ;; *) printf 'FROM seatrial.local/host\nWORKDIR /app\n' >"$task/environment/Dockerfile" ;; esac
  printf '#!/bin/bash\nmkdir -p /app && touch /app/done\n' >"$task/solution/solve.sh"
  printf '#!/bin/bash\nif [ -e /app/done ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n' >"$task/tests/test.sh"
  chmod +x "$task/solution/solve.sh" "$task/tests/test.sh"
}

# many_trials TRIALS COMMAND...: runs a job of so many trials; prints its time, rate, and the peak memory of the program.
many_trials() {
  local trials=$1 begin program peak=0 memory
  shift
  begin=$(date +%s%N)
  "$@" >/dev/null &
  program=$!
  while memory=$(awk '/^VmHWM/ { print $2 }' "/proc/$program/status" 2>/dev/null) && [ -n "$memory" ]; do
    peak=$memory
    sleep 0.05
  done
  wait "$program"
  awk "BEGIN { s = ($(date +%s%N) - $begin) / 1e9
    printf \"%d trials in %.1f s: %.1f a second, peak %.0f MiB\\n\", $trials, s, $trials / s, $peak / 1024 }"
}
