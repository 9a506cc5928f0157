#!/usr/bin/env bash
# Checks that undeclared limits are found by running the function.
set -u
. "$(dirname "$0")/tools.sh"

# The limits are printed in one line, with the text to paste after --takes. limits, campaign and reduce take a source
# as check does, and build it once.
run() {  # run STATUS WORDS ARGUMENT...
  local status=$1 words=$2
  shift 2
  "$attnfuzz" "$@" >log 2>&1
  local got=$?
  [ $got -eq "$status" ] && grep -q -e "$words" log || { echo "$*: status $got, $status is due, and '$words' in"; cat log; wrong=1; }
}
of=limited.cu call='launch(q, k, v, o, B * H, S, D, scale)' found='dim = one_of(16, 48); seq = at_most(64); shared = 166912'
run 0 "limited.cu: run on [0-9]* small problems, it takes $found; elsewhere: it threw: a head dimension of 16 or 48 alone (f32 B 1 H 1 S 16 D 32); exit status 3" \
  limits limited.cu --cases 20 --entry "$call"
grep -q -e "--takes '$found'" log || { echo "there is nothing to paste"; cat log; wrong=1; }
run 1 "takes, as was found before by running it: $found" \
  campaign limited.cu --entry "$call" --finite --for 10s --jobs 1 --out night --reduce-seconds 1 --no-seeded-bug
run 1 "^replay: .*limited-[0-9a-f]*.attnfuzz/libattn_limited_cpu.so" \
  reduce "$(find night -name '*.attn.json' | head -1)" --kernel limited.cu --entry "$call" --seconds 1 --out night/smaller.attn.json
# --takes is trusted: if the function refuses a case within it, that is a failure. `limits` shows what a kernel that
# declares too much really takes.
expect 1 "let it refuse the others (Takes: shared = 166912" --finite --reduce-seconds 1 --entry "$call" \
  --takes 'dim = one_of(48); seq = at_most(32); shared = 1'
library=$(grep -o 'limited-[0-9a-f]*.attnfuzz/libattn_limited_cpu.so' log | tail -1)
grep -q "^FAIL (reference, fault): .*120000 bytes of shared memory: a block may have 101376" log || { echo "it is no failure"; cat log; wrong=1; }
run 0 "small problems, it takes shared = 166912; elsewhere: .*120000 bytes" limits "$library" --cases 20
grep -q "it takes 20 (100.0 %)" log || { echo "limits did not run it"; cat log; wrong=1; }
expect 2 "it takes none: it wrote nothing into O (f32 B 1 H 1 S 16 D 32); say what it takes" --entry 'launch_nothing(q, k, v, o, B * H, S, D)'
exit $wrong
