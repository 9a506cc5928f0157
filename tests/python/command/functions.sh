#!/usr/bin/env bash
# Right functions pass, of each form, format and operation.
set -u
. "$(dirname "$0")/tools.sh"

check right --cases 150 || die "the right one does not hold"
check into_out --cases 60 || die "one that writes into out= does not hold"

# A function with *args or **kwargs, an object that can be called, a partial; a dict of o and lse.
for form in spread named called part; do
  check $form --cases 40 || die "$form does not hold: $(cat "$out/log")"
  grep -q 'refused 0.0 %' "$out/log" || die "cases of $form were refused"
done
# Unsupported inside the declared domain is a refusal: such cases are drawn rarely, and the check names them.
check refuses_inside --cases 60 || die "a function that refuses some problems of its domain does not hold"
grep -q 'left out: .*seq_k above 1[0-9]' "$out/log" || die "it is not said what it refuses of its domain: $(cat "$out/log")"

# A function that prints more than a pipe holds still passes.
check chatty --cases 20 || die "one that prints much does not hold"

# Without ml_dtypes bf16 is left out, and that is said; with it there is nothing to say.
check no_bits --cases 40 || die "one that reads no bits does not hold"
if "$ATTNFUZZ_PYTHON" -c 'import ml_dtypes' 2>/dev/null; then
  grep -q 'bf16 is left out' "$out/log" && die "bf16 is left out where ml_dtypes is"
else
  grep -q 'note: bf16 is left out' "$out/log" || die "that bf16 is left out is not said"
  grep -q 'bf16 [1-9][0-9.]* %' "$out/log" && die "bf16 was drawn all the same"
fi

# Another operation than the forward pass.
check merged --cases 100 || die "a merge of two results does not hold"
check merged_unguarded --cases 100 --reduce-seconds 10 && die "a merge that gives NaN where neither side saw a key was not found"
grep -q 'sides with keys' "$out/log" || die "the reduced case does not say which sides saw keys"

check selected --cases 100 || die "attention over listed blocks does not hold"
grep -q 'refused 0.0 %' "$out/log" || die "cases of listed blocks were refused"
check none_is_block_0 --cases 200 --reduce-seconds 10 && die "-1 that is taken for block 0 was not found"
sed -n '/^FAIL/,/^replay/p' "$out/log" | grep -q 'lists of' || die "the reduced case of -1 does not say that it has lists"

# Scores of blocks, and lists: integers, of 32 bits too.
check scores --cases 100 || die "scores of blocks do not hold"
check lists_alone --cases 60 || die "lists without scores do not hold"
check lists_into --cases 60 || die "lists that are written into indices= do not hold"
check chooses_for_first_head --cases 200 --reduce-seconds 10 && die "a choice by the scores of one head was not found"
grep -qE '^FAIL .*: chosen.b=[0-9]+,h=[0-9]+,q=[0-9]+.*names block [0-9]+' "$out/log" || die "the failure does not say which block is wrong"
for wrong in 'lists_as_floats:of float32, and integers are due' 'lists_beyond_int32:beyond 32 bits, and int32 is due' \
  'scores_forgotten:scores are wanted and the target returned indices alone: declare Domain(lse=False)'; do
  check "${wrong%%:*}" --cases 60 --reduce-seconds 2 && die "${wrong%%:*} was not found"
  grep -qF "${wrong#*:}" "$out/log" || die "${wrong%%:*}: it does not say: ${wrong#*:}"
done

# A library that wakes the CUDA driver on import: each worker imports it by itself.
cc -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$out/fake_driver.so" "$(dirname "$targets")/fake_driver.c" || die "no C compiler"
ATTNFUZZ_FAKE_DRIVER=$out/fake_driver.so "$attnfuzz" check "$(dirname "$targets")/awake.py:target" --cases 40 --jobs 2 \
  --out "$out/awake" >"$out/log" 2>&1 || die "a target whose import wakes the driver does not hold"

check_example() {
  "$attnfuzz" check "$(dirname "$targets")/../../examples/mine.py:mine" --cases 100 --out "$out/mine" >"$out/log" 2>&1
}
check_example || die "the example does not hold"

# In fp32: what rounds factors to TF32 is found, and reduced, unless it says so.
for target in right_fp32 any_format declared_tf32; do
  check $target --cases 100 || die "$target does not hold"
  grep -q 'fp32 [1-9]' "$out/log" || die "$target was not drawn in fp32"
done
check secret_tf32 --cases 20 --reduce-seconds 10 && die "TF32 that is not declared was not found"
grep -q '^  B=1 H=1/1 .* f32' "$out/log" || die "TF32 that is not declared was not reduced"
exit 0
