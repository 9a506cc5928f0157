#!/usr/bin/env bash
# cuda_oracle.sh ATTNFUZZ: a short campaign on a GPU with --oracle cuda must pass and count the results that the GPU
# judged.
set -u
attnfuzz=$1
source "$(dirname "$0")/../scratch.sh"
"$attnfuzz" campaign fa1 --backend cuda --oracle cuda --work 400000000 --for 6s --gpus 1 --gpu-jobs 2 --no-seeded-bug \
  --out "$out/night" >"$out/night.log" 2>&1
status=$?
if grep -q "there is no GPU here" "$out/night.log"; then
  cat "$out/night.log"
  exit 77
fi
[ $status -eq 0 ] || die "it ended with $status"
grep -q "oracle on .*: [1-9][0-9]* results" "$out/night.log" || die "the oracle on the GPU judged nothing"
