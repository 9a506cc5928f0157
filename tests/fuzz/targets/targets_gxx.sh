#!/bin/bash
# Checks that fuzz targets build with g++ and a plain main, and judge the seeds. Their own
# sources (harness, units, every target's file) are compiled here; the libraries are those
# of the build.
#
#   targets_gxx.sh CXX SOURCE_DIR BIN_DIR LIBRARY...
set -euo pipefail
cxx=$1 source=$2 bin=$3
shift 3
# The targets must be in the build's bin/, because they look for workers and kernels there.
dir=$(mktemp -d "$bin/gxx-XXXXXX")
trap 'rm -rf "$dir"' EXIT
cd "$dir"
flags=(-std=c++20 -O0 -Wall -Wextra -Werror "-I$source" '-DATTNFUZZ_TARGETS_BUILD="coverage"')
for file in "$source"/fuzz/targets/*.cc; do
  "$cxx" "${flags[@]}" -c "$file" -o "$(basename "$file" .cc).o"
done
for target in files calls $(grep -l 'FuzzTarget kFuzzTarget = ' "$source"/fuzz/targets/*.cc | xargs -n1 basename -s .cc); do
  parts="$target.o replay_main.o unit.o"
  folder=seeds
  case $target in
    files) ;;
    calls) parts="calls.o replay_main.o counters.o flags.o open.o" folder=calls ;;
    *) parts+=" bench.o counters.o flags.o harness.o open.o" ;;
  esac
  $cxx -o ../gxx-replay-$target $parts -Wl,--start-group "$@" -Wl,--end-group -lrapidcheck
  status=0
  ../gxx-replay-$target "$source/corpus/$folder" >log 2>&1 || status=$?
  rm ../gxx-replay-$target
  (( status == 0 )) || { cat log; echo "$target: ended with $status"; exit 1; }
  echo "$target: $(tail -1 log)"
done
