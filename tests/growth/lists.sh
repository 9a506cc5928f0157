#!/usr/bin/env bash
# lists.sh SOURCE CMAKE CC CXX
#
# Shows which files must be touched to add a kernel, a fuzz target, a property, a known
# bug or a build, by adding each to a copy of the source tree. Each example prints how
# many files it touched; that number has a limit. Then the build, the package and ctest
# must know the new things. Nothing is compiled.
set -euo pipefail
source=$(cd "$1" && pwd) cmake=$2 cc=$3 cxx=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
die() { echo "lists.sh: $*"; exit 1; }

tree() { mkdir "$work/$1" && tar -C "$source" --exclude=./build --exclude=./.git --exclude=./shared -cf - . | tar -C "$work/$1" -xf -; }
tree before
tree after
cd "$work/after"

# touched NAME MOST: prints the files that changed since the last call, and fails if they are more than MOST.
touched() {
  local files
  files=$({ diff -rqN "$work/before" "$work/after" || true; } | sed 's/^Files .* and //; s/ differ$//' | sed "s|$work/after/||")
  echo "$1: $(wc -l <<<"$files") files:" $files
  [ "$(wc -l <<<"$files")" -le "$2" ] || die "$1 touches more than $2 files"
  cp -r "$work/after/." "$work/before/"
}
# line_after FILE PATTERN LINE: adds the line after each line of the file that matches.
line_after() { sed -i "/$2/a $3" "$1"; grep -qF -- "$(sed 's/^\\//' <<<"$3")" "$1" || die "nothing in $1 matches $2"; }

mkdir kernels/grown  # one file here; a kernel may of course have more
cat kernels/fa1/*.cu | sed 's/"fa1"/"grown"/' >kernels/grown/grown.cu
line_after kernels/CMakeLists.txt '^attnfuzz_own_kernel(splitk)' 'attnfuzz_own_kernel(grown)'
touched kernel 2

sed 's/fuzz_fa1/fuzz_grown/' fuzz/targets/fa1.cc >fuzz/targets/grown.cc
touched target 1

sed 's/constant_value/grown_holds/g' properties/operations/forward/relations/values/constant_value.cc >properties/operations/forward/relations/grown_holds.cc
line_after properties/operations/forward/relations/CMakeLists.txt '^  constant_value' '\  grown_holds'
touched property 2

cp tests/bugs/known/forward/softmax/{masked-tile,grown}-nan.patch
touched bug 1

line_after cmake/AttnfuzzBuilds.cmake '^attnfuzz_build_kind(coverage' 'attnfuzz_build_kind(grown      asan 12 "an example" -fsanitize=address)'
touched build 1

"$cmake" -S . -B build -G Ninja -DATTNFUZZ_CUDA=OFF -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx" \
  -DCMAKE_BUILD_TYPE=Release -DATTNFUZZ_BUILDS="asan;grown" -DATTNFUZZ_BUGS=grown-nan >"$work/log" 2>&1 ||
  { tail -30 "$work/log"; die "the copy cannot be configured"; }
cd build
ninja -t targets all >"$work/targets"
"$(dirname "$cmake")/ctest" -N >"$work/tests" 2>&1
knows() { grep -qE -- "$2" "$1" || die "nothing there matches $2"; }
for name in attn_grown_cpu attn_grown_cpu-asan attn_grown_cpu-coverage attn_grown_cpu-grown fuzz_grown replay_grown \
  attn_bug-grown-nan_cpu attn_fa1_cpu-grown; do
  knows "$work/targets" "^$name:"
done
for name in check.grown.reference check.grown.asan check.grown.grown check.fa1.grown seed.grown.window corpus.campaign.grown \
  target.grown.corpus check.fa1.grown_holds bug.grown-nan; do
  knows "$work/tests" " $name\$"
done
knows cmake_install.cmake 'libattn_grown_cpu-grown.so'
ninja -t commands check >"$work/check"
grep -q 'check fa1 splitk grown' "$work/check" || die "the target check does not check the kernel"
# README.md's first command, target check, must build what its next lines use. Target tools, for an installation, must
# build no kernel.
for made in bin/attnfuzz bin/attnfuzz-worker-cpu bin/attnfuzz-identity bin/attnfuzz-translate lib/attnfuzz/libattn_seeded_bug_cpu.so \
  lib/libattnfuzz-executor.so lib/libattn_fa1_cpu-coverage.so lib/libattn_splitk_cpu-coverage.so; do
  grep -qF -- "-o $made " "$work/check" || die "the target check does not build $made"
done
ninja -t commands tools >"$work/tools"
grep -qF -- '-o lib/attnfuzz/libattn_seeded_bug_cpu-grown.so ' "$work/tools" || die "the target tools does not build the seeded bugs"
grep -E -- '-o lib/libattn_(fa1|splitk|grown)' "$work/tools" && die "the target tools builds kernels"
grep -q 'grown_holds' properties/operations/forward/relations/registry.cc || die "the registry has no such property"
grep -q '"grown", BuildKind::kBuilt, "asan"' fuzz/host/build_kinds.cc || die "the commands have no such build"
ninja bug-tree-grown-nan >"$work/log" 2>&1 || { cat "$work/log"; die "the bug's patch does not apply"; }
# A feature that lies in no folder would be left out silently.
touch ../properties/case/features/grown.cc
"$cmake" . >"$work/log" 2>&1 && die "a feature directly in features/ is not refused"
grep -q 'features/grown.cc is in no folder' "$work/log" || { tail -30 "$work/log"; die "it is refused for another reason"; }
echo "known to build, package and ctest"
