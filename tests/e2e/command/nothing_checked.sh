#!/usr/bin/env bash
# nothing_checked.sh ATTNFUZZ FAKES MINE: checks that a run which checks nothing does not
# pass. FAKES is the folder of the fake kernels. MINE is a right kernel that refuses some
# problems; its plan leaves its sums open.
#
# Other fuzzers have called such runs a success: a script never loaded its kernel, a
# launch ran nothing, a kernel refused every problem.
set -u
attnfuzz=$1 fakes=$2 mine=$3
corpus=$(dirname "$0")/../../../corpus
seed=$corpus/seeds/window.case.json
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
bad=0

# ends STATUS SENTENCE ARGUMENTS...: checks the status and the output of attnfuzz.
ends() {
  local wanted=$1 sentence=$2 said status
  shift 2
  said=$("$attnfuzz" "$@" --out "$out/found" 2>&1 </dev/null)
  status=$?
  if [ "$status" -ne "$wanted" ] || ! grep -qF -- "$sentence" <<<"$said"; then
    echo "attnfuzz $*: status $status, wanted $wanted and: $sentence"
    tail -n 5 <<<"$said"
    bad=$((bad + 1))
  fi
}

few=(--cases 60 --jobs 1 --allow-stale)
# The library does not exist.
ends 2 "nowhere.so" check "$out/nowhere.so" "${few[@]}"
ends 2 "attn_kernel_at" check "$fakes/no_export.so" "${few[@]}"
ends 2 "no_kernels.so" check "$fakes/no_kernels.so" "${few[@]}"
ends 2 "undefined.so" check "$fakes/undefined.so" "${few[@]}"
# The kernel refuses everything. The cases of another kernel do not count for it.
ends 1 "no result of refuse was compared" check "$fakes/behaviours.so:refuse" "${few[@]}"
ends 1 "no result of refuse was compared" check fa1 "$fakes/behaviours.so:refuse" "${few[@]}"
# The kernel returns ATTN_OK and has run nothing.
ends 1 "was never written" check "$fakes/behaviours.so:idle" "${few[@]}"
# A case that was once reported as wrong, and for which today's bounds allow nearly any result: two scores of 2^27 that
# differ in their last bit. (Equal scores are judged.)
printf '{"reproducer": 1, "kernel": "fa1", "backend": "cpu", "property": "reference", "kind": "wrong", "message": "", "about": "", "case": %s}' \
  "$(sed 's/"0x4d2f5c29","d":1/"0x4d2f5c2a","d":1/' "$corpus/regressions/separate-scale-huge-bias.case.json")" >"$out/unjudged.attn.json"
said=$("$attnfuzz" replay "$out/unjudged.attn.json" --allow-stale 2>&1)
[ $? -eq 1 ] && grep -qF "not judged: its file says 'wrong'" <<<"$said" || { echo "replay of what cannot be judged: $said"; bad=1; }
# A bare case that cannot be judged, of the same kind: its file says nothing of a failure.
printf '{"format": 1, "env": {"variant": 0}, "problem": {"seq_q": 4, "seq_k": 65, "dim_qk": 64, "dim_v": 64, "scale": 1e7},
  "q": {"kind": "gaussian", "seed": 1}, "k": {"kind": "gaussian", "seed": 2}, "v": {"kind": "gaussian", "seed": 3}}' >"$out/bare.case.json"
said=$("$attnfuzz" replay "$out/bare.case.json" --kernel fa1 --allow-stale 2>&1)
[ $? -eq 1 ] && grep -qF "so this is no pass" <<<"$said" || { echo "replay of a bare case that cannot be judged: $said"; bad=1; }
# A case of an operation that the kernel does not have. It must not become a case of another one.
for kernel in merge nsa; do
  said=$("$attnfuzz" replay "$seed" --kernel $kernel --allow-stale 2>&1)
  [ $? -eq 1 ] && grep -qF "the case asks for the operation forward, and $kernel would run a case of " <<<"$said" ||
    { echo "replay of a forward case on $kernel: $said"; bad=1; }
  said=$("$attnfuzz" explain "$seed" --kernel $kernel --allow-stale 2>&1)
  [ $? -eq 2 ] && grep -qF "name a kernel that has the operation" <<<"$said" || { echo "explain of a forward case on $kernel: $said"; bad=1; }
done
# A kernel of one variant takes a file that names none. Variant 1, if the file names it, is refused.
echo '{"format": 1}' >"$out/least.case.json" && echo '{"format": 1, "env": {"variant": 1}}' >"$out/first.case.json"
said=$("$attnfuzz" replay "$out/least.case.json" --kernel "$mine" --allow-stale 2>&1)
[ $? -eq 0 ] && grep -qF "names no variant, and mine has no variant 1, so the kernel chooses" <<<"$said" || { echo "replay of the least case: $said"; bad=1; }
said=$("$attnfuzz" replay "$out/first.case.json" --kernel "$mine" --allow-stale 2>&1)
[ $? -eq 1 ] && grep -qF "variant 1 is not one of 0..0" <<<"$said" || { echo "replay of variant 1: $said"; bad=1; }
# No case or no property is left.
ends 1 "no result of fa1 was compared" check fa1 --cases 0 --jobs 1 --allow-stale
ends 2 "no property is left to judge" check fa1 --property stages "${few[@]}"
# If the requested judge cannot judge, no other one replaces it silently.
ends 1 "the plan leaves accumulator open" check "$mine" --arithmetic device:h200 --property bit_exact -v "${few[@]}"
ends 1 "nothing was judged by cpu_gpu_bits" check "$mine" --peer fa1 --property cpu_gpu_bits --property reference "${few[@]}"
CUDA_VISIBLE_DEVICES= ends 2 "(--oracle cpu)" check fa1 --oracle cuda "${few[@]}"
said=$(CUDA_VISIBLE_DEVICES= "$attnfuzz" replay "$seed" --kernel fa1 --oracle cuda --allow-stale 2>&1)
[ $? -eq 2 ] && grep -qF "(--oracle cpu)" <<<"$said" || { echo "replay --oracle cuda without a GPU: $said"; bad=1; }
ends 2 "or leave --batch out" check fa1 --property reference --batch 8 "${few[@]}"
# `limits` fails if the kernel takes nothing.
said=$("$attnfuzz" limits "$fakes/behaviours.so:refuse" --allow-stale)
[ $? -eq 1 ] && grep -q "takes 0 (0.0 %)" <<<"$said" || { echo "limits of a kernel that refuses all: $said"; bad=1; }

[ "$bad" -eq 0 ] && echo "no run that checked nothing has passed"
