#!/usr/bin/env bash
# shipped.sh CMAKE SOURCE [FILE]
#
# Compiles the kernels with fast paths for a GPU, with the options of the bundle: a kernel that spills registers, or
# whose wgmma products are serialised, fails the build (cmake/check-ptxas.cmake). With FILE, for instance
# splitk/hopper/hopper.cu, compiles only this source.
set -eu
cmake=$1 source=$2 file=${3:-}
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cd "$source"
"$cmake" --preset bundle -B "$build" >"$build/log" 2>&1 || { tail -30 "$build/log"; exit 1; }
asked() {
  grep -q "Xptxas=-v.*/kernels/$1" "$build/compile_commands.json" || { echo "$1 is not asked whether it spills"; exit 1; }
}
if [ -n "$file" ]; then
  asked "$file"
  "$cmake" --build "$build" --target "kernels/CMakeFiles/attn_${file%%/*}_cuda.dir/$file.o"
  exit
fi
for file in fa1/ampere/d64.cu fa1/ampere/d128.cu fa1/hopper/hopper.cu splitk/hopper/hopper.cu \
  splitk/hopper/latent.cu; do asked "$file"; done
"$cmake" --build "$build" --target attn_fa1_cuda attn_splitk_cuda
