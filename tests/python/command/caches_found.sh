#!/usr/bin/env bash
# Classes that keep a cache through a sequence of calls: the bug of each wrong one is found, reduced and replayed.
set -u
. "$(dirname "$0")/tools.sh"
export OPENBLAS_NUM_THREADS=1
here=$(cd "$(dirname "$0")/.." && pwd)
right=$here/../../python/attnfuzz/targets/numpy_cache.py wrong=$here/wrong_caches.py
sequence() { "$attnfuzz" sequence "$@" >"$out/log" 2>&1; }

# found BUG STEPS [RIGHT]: the bug is found, reduced to at most so many steps, fails again from its file, and the class
# RIGHT passes that file.
found() {
  sequence "$wrong:$1" --jobs 1 --out "$out/$1" && die "the bug of $1 was not found"
  file=$(ls "$out/$1"/*.calls.json)
  steps=$(sed -n 's/.*reduced in .* evaluations\? to \([0-9]*\) steps\?.*/\1/p' "$out/log")
  [ "$steps" -le "$2" ] || die "$1 was reduced to $steps steps, $2 are enough"
  before=$(grep ^FAIL "$out/log")
  sequence "$wrong:$1" --replay "$file"
  [ $? -eq 1 ] && [ "$(grep ^FAIL "$out/log")" = "$before" ] || die "$file of $1 does not fail again in the same way"
  [ $# -lt 3 ] || sequence "$right:$3" --replay "$file" || die "the right class fails $file of $1"
}
found pages_shared 4 own
found length_kept 4 own
found table_of_plan 4 own
found table_of_another 4 own
found copies_keys_alone 3 pooled
found raises_at_the_third 3 own
[[ $before == 'FAIL (new of raises_at_the_third): raised IndexError: no room for a third (wrong_caches.py:'* ]] ||
  die "the exception is not told"

for bug in page_not_copied plan_keeps_lengths; do
  sequence "$wrong:$bug" --jobs 1 --reduce-seconds 0 --out "$out/$bug" && die "the bug of $bug was not found"
  grep -q "^FAIL (forward of $bug)" "$out/log" || die "$bug fails in another way"
done
exit 0
