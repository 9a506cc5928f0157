#!/usr/bin/env bash
# nsa.sh ATTNFUZZ FAKES BROKEN_COMBINE KERNEL...: FAKES is the library of test kernels (training.cc), KERNEL... are our
# own kernels of all stages, the forward kernel first.
#
# Checks native sparse attention from end to end. Our kernels pass. A combination with its sides swapped is found, named
# and filed. Kernels that lack a stage are refused. An untrusted kernel that refuses cases does not pass.
set -u
attnfuzz=$1 fakes=$2 broken=$3
shift 3
source "$(dirname "$0")/scratch.sh"

# ends STATUS ARGUMENTS...: runs attnfuzz nsa and checks its status.
ends() {
  local wanted=$1 status
  shift
  "$attnfuzz" nsa "$@" --allow-stale --reduce-seconds 5 --out "$out/found" >"$out/run.log" 2>&1
  status=$?
  [ "$status" -eq "$wanted" ] || die "nsa $*: status $status, wanted $wanted"
}
says() { grep -qE -- "$1" "$out/run.log" || die "it does not say: $1"; }

ends 0 "$@" --cases 5 --tokens 48
says ': 5 cases from end to end, prefill and decode at every token: passed'

ends 1 "$broken" "$@" --cases 5 --tokens 24
says '^FAIL \(nsa\): prefill, combination by nsa_combine: '
file=$(ls "$out"/found/*.json)
"$attnfuzz" replay "$file" --kernel "$broken" >"$out/again.log" 2>&1
[ $? -eq 1 ] || die "the file does not fail again"

# A kernel that refuses some cases: they are counted, and under --untrusted the run does not pass.
ends 0 "$fakes:up_to_40" "$@" --cases 6 --tokens 60
says ': [1-5] cases from end to end, .*: passed'
says '^  not judged: up_to_40 \(attention within a window\): .*more than 40 keys'
ends 1 "$fakes:up_to_40" "$@" --cases 6 --tokens 60 --untrusted
says ': [1-5] cases from end to end, .*: no pass'
says '^attnfuzz: under --untrusted a kernel that refuses does not pass: [1-5] of 6 cases were left out$'
ends 0 "$@" --cases 6 --tokens 60 --untrusted
says ': 6 cases from end to end, .*: passed'

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
