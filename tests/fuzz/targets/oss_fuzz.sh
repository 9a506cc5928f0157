#!/bin/bash
# Calls fuzz/oss-fuzz/build.sh as OSS-Fuzz does, and checks that $OUT has the right files and
# that the targets run with only the files beside them.
#
#   oss_fuzz.sh SOURCE_DIR CC CXX
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CC=$2 CXX=$3 OUT=$work/out WORK=$work SANITIZER=address FUZZING_ENGINE=libfuzzer
export CFLAGS="-O1 -fno-omit-frame-pointer -gline-tables-only -fsanitize=address -fsanitize=fuzzer-no-link"
export CXXFLAGS="$CFLAGS -stdlib=libc++" LIB_FUZZING_ENGINE=-fsanitize=fuzzer
fail() { echo "FAILED: $*" >&2; exit 1; }

mkdir -p "$OUT"
(SANITIZER=memory "$source/fuzz/oss-fuzz/build.sh" >"$work/log" 2>&1) && fail "takes a sanitizer that it has no targets for"
grep -q 'SANITIZER=memory' "$work/log" || fail "does not say why memory is refused"

TARGETS="files fa1" "$source/fuzz/oss-fuzz/build.sh" >"$work/log" 2>&1 || { tail -40 "$work/log"; fail "does not build"; }
for name in fuzz_files fuzz_fa1 attnfuzz-worker-cpu-asan libattn_fa1_cpu-asan.so fuzz_files.dict \
            fuzz_{files,fa1}.options fuzz_{files,fa1}_seed_corpus.zip; do
  [[ -s $OUT/$name ]] || fail "$name is not in \$OUT"
done
[[ ! -e $OUT/fuzz_splitk ]] || fail "built what was not asked for"
nm "$OUT/fuzz_files" >"$work/symbols"
grep -q __asan_report_load8 "$work/symbols" || fail "the targets are not instrumented"

mv "$OUT" "$work/elsewhere"  # OSS-Fuzz runs it on another machine
cd "$work/elsewhere"
for target in files fa1; do
  mkdir seeds-$target corpus-$target
  python3 -m zipfile -e fuzz_${target}_seed_corpus.zip seeds-$target
  (( $(find seeds-$target -name '*.json' | wc -l) == $(find "$source/corpus" -name '*.json' | wc -l) )) || fail "seeds"
done
./fuzz_files -runs=2000 -seed=1 -max_len=16384 -dict=fuzz_files.dict corpus-files seeds-files >log 2>&1 \
  || { tail -30 log; fail "fuzz_files"; }
# Kernels run under ASan in their worker and report coverage.
./fuzz_fa1 -runs=200 -seed=1 -rss_limit_mb=4096 corpus-fa1 seeds-fa1 >log 2>&1 || { tail -30 log; fail "fuzz_fa1"; }
grep -q ' ft: ' log || fail "no features"
(( $(ls corpus-fa1 | wc -l) > 10 )) || fail "a corpus of $(ls corpus-fa1 | wc -l)"
echo ok
