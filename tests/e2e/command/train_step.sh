#!/usr/bin/env bash
# train_step.sh ATTNFUZZ FAKES FORWARD BACKWARD SPARSE...: checks two steps of training. FAKES is the library of test
# kernels, FORWARD, BACKWARD and SPARSE are our own kernels; SPARSE do the other stages of native sparse attention.
#
# Right kernels pass. The faults that a team met in training are named; gates that are all zero, as theirs were, give a
# note. A failing call becomes a case for replay, or a line `again:` runs the step. Bad use ends with status 2.
set -u
attnfuzz=$1 fakes=$2 forward=$3 backward=$4
sparse=("${@:3}")
source "$(dirname "$0")/../scratch.sh"

# ends STATUS ARGUMENTS...: runs attnfuzz train-step and checks its status.
ends() {
  local wanted=$1 status
  shift
  rm -rf "$out/found"
  "$attnfuzz" train-step "$@" --allow-stale --reduce-seconds 10 --out "$out/found" >"$out/run.log" 2>&1
  status=$?
  [ "$status" -eq "$wanted" ] || die "train-step $*: status $status, wanted $wanted"
}
says() { grep -qE -- "$1" "$out/run.log" || die "it does not say: $1"; }
silent() { ! grep -qE -- "$1" "$out/run.log" || die "it says: $1"; }
# replays KERNEL: checks that the reproducers fail again on KERNEL.
replays() {
  local file
  ls "$out"/found/*.attn.json >/dev/null || die "no reproducer"
  for file in "$out"/found/*.attn.json; do
    "$attnfuzz" replay "$file" --kernel "$1" --allow-stale >"$out/replay.log" 2>&1
    [ $? -eq 1 ] || die "the reproducer does not fail again: $file"
  done
}
# again WORDS: runs the line `again:` in a shell and checks that it fails and says WORDS.
again() {
  local line
  line=$(sed -n 's/^again: attnfuzz //p' "$out/run.log")
  [ -n "$line" ] || die "no line says how to run it again"
  eval "\"\$attnfuzz\" $line" >"$out/again.log" 2>&1
  [ $? -eq 1 ] && grep -qE -- "$1" "$out/again.log" || die "it does not fail again: attnfuzz $line"
}

# Right kernels pass, and -v lists their batches.
ends 0 "$fakes:forward" "$fakes:backward" --lengths 127:257 -v
says '^forward \+ backward  cpu plain: 12 batches of S = 127 to 257, 2 steps each, 0 failed, .*, largest error 0\.'
says '^  S = 129, packed: loss [0-9.]+, [0-9.]+ \(by the oracle'
silent 'note: all gates'
ends 0 "$forward" "$backward" --lengths 127:129
says ' 6 batches of S = 127 to 129, 2 steps each, 0 failed'
for seed in 2 3 4; do
  ends 0 "$fakes:forward" "$fakes:backward" --lengths 31:33 --seed "$seed"
  says ' 6 batches .* 0 failed, .*, seed '"$seed"'$'
done

# 1. A NaN loss at one of three lengths.
ends 1 "$fakes:nan_at_two_lengths" "$fakes:backward" --lengths 511:513
says '^FAIL \(train-step, non-finite\): S = 512, step 1: forward: o\(.* is nan, .*; the loss is nan$'
says 'it fails so dense at S = 512 only, of 3 lengths$'
replays "$fakes:nan_at_two_lengths"

# 2. A saved tensor edited in place.
ends 1 "$fakes:forward" "$fakes:saved_in_place" --lengths 64
says '^FAIL \(train-step, .*\): S = 64, step 1: backward changed the saved tensor o: the input saved_o was written at '
replays "$fakes:saved_in_place"

# 3. Uninitialised cu_seqlens.
ends 1 "$fakes:uninitialised_cu" "$fakes:backward" --lengths 64
says '^FAIL \(train-step, .*\): S = 64, packed as [0-9, ]+, step 1: forward: .*on zeros it is right\): uninitialised cu_seqlens'
says '^  it fails so packed at S = 64$'
silent '^FAIL .*: S = 64, step'
replays "$fakes:uninitialised_cu"

# 4. Zero gates: a note, and no failure.
ends 0 "$fakes:forward" "$fakes:backward" --lengths 64 --gates zero
says '^  note: all gates are equal \(0\): '
ends 0 "$fakes:forward" "$fakes:backward" --lengths 64 --gates equal
says '^  note: all gates are equal \(0\.5\): '

# 5. A kernel uses the sequence offsets of an earlier call. One case cannot show that, so the step is run again. Words
# with spaces are quoted.
mkdir "$out/a folder" && cp "$fakes" "$out/a folder/fakes.so"
ends 1 "$out/a folder/fakes.so:old_cu" "$fakes:backward" --lengths 64 --seed 5 --gates equal --watchdog 9
says '^FAIL \(train-step, dirty\): S = 64, packed as [0-9, ]+, step 2: forward: on the workspace of the step before, .*; the same call on a fresh workspace is right$'
says "^again: attnfuzz train-step '$out/a folder/fakes.so:old_cu' .* --gates equal .*--watchdog 9 .*--allow-stale.* --lengths 64 --seed 5\$"
again '^FAIL \(train-step, dirty\)'

# 6. A kernel whose results vary is reported as wrong, and no cause such as a dirty workspace is named.
ends 1 "$fakes:varying" "$fakes:backward" --lengths 64
says '^FAIL \(train-step, wrong.*\): S = 64, packed as [0-9, ]+, step 1: forward: o\('
silent 'workspace|alone'

# 7. A backward pass that reads what the forward pass left in the process. One library runs in one process, so it
# passes; two kernels have two processes.
ends 0 "$fakes:both" "$fakes:both" --lengths 64
ends 1 "$fakes:left_in_process" "$fakes:left_in_process" --lengths 64
says '^FAIL \(train-step, wrong.*\): S = 64, step 1: backward: d[kv]\('
ends 0 "$fakes:forward" "$fakes:left_in_process" --lengths 64

# A wrong gradient is found and reduced, dense and packed.
ends 1 "$fakes:forward" "$fakes:losing_last_key" --lengths 65
says '^FAIL \(train-step, wrong.*\): S = 65, step 1: backward: d[kv]\('
says '^FAIL \(train-step, wrong.*\): S = 65, packed as .*, step 1: backward: d[kv]\('
says '^  it fails so packed at S = 65$'
says 'found by train-step in S = 65, step 1, seed 1, reduced in '
replays "$fakes:losing_last_key"

# Kernels that take only packed sequences. If no setup fits, the message covers all setups.
ends 0 "$fakes:packed_forward" "$fakes:packed_backward" --lengths 64
says ': 1 batches of S = 64 to 64, '
says '^  left out: dense at S = 64: packed_forward: .*sequences that are not packed$'
ends 1 "$fakes:packed_forward" "$fakes:packed_backward" --lengths 64 --untrusted
ends 2 "$fakes:up_to_40" "$fakes:backward" --lengths 500
says 'no step of training that both kernels take: dense: up_to_40: .*more than 40 keys \(32 setups\); packed: up_to_40: '

# A batch that a kernel refuses is left out. Under --untrusted such a kernel does not pass.
ends 0 "$fakes:up_to_40" "$fakes:backward" --lengths 40:41
says '^  left out: dense at S = 41 only, of 2 lengths: up_to_40: .*more than 40 keys'
ends 1 "$fakes:up_to_40" "$fakes:backward" --lengths 40:41 --untrusted
says '^attnfuzz: under --untrusted a kernel that refuses does not pass: [12] of 4 batches were left out$'
ends 0 "$fakes:forward" "$fakes:backward" --lengths 40:41 --untrusted

# Native sparse attention: right kernels pass; a wrong gradient of one branch is named, filed and found again; a stage
# that no kernel does, and kernels without --nsa, are bad use.
ends 0 --nsa "${sparse[@]}" --lengths 15:65 -v
says ' \+ fa1_backward \+ nsa \+ .*: 9 batches of S = 15 to 65, 2 steps each, 0 failed, .*, largest error 0\.'
says '^  S = 65: loss [0-9.]+, [0-9.]+ \(by the oracle'
ends 0 --nsa "${sparse[@]}" --lengths 33 --gates zero
says '^  note: all gates are equal \(0\): '
ends 1 --nsa "$fakes:losing_last_key" "${sparse[@]}" --lengths 65
says '^FAIL \(train-step, wrong.*\): S = 65, step 1: gradients of attention within a window by losing_last_key: d[kv]\('
replays "$fakes:losing_last_key"
ends 2 --nsa "$forward" "$backward" --lengths 64
says 'none of these kernels does the stage: compression; fa1, fa1_backward, nsa, .* together do all'
ends 2 "${sparse[@]}" --lengths 64
says 'a step of dense attention has two kernels; for more, say --nsa'

# A signal is no pass.
"$attnfuzz" train-step "$forward" "$backward" --allow-stale --lengths 8192 --jobs 1 --out "$out/found" >"$out/run.log" 2>&1 &
job=$!
sleep 1
kill -TERM "$job"
wait "$job"
[ $? -eq 143 ] || die "SIGTERM: status 143 is due"
says 'interrupted: this is no pass'

# Bad use.
ends 2 "$fakes:forward" "$fakes:forward" --lengths 64
says 'this kernel has no backward pass'
ends 2 "$fakes:backward" "$fakes:backward" --lengths 64
says 'this kernel has no forward pass'
for lengths in 0 x 5:3 1:2:3 99999999 5: 1:8193; do
  ends 2 "$fakes:forward" "$fakes:backward" --lengths "$lengths"
  says "--lengths $lengths: no range; say FIRST:LAST or one length, of 1 to 8192"
done
# refused WORDS ARGUMENTS...: checks that attnfuzz train-step ends with status 2 and says WORDS.
refused() {
  local words=$1
  shift
  ends 2 "$fakes:forward" "$fakes:backward" "$@"
  says "$words"
}
refused "there is no gates 'none'; there are: drawn,equal,zero" --gates none
refused 'not in range' --seed -1
refused 'not in range' --jobs 1025
refused 'not in range' --watchdog 0
refused "there is no back end 'quantum'" --backend quantum
refused "there is no build 'assan': did you mean 'asan'\?" --build assan
refused 'does not exist' --calibration "$out/nothing.json"
refused 'there is no way to distrust a kernel' --untrusted=strickt
refused 'p is one of' --errors p=4bit
refused 'is for the builds plain' --untrusted --build asan
"$attnfuzz" train-step "$fakes:forward" >"$out/run.log" 2>&1
[ $? -eq 2 ] || die "no backward kernel: status 2 is due"
says 'backward is required'
"$attnfuzz" train-step "$fakes:forward" "$fakes:backward" --reduce-seconds -1 >"$out/run.log" 2>&1
[ $? -eq 2 ] || die "--reduce-seconds -1: status 2 is due"
says 'not in range'
echo "train-step: right kernels pass, faults are named, zero gates give a note, and failures have their status"
