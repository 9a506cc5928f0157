#!/usr/bin/env bash
# consumer.sh CMAKE BUILD GENERATOR CXX [CUDA]
#
# Builds a separate project (consumer/) against an installed attnfuzz. BUILD is
# installed, the installation is moved, and the project gets only its path. The
# project's checks must pass. Then its sources are edited without a build, and
# its kernel is broken; its checks must name both faults. CUDA is ON, OFF or AUTO
# (default): does the project also build for CUDA?
set -u
cmake=$1 build=$2 generator=$3 cxx=$4 cuda=${5:-AUTO}
here=$(cd "$(dirname "$0")" && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
ctest=$(dirname "$cmake")/ctest
die() {
  echo "$*"
  tail -60 "$out"/log
  exit 1
}

"$cmake" --install "$build" --prefix "$out/built-for" >"$out/log" 2>&1 || die "it cannot be installed"
mv "$out/built-for" "$out/attnfuzz"
if grep -rlF -e "$build" -e "$out/built-for" "$out/attnfuzz/lib/cmake" "$out/attnfuzz/include"; then
  die "these files know where they were built"
fi
for header in $(cd "$here/../../../kernels/cuda_source/include" && find . -type f); do
  [ -f "$out/attnfuzz/include/attnfuzz/kernels/cuda_source/include/$header" ] || die "$header is not installed"
done
attnfuzz=$out/attnfuzz/bin/attnfuzz

cp -r "$here/../consumer" "$out/project"
cd "$out/project" || exit 1
"$cmake" -B build -G "$generator" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$out/attnfuzz" \
  -DATTNFUZZ_CUDA="$cuda" >"$out/log" 2>&1 || die "the project cannot be configured"
"$cmake" --build build >"$out/log" 2>&1 || die "the project cannot be built"
library=build/lib/libattn_afternoon_cpu.so

# checks REGEX: runs the project's ctest entries; the log gets their output.
checks() { "$ctest" --test-dir build -j2 --output-on-failure --no-tests=error -R "$1" >"$out/log" 2>&1; }

checks . || die "the checks of a right kernel fail"
grep -E '^ *[0-9]+/[0-9]+ Test|Skipped' "$out/log"

# The smallest project is the example that README.md shows.
cp -r "$here/../../../examples" "$out/example"
# Its CMakeLists.txt is changed to the names of version 0.1, which are accepted for one more version.
sed -i 's/ CHECKS CASES \([0-9]*\) BUILD_CASES/ LANES plain CHECKS CASES \1 LANE_CASES/' "$out/example/CMakeLists.txt"
grep -q "LANES plain CHECKS" "$out/example/CMakeLists.txt" || die "consumer.sh: the example calls attnfuzz_add_kernel otherwise"
"$cmake" -S "$out/example" -B "$out/example/build" -G "$generator" -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_PREFIX_PATH="$out/attnfuzz" -DATTNFUZZ_CUDA=OFF -DATTNFUZZ_LANES= >"$out/log" 2>&1 &&
  "$cmake" --build "$out/example/build" >"$out/log" 2>&1 || die "the example cannot be built"
"$ctest" --test-dir "$out/example/build" --output-on-failure --no-tests=error >"$out/log" 2>&1 || die "the example's checks fail"

# A source is edited, and the library is not built again.
echo "// edited" >>src/attention.cuh
"$attnfuzz" check "$library" --cases 5 --out "$out/found" >"$out/log" 2>&1
[ $? -eq 2 ] || die "a stale kernel was not refused"
grep -q "is stale: src/attention.cuh has changed" "$out/log" || die "the refusal does not name the file"
checks '^check.afternoon$' && die "the checks of a stale kernel pass"
"$cmake" --build build --target attn_afternoon_cpu >"$out/log" 2>&1 || die "it cannot be built again"
"$attnfuzz" check "$library" --cases 5 --out "$out/found" >"$out/log" 2>&1 || die "what was built again is refused"
grep -q "most cases of what it refuses: bias, softcap, head dimensions above 64" "$out/log" || die "it is not said what is refused"

# breaks PATTERN REPLACEMENT BUILD TEST FINDING: edits the kernel, builds BUILD, and checks that TEST fails and prints
# FINDING.
breaks() {
  cp "$here/../consumer/src/attention.cu" src/
  sed -i "s|$1|$2|" src/attention.cu
  cmp -s "$here/../consumer/src/attention.cu" src/attention.cu && die "consumer.sh: nothing matches $1"
  "$cmake" --build build --target "attn_afternoon_$3" >"$out/log" 2>&1 || die "the broken kernel cannot be built"
  checks "^$4\$" && die "$4 passes a kernel with $1 broken"
  grep -q "$5" "$out/log" || die "$4 does not speak of $5"
  echo "$4 finds $5: $(sed -n '/FAIL (/{n;s/^[^a-zA-Z]*//;p;}' "$out/log" | head -1)"
}
breaks 'if (seen) {' 'if (true) {' cpu check.afternoon 'non-finite'
line=$(sed -n 's/^.*replay: attnfuzz //p' "$out/log")
eval "\"\$attnfuzz\" $line" >"$out/log" 2>&1
[ $? -eq 1 ] || die "this does not fail again: attnfuzz $line"
if [ -e build/lib/libattn_afternoon_cpu-tsan.so ]; then
  breaks '__syncthreads();  // before' '// before' cpu-tsan check.afternoon.tsan 'race'
fi
if [ -e build/lib/libattn_afternoon_cpu-msan.so ]; then
  breaks 'float l = 0.0f;' 'float l;' cpu-msan check.afternoon.msan 'uninitialised'
fi
if [ -e build/lib/libattn_afternoon_cpu-asan.so ]; then
  breaks 'd < a.dim_v; ++d) o_row' 'd <= a.dim_v; ++d) o_row' cpu-asan check.afternoon.asan 'address'
fi
