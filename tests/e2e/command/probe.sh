#!/usr/bin/env bash
# probe.sh ATTNFUZZ LIBRARY SEEDS: LIBRARY has the bug masked-tile-nan. Its intermediates
# must show where it first goes wrong, both against the oracle and against the bits of a
# right kernel. The intermediates of right kernels must show nothing on any case of SEEDS.
set -u
attnfuzz=$1 library=$2 seeds=$3
source "$(dirname "$0")/../scratch.sh"

"$attnfuzz" check "$library" --cases 200 --jobs 2 --out "$out/found" >"$out/check.log" 2>&1
file=$(ls "$out"/found/*.attn.json) || die "no reproducer"
bug=(--kernel "$library")
"$attnfuzz" replay "$file" "${bug[@]}" --probe --json "$out/probe.json" >"$out/replay.log" 2>&1
[ $? -eq 1 ] || die "replay --probe did not end with status 1"
# Scores and maximum are right, but P of the masked tile is NaN.
grep -q "first wrong: P of tile 1 at (b=0,h=0,q=0), key 64: nan, expected 0" "$out/replay.log" ||
  die "the first NaN is not seen in P of tile 1"
grep -q '"what":"P","tile":1,' "$out/probe.json" || die "the JSON does not say where it goes wrong"
"$attnfuzz" explain --ascii "$file" "${bug[@]}" --probe >"$out/explain.log" 2>&1
grep -q "first wrong: P of tile 1" "$out/explain.log" || die "explain --probe does not say where it goes wrong"
# A block that does not exist records nothing. A malformed place is refused.
"$attnfuzz" replay "$file" "${bug[@]}" --probe 77,3 >"$out/nowhere.log" 2>&1
grep -q "no probe: nothing was recorded" "$out/nowhere.log" || die "block 77 was probed"
for place in 1 a,b 1,2,3 1,2,3,4,5 1,-1; do
  "$attnfuzz" replay "$file" "${bug[@]}" --probe "$place" >"$out/bad.log" 2>&1
  [ $? -eq 2 ] || die "--probe $place was not refused"
done

# Comparing a right kernel's bits with the bug's: they first differ in P of that tile, and the message names it.
"$attnfuzz" check fa1 --peer "$library" --property cpu_gpu_bits --cases 200 --jobs 2 --reduce-seconds 1 \
  --out "$out/bits" >"$out/bits.log" 2>&1
[ $? -eq 1 ] || die "cpu_gpu_bits does not fail beside a peer build with a bug"
grep -q '"kind": "bits"' "$out"/bits/*.attn.json || die "the failure is not of the kind bits"
# The reduced case may be smaller, but its bits first differ in P as well.
parts='; it repeats itself; first in P of tile [0-9]* at (b=[0-9]*,h=[0-9]*,q=[0-9]*), key [0-9]*: 0x[0-9a-f]*, of the peer build 0x[0-9a-f]*; block'
grep -q "$parts" "$out"/bits/*.attn.json || die "the file does not say where the bits first differ"
eval "\"\$attnfuzz\" $(sed -n 's/^replay: attnfuzz //p' "$out/bits.log")" >"$out/bits-replay.log" 2>&1
[ $? -eq 1 ] || die "the failure of bits does not fail again"
grep -q "$parts" "$out/bits-replay.log" || die "replay does not say where the bits first differ"
"$attnfuzz" check fa1 --property cpu_gpu_bits --cases 10 --out "$out/alone" >"$out/alone.log" 2>&1
[ $? -eq 2 ] || die "cpu_gpu_bits without a peer build is not refused"

probed=0
for kernel in fa1 splitk; do
  for seed in "$seeds"/*.case.json; do
    "$attnfuzz" replay --kernel "$kernel" "$seed" --probe --json "$out/right.json" >"$out/right.log" 2>&1
    [ $? -eq 0 ] || die "$kernel: $seed failed"
    if grep -q '"why_not"' "$out/right.json"; then continue; fi
    grep -q '"first_wrong":null' "$out/right.json" || die "$kernel: $seed: an intermediate of a right kernel is called wrong"
    grep -q '"wrong":[1-9]' "$out/right.json" && die "$kernel: $seed: a number of a right kernel is marked"
    probed=$((probed + 1))
  done
done
[ "$probed" -ge 40 ] || die "only $probed cases recorded anything"
echo "the bug's first NaN was seen in P; $probed probes of right kernels agree with the oracle"
