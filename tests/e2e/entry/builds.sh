#!/usr/bin/env bash
# Checks that a source is built and judged, and built again if it changed. If it cannot be built, it is refused with
# the compiler's message or with advice.
set -u
. "$(dirname "$0")/tools.sh"

call='attention_forward(q, k, v, o, B, H, S, D)'
expect 2 "say how its function is called"
# The machine has no compiler, or CXX names one. g++ builds only the build plain.
mkdir none && for tool in sh sed grep cat cmake; do ln -s "$(command -v $tool)" none/; done
PATH=$PWD/none CXX= expect 2 "there is neither: install one (apt install clang-19, or g++)" --entry "$call"
# A clang that finds no C++ library counts as none.
clang=$(command -v clang++-19 || command -v clang++)
printf '#!/bin/sh\nexec %s -nostdinc++ "$@"\n' "$clang" >none/clang++ && chmod +x none/clang++
PATH=$PWD/none CXX= expect 2 "there is neither: install one (apt install clang-19, or g++)" --entry "$call"
CXX=/bin/false expect 2 "CXX=/bin/false is neither: name one, or unset CXX" --entry "$call"
if [ -n "$gxx" ]; then
  CXX=$gxx expect 2 "--build coverage is built by clang 15 or later, .*apt install clang-19" --entry "$call" --build coverage
fi
"$attnfuzz" check fa1 --cases 1 --entry "$call" >log 2>&1
[ $? -eq 2 ] && grep -q "name the source" log || { echo "--entry without a source is taken"; cat log; wrong=1; }
expect 2 "does not build" --entry 'attention_backward(q, k, v, o, B, H, S, D)'
grep -q "attention_backward" log || { echo "the compiler's words are missing"; cat log; wrong=1; }
expect 0 "40 cases in" --entry "$call"
grep -q "mine.cu: run on [0-9]* small problems, it takes all that was tried" log || { echo "its limits were not tried"; cat log; wrong=1; }
errors >by_clang
expect 0 "left out: .*nan_visible" --finite --entry "$call"
# If the machine has Ninja, the source is built without make.
if [ -z "${CMAKE_GENERATOR:-}" ] && command -v ninja >/dev/null; then
  grep -q '^CMAKE_GENERATOR:INTERNAL=Ninja$' mine-*.attnfuzz/build/CMakeCache.txt || { echo "it is built by make"; wrong=1; }
fi
sed -i 's/for (int j = 0; j < S; j++) acc/for (int j = 0; j + 1 < S; j++) acc/' mine.cu
cmp -s "$source" mine.cu && { echo "builds.sh: nothing to break"; wrong=1; }
expect 1 "^replay: attnfuzz replay .*--kernel .*libattn_mine_cpu.so" --reduce-seconds 2 --entry "$call" --takes 'dim = one_of(8, 16); batch = at_most(2)'
eval "\"\$attnfuzz\" $(sed -n 's/^replay: attnfuzz //p' log)" >replayed 2>&1
[ $? -eq 1 ] || { echo "the replay line does not fail"; cat replayed; wrong=1; }
# Each of two sources with one name is judged, and the file of a failure names the library of its own source.
mkdir right && cp "$source" right/mine.cu
expect 1 "^FAIL" right/mine.cu --finite --reduce-seconds 2 --entry "$call"
grep -q "mine  *cpu plain: .* 0 failed" log || { echo "the right one of two sources does not pass"; cat log; wrong=1; }
eval "\"\$attnfuzz\" $(sed -n 's/^replay: attnfuzz //p' log | tail -1)" >replayed 2>&1
[ $? -eq 1 ] || { echo "the failure of two sources does not fail again"; cat replayed; wrong=1; }
# Each call of a source has a library of its own, so a replay line of one still fails after another was checked.
cat >two.cu <<'CODE'
#include "right/mine.cu"
void leaves_last(float* q, float* k, float* v, float* o, int B, int H, int S, int D) {
  attention_forward(q, k, v, o, B, H, S > 1 ? S - 1 : S, D);
}
CODE
of=two.cu
expect 1 "^replay: " --finite --reduce-seconds 2 --entry 'leaves_last(q, k, v, o, B, H, S, D)'
replay=$(sed -n 's/^replay: attnfuzz //p' log)
expect 0 "40 cases in" --finite --entry "$call"
grep -q "found before" log && { echo "a failure of another function is tried"; cat log; wrong=1; }
eval "\"\$attnfuzz\" $replay" >replayed 2>&1
[ $? -eq 1 ] || { echo "the failure of another function does not fail again"; cat replayed; wrong=1; }
of=mine.cu
# Without clang, g++ builds it again, and each property measures the same errors.
if [ -n "$gxx" ]; then
  cp "$source" mine.cu
  for tool in ninja make as ld ar ranlib g++; do ln -s "$(command -v $tool)" none/ 2>/dev/null; done
  PATH=$PWD/none CXX= expect 0 "mine.cu: built for the CPU executor by g++ [0-9]* (.*/none/g++)" --entry "$call" &&
    errors >by_gxx
  grep -q GNU mine-*.attnfuzz/build/CMakeFiles/*/CMakeCXXCompiler.cmake && grep -q "interval_weight  *2  *2 " by_gxx &&
    cmp by_clang by_gxx || { echo "g++ and clang differ"; diff by_clang by_gxx; wrong=1; }
fi
exit $wrong
