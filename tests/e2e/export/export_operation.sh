#!/usr/bin/env bash
# export_operation.sh cpp|python ATTNFUZZ BAD GOOD INCLUDE OPERATION TOOL: checks the exported program of a finding of
# an operation other than the forward pass. It shows the failure with the kernel BAD, and no failure with the right
# kernel GOOD. The other arguments are those of export.sh.
set -u
language=$1 attnfuzz=$2 bad=$3 good=$4 include=$5 operation=$6 tool=${7:-}
. "$(dirname "$0")/export_setup.sh"

"$attnfuzz" check "$bad" --property reference --cases 300 --jobs 1 --out "$out/check" >"$out/check.log" 2>&1
file=$(ls "$out"/check/*.attn.json | head -1)
[ -n "$file" ] || die "nothing was found"
grep -q "$operation B=" "$out/check.log" || die "the finding is not of $operation"
"$attnfuzz" export "$file" --kernel "$bad" "--$language" --out "$out/found.$suffix" >"$out/export.log" 2>&1 || die "export failed"
[ -s "$out/export.log" ] && die "export has something to say"
compile
try() { # STATUS LIBRARY
  if [ "$language" = cpp ]; then "$out/found" "$2" "$executor"; else "$tool" -W error "$out/found.py" "$2" "$executor"; fi >"$out/try.log" 2>&1
  [ $? -eq "$1" ] || die "$2: another status than $1"
}
executor=$(dirname "$good")/libattnfuzz-executor.so
try 1 "$bad"
grep -qE '^ *((o|lse|dq|dk|dv)\(b=[0-9]+,h=[0-9]+,[qk]=|cache_[kv]\(store=[0-9]+,h=[0-9]+,slot=)[0-9]+' "$out/try.log" || die "it is not said what is wrong"
try 0 "$good"
echo "the failure shows, a right kernel holds ($language)"
