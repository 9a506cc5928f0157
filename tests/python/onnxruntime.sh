#!/usr/bin/env bash
# onnxruntime.sh ATTNFUZZ PACKAGE FOLDER: its targets hold but for what is known, and what is known still shows. FOLDER is venv.sh's.
set -u
attnfuzz=$1 package=$2 folder=$3 here=$(cd "$(dirname "$0")" && pwd)
[ -e "$folder/made" ] || {
  echo "SKIPPED: $(cat "$folder/why" 2>/dev/null || echo "$folder was not built")"
  exit 77
}
export ATTNFUZZ_PYTHON=$folder/venv/bin/python PYTHONPATH=$package
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
file=$package/attnfuzz/targets/onnx_attention.py
for target in ort ort_f32 ort_lengths ort_gqa ort_gqa_decode ort_mha ort_mha_causal; do
  "$attnfuzz" check "$file:$target" --cases 60 --jobs 2 --work 100000 --out "$out" >"$out/log" 2>&1 || {
    echo "$target does not hold"
    cat "$out/log"
    exit 1
  }
done
found=$here/../../docs/found/onnxruntime/onnxruntime-mha-causal-lengths.attn.json
ATTNFUZZ_KNOWN=1 "$attnfuzz" replay "$found" --kernel "$file:ort_mha" >"$out/log" 2>&1
[ $? -eq 1 ] || {
  echo "$found is found no more: is it another version?"
  cat "$out/log"
  exit 1
}
echo "seven targets of onnxruntime hold, and what is known of one shows"
