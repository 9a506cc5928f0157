#!/usr/bin/env bash
# compute_sanitizer.sh ATTNFUZZ CASE: checks how `replay --build racecheck` reads the
# log of compute-sanitizer. A stand-in writes logs in the form of the real tool, so that
# neither a GPU nor the toolkit is needed.
set -u
attnfuzz=$1 case=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cat >"$dir/compute-sanitizer" <<'TOOL'
#!/bin/sh
while [ "$#" -gt 0 ]; do
  [ "$1" = --log-file ] && cp "$LOG" "$2"
  shift
done
TOOL
chmod +x "$dir/compute-sanitizer"
bad=0

# expect STATUS SENTENCE: replays the case with the log on standard input.
expect() {
  cat >"$dir/log"
  said=$(LOG=$dir/log PATH=$dir:$PATH "$attnfuzz" replay "$case" --kernel fa1 --build racecheck 2>&1)
  status=$?
  if [ "$status" -ne "$1" ] || ! grep -qF -- "$2" <<<"$said"; then
    echo "status $status, wanted $1 and: $2"
    echo "$said"
    bad=1
  fi
}

expect 0 "racecheck: nothing found" <<'LOG'
========= COMPUTE-SANITIZER
========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)
LOG
expect 1 "1 x Error: Race reported between Write access at kernel+0x100 in a.cu:5" <<'LOG'
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at kernel+0x100 in a.cu:5
=========     and Read access at kernel+0x200 in a.cu:9 [16 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
LOG
expect 2 "racecheck said nothing about this run" <<'LOG'
LOG
exit "$bad"
