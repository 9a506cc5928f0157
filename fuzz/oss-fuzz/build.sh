#!/bin/bash -eu
# Builds the fuzz targets as OSS-Fuzz requires: from $CC, $CXX, $CXXFLAGS, $LIB_FUZZING_ENGINE and
# $SANITIZER into $OUT, with everything that runs them.
#
#   $OUT/fuzz_NAME                    the targets, one for each file of fuzz/targets/ that defines one
#   $OUT/fuzz_NAME_seed_corpus.zip    corpus/
#   $OUT/fuzz_NAME.options            libFuzzer's limits
#   $OUT/fuzz_files.dict              the names that files hold
#   $OUT/attnfuzz-worker-*, libattn_* the workers, and the kernels that they load
#
# The project's own rules compile kernels and workers, in the build that fits $SANITIZER.
# $CXXFLAGS apply to the targets and, in fuzz_files, to the readers.
#
#   TARGETS   the targets to build, for example "files fa1" (default: all)
#   WORK      where to build
# The distribution's packages of cmake/install-packages.sh are needed.

source=$(cd "$(dirname "$0")/../.." && pwd)
build=${WORK:-/tmp}/attnfuzz
defined=$(grep -l 'FuzzTarget kFuzzTarget = ' "$source"/fuzz/targets/*.cc | xargs -n1 basename -s .cc)
targets=${TARGETS:-files calls $(echo $defined)}

case ${SANITIZER:-address} in
  address|undefined) build_kind=asan worker=attnfuzz-worker-cpu-asan build_kinds=asan ;;
  none|coverage|introspector) build_kind=coverage worker=attnfuzz-worker-cpu build_kinds= ;;
  *) echo "build.sh: no targets for SANITIZER=$SANITIZER: the distribution's libraries are not instrumented for" \
          "it; kernels are, so build with SANITIZER=none and ATTNFUZZ_BUILDS=msan, and run fuzz_fa1 --build=msan" >&2
     exit 2 ;;
esac

# The distribution's libraries are built with libstdc++, so libc++ must not be used.
flags=${CXXFLAGS:-}
flags=${flags//-stdlib=libc++/}
# These flags are for the targets only; CMake would apply them to everything.
unset CFLAGS CXXFLAGS
cmake -S "$source" -B "$build" -G Ninja -DATTNFUZZ_CUDA=OFF \
  -DCMAKE_C_COMPILER="$CC" -DCMAKE_CXX_COMPILER="$CXX" \
  -DATTNFUZZ_BUILDS="$build_kinds" -DATTNFUZZ_TARGETS_BUILD="$build_kind" \
  -DATTNFUZZ_FUZZ_FLAGS="$flags" -DATTNFUZZ_FUZZ_ENGINE="$LIB_FUZZING_ENGINE"

kernels=
for target in $targets; do
  # A target's file names the kernels that it judges.
  [[ $target == files ]] || kernels+=" $(tr -d '\n' <"$source/fuzz/targets/$target.cc" |
    sed -n -e 's/.*kFuzzTarget = {[^{]*{\([^}]*\)}.*/\1/p' -e 's/.*open_kernels([^{]*{\([^}]*\)}.*/\1/p' | tr -d '",')"
done
kernels=$(tr ' ' '\n' <<<"$kernels" | sed '/^$/d' | sort -u)
wanted=()
for target in $targets; do wanted+=("fuzz_$target"); done
for kernel in $kernels; do wanted+=("attn_${kernel}_cpu-$build_kind"); done
[[ -z $kernels ]] || wanted+=("$worker")
cmake --build "$build" --target "${wanted[@]}"

mkdir -p "$OUT"
for kernel in $kernels; do cp "$build/lib/libattn_${kernel}_cpu-$build_kind.so" "$OUT/"; done
[[ -z $kernels ]] || cp "$build/bin/$worker" "$OUT/"
for target in $targets; do
  cp "$build/bin/fuzz_$target" "$OUT/"
  rm -f "$OUT/fuzz_${target}_seed_corpus.zip"
  (cd "$source/corpus" && python3 -m zipfile -c "$OUT/fuzz_${target}_seed_corpus.zip" ./*/)
  # The parent holds a case's tensors, so it needs memory. A hang is judged twice, so it needs time.
  printf '[libfuzzer]\nrss_limit_mb = 4096\ntimeout = 180\nmax_len = 16384\n' >"$OUT/fuzz_$target.options"
done
if [[ " $targets " == *" files "* ]]; then
  # The dictionary is made of the quoted names in the readers.
  grep -oh '"[a-z][a-z_0-9]*"' "$source"/properties/case/codec_*.cc "$source"/properties/case/{case,codec_fields}.h \
    "$source/properties/reduce/reproducer.cc" | sort -u | sed 's/"\(.*\)"/"\\"\1\\""/' >"$OUT/fuzz_files.dict"
fi
