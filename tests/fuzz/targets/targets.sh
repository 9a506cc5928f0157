#!/bin/bash
# Runs fuzz targets as a user does: a planted bug is found from an empty corpus and
# kept as a unit and as a reproducer, and both replay; bad use ends with status 2.
#
#   targets.sh FUZZ_FA1 REPLAY_FA1 ATTNFUZZ LIBRARY_WITH_A_BUG SEEDS
set -euo pipefail
fuzz=$1 replay=$2 attnfuzz=$3 bug=$4 seeds=$5
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
fail() { echo "FAILED: $*" >&2; cat log >&2; exit 1; }
# run STATUS COMMAND...: checks the status, 0..125 or "killed". The output is in log.
run() {
  local want=$1 status=0; shift
  "$@" >log 2>&1 || status=$?
  if [[ $want == killed ]]; then (( status > 125 || status == 77 )) || fail "$* ended with $status, not killed"
  else (( status == want )) || fail "$* ended with $status, not $want"; fi
}

mkdir corpus found
run 0 "$fuzz" -runs=400 -seed=1 corpus
grep -q ' ft: ' log || fail "no features"
(( $(ls corpus | wc -l) >= 20 )) || fail "a corpus of $(ls corpus | wc -l)"
run 0 "$replay" corpus
grep -q ' 0 refused' log || fail "a unit of the corpus is refused by the replay"
run 0 "$fuzz" -runs=0 corpus "$seeds"

run 77 "$fuzz" --build=plain --kernel="$bug" -runs=20000 -seed=1 -artifact_prefix="$dir/found/"
shopt -s nullglob
units=(found/crash-*) reproducers=(found/*.attn.json)
(( ${#units[@]} == 1 && ${#reproducers[@]} == 1 )) || fail "${#units[@]} units, ${#reproducers[@]} reproducers"
run killed "$replay" --lane=plain --kernel="$bug" --out="$dir" "${units[0]}"  # the old name of --build
run killed "$replay" --build=plain --kernel="$bug" --out="$dir" "${reproducers[0]}"  # its case
run 2 "$attnfuzz" replay "${reproducers[0]}"  # only the file names the library
run 1 "$attnfuzz" replay --kernel "$bug" "${reproducers[0]}"
run 0 "$attnfuzz" replay --kernel fa1 "${reproducers[0]}"

run 2 "$fuzz" --build=none -runs=1
run 2 "$fuzz" --kernel=nobody -runs=1
run 2 "$fuzz" --kernel=fa1 --kernel=splitk -runs=1
grep -q 'given too often' log || fail "says nothing of a second kernel"
run 2 "$fuzz" --property=nothing -runs=1
run 2 "$fuzz" --builds=plain -runs=1
run 2 "$replay"
run 2 "$replay" no-such-file
echo '{"format":2,"new":1}' >newer
run 1 "$replay" newer  # nothing was checked
grep -q 'format is 2, must be 1' log || fail "does not say why a unit is refused"
echo ok
