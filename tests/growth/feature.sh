#!/usr/bin/env bash
# A new feature takes a few files. feature.patch adds dropout to a copy of the tree, up to the problem that a
# kernel gets. properties/case is built there, and feature_shows.cc finds the feature in all code that walks
# over features. If a member of Feature is left out, the feature does not compile.
#
#   feature.sh SOURCE SCRATCH [COMPILER]      without COMPILER, only checks that the patch applies and counts its files
set -euo pipefail
source=$1 scratch=$2 compiler=${3:-}
most=4

die() { echo "$*" >&2; exit 1; }

rm -rf "$scratch"
mkdir -p "$scratch/tree"
git -C "$source" ls-files -co --exclude-standard -z | (cd "$source" && xargs -0 -r -n 500 ls -d 2>/dev/null || true) |
  tar -C "$source" -cf - -T - | tar -C "$scratch/tree" -xf -
patch -d "$scratch/tree" -p1 --fuzz=0 --no-backup-if-mismatch < "$source/tests/growth/feature.patch"
files=$(grep -c '^+++ ' "$source/tests/growth/feature.patch")
lines=$(grep -c '^+[^+]' "$source/tests/growth/feature.patch")
echo "a feature: $files files, $lines lines"
((files <= most)) || die "more than $most files"
[ -n "$compiler" ] || exit 0

cd "$scratch/tree"
feature=properties/case/features/scores/dropout.cc
compiles() { "$compiler" -std=c++20 -fsyntax-only -w -I. -x c++ - < "$1" 2> "$scratch/errors"; }
for file in $feature properties/case/codec/as_contract.cc; do
  compiles $file || { cat "$scratch/errors"; die "$file does not compile"; }
done
for member in $(sed -n '/^extern constinit/,/^};/s/^ *\.\([a-z_]*\) = .*/\1/p' $feature); do
  sed "/^    \.$member = .*,\$/d" $feature > "$scratch/open.cc"
  cmp -s $feature "$scratch/open.cc" && die "the example spreads .$member over several lines"
  compiles "$scratch/open.cc" && die "it compiles without .$member"
done

cmake -S . -B "$scratch/build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DATTNFUZZ_CUDA=OFF > "$scratch/log" ||
  { cat "$scratch/log"; die "it does not configure"; }
cmake --build "$scratch/build" --target attn_case > "$scratch/log" || { tail -30 "$scratch/log"; die "it does not build"; }
cd "$scratch/build"
"$compiler" -std=c++20 -I"$scratch/tree" "$source/tests/growth/feature_shows.cc" -o shows properties/case/libattn_case.a \
  reference/libattn_reference.a base/libattn_base.a "$(sed -n 's/^ATTNFUZZ_XXHASH:.*=//p' CMakeCache.txt)"
./shows
echo "and all code that walks over features finds it"
