#!/usr/bin/env bash
# stale.sh CMAKE BUILD GENERATOR CXX [CUDA]
#
# A team lost a week because Split-K counted each row's sum twice, the source was
# corrected, and the library was not built again. Here a project has that kernel.
# `check` must refuse the stale library and name the file that changed. With
# --allow-stale it must find the bug. It must pass the library that is built from the
# corrected source.
set -u
cmake=$1 build=$2 generator=$3 cxx=$4
source=$(cd "$(dirname "$0")/../../.." && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
die() {
  echo "$*"
  tail -60 "$out"/log
  exit 1
}

"$cmake" --install "$build" --prefix "$out/attnfuzz" >"$out/log" 2>&1 || die "it cannot be installed"
attnfuzz=$out/attnfuzz/bin/attnfuzz

# The team's tree has today's splitk in one small instantiation, with the bug.
mkdir -p "$out/team/kernels"
cp -r "$source/kernels/splitk" "$source/kernels/forward" "$out/team/kernels/"
cp "$source/tests/bugs/one_shape/kernels/splitk/shapes.h" "$out/team/kernels/splitk/"
patch -d "$out/team" -p1 --batch <"$source/tests/bugs/known/forward/split/reduction-double-count.patch" >"$out/log" 2>&1 ||
  die "the bug cannot be planted"
cat >"$out/team/CMakeLists.txt" <<'LISTS'
cmake_minimum_required(VERSION 3.25)
project(team LANGUAGES CXX)
find_package(attnfuzz REQUIRED)
file(GLOB sources ${PROJECT_SOURCE_DIR}/kernels/splitk/*.cu ${PROJECT_SOURCE_DIR}/kernels/forward/*.cu)
attnfuzz_add_kernel(NAME team BACKENDS cpu BUILDS plain INCLUDES ${PROJECT_SOURCE_DIR} SOURCES ${sources})
LISTS
cd "$out/team" || exit 1
"$cmake" -B build -G "$generator" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$out/attnfuzz" \
  -DATTNFUZZ_CUDA=OFF >"$out/log" 2>&1 || die "the project cannot be configured"
"$cmake" --build build >"$out/log" 2>&1 || die "the project cannot be built"

# check STATUS SENTENCE [ARGUMENT...]: checks the status and the output of attnfuzz check.
check() {
  local status=$1 sentence=$2
  shift 2
  "$attnfuzz" check ./build/lib/libattn_team_cpu.so --cases 200 --reduce-seconds 2 --out "$out/found" "$@" >"$out/log" 2>&1
  local ended=$?
  [ "$ended" -eq "$status" ] || die "check $* ended with $ended, not $status"
  grep -qF "$sentence" "$out/log" || die "check $* does not say: $sentence"
  grep -F "$sentence" "$out/log" | head -1 | cut -c-160
}
check 1 "found in case"

# The source is corrected, and the library is not built again.
patch -d "$out/team" -p1 -R --batch <"$source/tests/bugs/known/forward/split/reduction-double-count.patch" >"$out/log" 2>&1 ||
  die "the bug cannot be taken out"
check 2 "is stale: kernels/splitk/kernel.h has changed since it was built"
check 1 "found before, and still there" --allow-stale
check 1 "STALE: kernels/splitk/kernel.h has changed" --allow-stale

"$cmake" --build build >"$out/log" 2>&1 || die "the project cannot be built again"
check 0 "as in the tree" -v
