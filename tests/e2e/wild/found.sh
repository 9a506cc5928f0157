#!/usr/bin/env bash
# found.sh ATTNFUZZ LIBRARY [BUILD [CASES]]
#
# Checks that a kernel with a wrong line is found within CASES cases and reduced; prints the number of cases it took.
set -u
attnfuzz=$1 library=$2 build_kind=${3:-plain} cases=${4:-5000}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$attnfuzz" check "$library" --build "$build_kind" --cases "$cases" --jobs 1 --out "$out/found" >"$out/log" 2>&1
status=$?
if [ $status -ne 1 ] || ! grep -q '^  found in case' "$out/log"; then
  echo "status $status: the wrong line was not found in $cases cases"
  tail -40 "$out/log"
  exit 1
fi
grep '^FAIL (\|^  found in case' "$out/log"
grep -q ', reduced in [0-9]* evaluations\?' "$out/log" && sed -n '/^FAIL (/{n;s/^ */reduced: /p;}' "$out/log" | grep . || { echo "it was not reduced"; exit 1; }
