#!/usr/bin/env bash
# nsa.sh ATTNFUZZ FAKES BROKEN_COMBINE BROKEN_SCORE BROKEN_PACKED SCORE KERNEL...: FAKES is the library of test kernels
# (training.cc), SCORE is our kernel of nsa_score, KERNEL... are our own kernels of all stages but it, the forward kernel
# first.
#
# Checks native sparse attention from end to end. Our kernels pass, with packed entries too. A combination with its sides
# swapped is found, named and filed, and so are a kernel that scores wrongly, and one that counts blocks of packed keys from
# the first key of all entries (BROKEN_PACKED). Kernels that lack a stage are refused. An untrusted kernel that refuses cases
# does not pass.
set -u
attnfuzz=$1 fakes=$2 broken=$3 broken_score=$4 broken_packed=$5 score=$6
shift 6
source "$(dirname "$0")/../scratch.sh"

# ends STATUS ARGUMENTS...: runs attnfuzz nsa and checks its status.
ends() {
  local wanted=$1 status
  shift
  "$attnfuzz" nsa "$@" --allow-stale --reduce-seconds 5 --out "$out/found" >"$out/run.log" 2>&1
  status=$?
  [ "$status" -eq "$wanted" ] || die "nsa $*: status $status, wanted $wanted"
}
says() { grep -qE -- "$1" "$out/run.log" || die "it does not say: $1"; }
says_not() { ! grep -qE -- "$1" "$out/run.log" || die "it says: $1"; }

ends 0 "$@" --cases 5 --tokens 48
says ': 5 cases from end to end, prefill and decode at every token: passed'

says '^  scores of blocks: computed on the host, because none of these kernels does nsa_score$'
says_not '^  not run'
says '^  packed prefill: [1-5] of these cases$'

# A kernel of nsa_score makes the lists, and nsa_select is left over.
ends 0 "$@" "$score" --cases 5 --tokens 48
says '^fa1, nsa, nsa_compress, nsa_combine, nsa_score: 5 cases from end to end, .*: passed'
says '^  not run: nsa_select, whose stages other kernels do$'
says_not 'on the host'

# found_in KERNEL STAGE ARGUMENTS...: checks that a call of the stage is found wrong and filed, and that its file fails again.
found_in() {
  local kernel=$1 stage=$2
  shift 2
  rm -rf "$out/found"
  ends 1 "$kernel" "$@" --cases 5 --tokens 24
  says "^FAIL \(nsa\): $stage: "
  "$attnfuzz" replay "$out"/found/*.json --kernel "$kernel" >"$out/again.log" 2>&1
  [ $? -eq 1 ] || die "the file of $kernel does not fail again"
}
found_in "$broken" 'prefill, combination by nsa_combine' "$@"
found_in "$broken_score" 'prefill, scores and choice of blocks by nsa_score' "$@"
found_in "$broken_packed" 'packed prefill, attention over listed blocks by nsa' "$@"
says ', window [0-9]+; packed as [0-9]+, '

# Blocks that the user gives.
ends 1 "$broken" "$@" --cases 5 --tokens 80 --blocks 16,32,64
says ', compressed blocks of 32 keys 16 apart, [0-9]+ chosen blocks of 64 keys '

# A kernel that refuses some cases: they are counted, and under --untrusted the run does not pass.
ends 0 "$fakes:up_to_40" "$@" --cases 6 --tokens 60
says ': [1-5] cases from end to end, .*: passed'
says '^  not judged: up_to_40 \(attention within a window\): .*more than 40 keys'
says '^  packed prefill: [0-9]+ of these cases$'
ends 1 "$fakes:up_to_40" "$@" --cases 6 --tokens 60 --untrusted
says ': [1-5] cases from end to end, .*: no pass'
says '^attnfuzz: under --untrusted a kernel that refuses does not pass: [1-5] of 6 cases were left out$'
ends 0 "$@" --cases 6 --tokens 60 --untrusted
says ': 6 cases from end to end, .*: passed'

# A kernel without packed entries: the pass that is left out is told, and why.
ends 0 "$fakes:dense_forward" "$@" --cases 3 --tokens 40
says ': 3 cases from end to end, .*: passed'
says '^  packed prefill: left out, because dense_forward \(attention within a window\) does not take packed entries$'

# Bad use.
ends 2 "$1" --cases 1
says 'none of these kernels does the stage: compression'
# refused WORDS ARGUMENTS...: checks that attnfuzz nsa ends with status 2 and says WORDS.
refused() {
  local words=$1
  shift
  "$attnfuzz" nsa "${kernels[@]}" "$@" >"$out/run.log" 2>&1
  [ $? -eq 2 ] || die "nsa $*: status 2 is due"
  says "$words"
}
kernels=("$@")
refused 'not in range' --cases 0
refused 'not in range' --tokens 0
refused 'not in range' --tokens 513
refused 'not in range' --seed -1
for blocks in 16,32 16,32,64,1 0,32,64 16,32,513 a,b,c ''; do refused 'is not STEP,LENGTH,CHOSEN' --blocks "$blocks"; done
refused 'not in range' --reduce-seconds -1
refused 'not in range' --watchdog 0
refused "there is no back end 'quantum'" --backend quantum
refused "there is no build 'assan': did you mean 'asan'\?" --build assan
refused 'does not exist' --calibration "$out/nothing.json"
refused 'there is no way to distrust a kernel' --untrusted=strickt
refused 'p is one of' --errors p=4bit
kernels=("$@" merge)
refused 'merge does no stage of native sparse attention'
kernels=()
refused 'kernels is required'
