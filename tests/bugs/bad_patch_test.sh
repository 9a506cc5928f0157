#!/usr/bin/env bash
# bad_patch_test.sh CMAKE PATCH
#
# Checks that apply.cmake makes the tree of a good patch, keeps the time of files that did
# not change, and refuses each kind of bad patch with a sentence that names it; and that
# all_apply.cmake tries the patches of every folder, each in the tree that it changes.
set -u
cmake=$1 program=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

apply() {
  "$cmake" -D patches="$1" -D source="$here/../.." -D overlay="$here/one_shape" -D tree="$work/tree" \
    -D stamp="$work/stamp" -D program="$program" -P "$here/apply.cmake" >"$work/log" 2>&1
}

refused() {  # refused NAME PATTERN: the patch of that name is not applied, for the reason given
  rm -f "$work/stamp"
  if apply "$work/$1.patch" || [ -e "$work/stamp" ]; then
    echo "$1.patch was applied"
    failed=1
  # CMake wraps its messages, so line ends are read as spaces.
  elif ! tr -s ' \n' ' ' <"$work/log" | grep -q "/$1.patch.*$2"; then
    echo "$1.patch was refused without '$2':"
    cat "$work/log"
    failed=1
  fi
}

good=$here/known/forward/softmax/masked-tile-nan.patch
apply "$good" || { cat "$work/log"; exit 1; }
cmp -s "$work/tree/kernels/forward/online_softmax.h" "$here/../../kernels/forward/online_softmax.h" &&
  { echo "nothing was patched"; failed=1; }
cmp -s "$work/tree/kernels/fa1/shapes.h" "$here/one_shape/kernels/fa1/shapes.h" ||
  { echo "not the one small instantiation"; failed=1; }
touch -d 2001-01-01 "$work"/tree/kernels/forward/*.h
echo edited >"$work/tree/kernels/forward/scores.h"
touch "$work/tree/kernels/forward/none.h"
apply "$good" || { cat "$work/log"; failed=1; }
[ "$(find "$work/tree/kernels/forward" -name '*.h' -newermt 2002-01-01 -printf '%f ')" = "scores.h " ] ||
  { echo "more files than the edited one are new, or a file that no kernel has stayed"; failed=1; }

sed 's/^   quad_max(row_max);/   quad_max(row_maximum);/' "$good" >"$work/moved.patch"
refused moved "does not apply to kernels/ any more"
sed '/^Symptom/d' "$good" >"$work/without.patch"
refused without "the head has no 'Symptom: ...'"
sed 's/^Found by/Found/' "$good" >"$work/unknown.patch"
refused unknown "'Found' is no field of a head"
sed 's/^Origin: /Kernel: /' "$good" >"$work/twice.patch"
refused twice "'Kernel' is there twice"
sed '1i Build: fast' "$good" | sed '/^Build: plain/d' >"$work/build.patch"
refused build "'fast' is no build"
sed 's/^Fault: .*/Fault: softmaxx/' "$good" >"$work/fault.patch"
refused fault "'softmaxx' is no class of fault"
sed 's/^Class.*/some words; [and more/' "$good" >"$work/words.patch"
refused words "neither 'Field: value' nor"
head -3 "$good" | tr -d '\n' >"$work/cut.patch"
refused cut "there is no change after the head"

# A copy of this folder with few patches, because all_apply.cmake tries every patch of its own folder.
few=$work/source/tests/bugs
mkdir -p "$few/known/softmax" "$few/fresh/fa1" "$few/fresh/warp" "$few/thresholds"
ln -s "$(cd "$here/../.." && pwd)/cmake" "$work/source/cmake"
cp "$here/all_apply.cmake" "$here/head.cmake" "$few"
cp "$good" "$few/known/softmax"
cp -r "$here/fresh/kernels" "$few/fresh"
cp "$here/fresh/fa1/fa1-bias-of-ten.patch" "$few/fresh/fa1"
cp "$here/fresh/warp/warp-sentinel.patch" "$few/fresh/warp"

all_apply() {
  rm -f "$work/stamp"
  "$cmake" -D source="$here/../.." -D overlay="$here/one_shape" -D tree="$work/all" -D stamp="$work/stamp" \
    -D program="$program" -P "$few/all_apply.cmake" >"$work/log" 2>&1 && [ -e "$work/stamp" ]
}

not_all() {  # not_all FILE PATTERN: all_apply.cmake refuses only tests/bugs/FILE, for the reason PATTERN
  if all_apply || ! tr -s ' \n' ' ' <"$work/log" | grep -q "tests/bugs/$1 *$2" ||
    [ "$(tr -s ' \n' ' ' <"$work/log" | grep -o 'tests/bugs/[a-z0-9/-]*[.]patch' | sort -u)" != "tests/bugs/$1" ]; then
    echo "all_apply.cmake was to refuse only $1, with '$2':"
    cat "$work/log"
    failed=1
  fi
  rm "$few/$1"
}

all_apply || { cat "$work/log"; failed=1; }
cp "$work/moved.patch" "$few/known/softmax"
not_all known/softmax/moved.patch "does not apply any more"
sed '/^ /s/row/line/g' "$few/fresh/fa1/fa1-bias-of-ten.patch" >"$few/fresh/fa1/fa1-moved.patch"
not_all fresh/fa1/fa1-moved.patch "does not apply any more"
sed '/^ /s/sum/total/g' "$few/fresh/warp/warp-sentinel.patch" >"$few/fresh/warp/warp-moved.patch"
not_all fresh/warp/warp-moved.patch "does not apply any more"
sed 's/^Kernel: warp/Kernel: wrap/' "$few/fresh/warp/warp-sentinel.patch" >"$few/fresh/warp/warp-of-none.patch"
not_all fresh/warp/warp-of-none.patch ": its head names no kernel"
cp "$good" "$few/thresholds/nowhere.patch"
not_all thresholds/nowhere.patch ": all_apply.cmake does not know"
cp "$good" "$few"
not_all masked-tile-nan.patch ": all_apply.cmake does not know"

# Two bugs of one name in different folders.
cp "$here/known.cmake" "$few"
mkdir "$few/known/tails"
cp "$good" "$few/known/tails"
echo 'cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/known.cmake)
attnfuzz_known_bug(masked-tile-nan patch)' >"$few/ask.cmake"
if "$cmake" -P "$few/ask.cmake" >"$work/log" 2>&1 || ! grep -q "two patches masked-tile-nan.patch" "$work/log"; then
  echo "two bugs of one name were taken"
  cat "$work/log"
  failed=1
fi
rm -r "$few/known/tails"
"$cmake" -P "$few/ask.cmake" >"$work/log" 2>&1 || { cat "$work/log"; failed=1; }
[ "$failed" -eq 0 ] && echo "good patches apply, bad ones are refused in words"
exit "$failed"
