#!/usr/bin/env bash
# Classes that keep a cache through a sequence of calls: right ones, and what is refused.
set -u
. "$(dirname "$0")/tools.sh"
export OPENBLAS_NUM_THREADS=1
here=$(cd "$(dirname "$0")/.." && pwd)
right=$here/../../python/attnfuzz/targets/numpy_cache.py wrong=$here/wrong_caches.py
sequence() { "$attnfuzz" sequence "$@" >"$out/log" 2>&1; }

for class in "$right:pooled" "$right:own" "$here/../../examples/cache.py:Concatenated" "$wrong:merging" "$wrong:without_lse"; do
  sequence "$class" --cases 20 --jobs 1 --out "$out/found" || die "$class does not pass"
  grep -q '20 sequences, .* passed' "$out/log" || die "no line of the run of $class"
  grep -q 'refuses it' "$out/log" && die "calls of $class were refused"
done
grep -q 'not run: .*merge' "$out/log" && die "merges were not made by the class"

# Refusals are counted by reason. After a class with memory of its own has refused a fork, it does not know the sequence.
sequence "$wrong:refuses" --cases 40 --jobs 1 -v || die "a class that refuses calls does not pass"
for why in 'new: refuses refuses it: pages of one key' 'fork: refuses refuses it: a fork of an odd length' \
  'fork: steps after a refused one' 'forward: refuses refuses it in run(): .*more than 20 queries' \
  'move: the kernel numbers its pages itself'; do
  grep -q "not run: $why ([1-9]" "$out/log" || die "it is not counted: $why"
done
sequence "$wrong:refuses_all" --cases 5 && die "a class that refuses all passes"
grep -q 'nothing was judged of refuses_all' "$out/log" || die "it is not said that nothing was judged"
sequence "$wrong:refuses_attends" --cases 5 && die "a class that refuses all attends passes"
grep -q 'nothing was judged of refuses_attends' "$out/log" || die "it is not said that no attend was judged"
sequence "$wrong:attends_never" --cases 10 && die "a class passes on its appends, and refuses all attends"
grep -q 'nothing was judged of the operation forward of attends_never' "$out/log" || die "it is not said of which operation nothing was judged"
sequence "$wrong:attends_rarely" --cases 60 && die "a class passes that refuses most attends"
grep -q 'most calls of the operation forward of attends_rarely were not judged: [1-9]' "$out/log" || die "it is not said that most attends were not judged: $(cat "$out/log")"
sequence "$wrong:returns_from_free" --cases 10 --reduce-seconds 0 --out "$out/found" && die "a class whose free() returns something passes"
grep -q 'free returned something' "$out/log" || die "it is not said that free() returned something"
sequence "$wrong:o_alone" --cases 5 --reduce-seconds 0 --out "$out/found" && die "a class that returns no LSE, and does not say so, passes"
grep -q 'returned O alone: declare Domain(lse=False)' "$out/log" || die "it is not said that the LSE is missing"

# refused STATUS WORDS ARGUMENT...
refused() {
  "$attnfuzz" "${@:3}" >"$out/log" 2>&1
  [ $? -eq "$1" ] && grep -q "$2" "$out/log" || die "not refused with status $1 and '$2': ${*:3}"
}
refused 2 'own is a class, which makes calls in sequences: attnfuzz sequence .*:own$' check "$right:own"
refused 2 'must be named alone' sequence "$right:own" "$right:pooled"

# Functions share a cache with each other and with a class; each makes its calls.
sequence "$wrong:append" "$wrong:copy_pages" "$right:pooled" --cases 10 --jobs 1 || die "functions do not share a cache"
for operation in append copy_pages; do
  "$attnfuzz" check "$wrong:$operation" --cases 25 --jobs 1 --out "$out/found" >"$out/log" 2>&1 || die "$operation does not hold"
done
PYTHONPATH=$(dirname "$attnfuzz")/../python "$ATTNFUZZ_PYTHON" -c "import attnfuzz; attnfuzz.check('$right:own', cases=5)" >"$out/log" 2>&1
grep -q 'own is a class. Check it with the command: attnfuzz sequence .*:own' "$out/log" || die "check() does not refuse a class by name"
exit 0
