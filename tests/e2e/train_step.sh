#!/usr/bin/env bash
# train_step.sh ATTNFUZZ FAKES FORWARD BACKWARD: two steps of training. FAKES is the library of test kernels, FORWARD
# and BACKWARD are our own kernels.
#
# Right kernels pass. Three faults that a team met in training are named, and its zero gates are a note. A failing call
# is a case that replay runs.
set -u
attnfuzz=$1 fakes=$2 forward=$3 backward=$4
source "$(dirname "$0")/scratch.sh"

# ends STATUS ARGUMENTS...
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
# The reproducer fails again, by the kernel $1.
replays() {
  local file
  file=$(ls "$out"/found/*.attn.json) || die "no reproducer"
  "$attnfuzz" replay "$file" --kernel "$1" --allow-stale >"$out/replay.log" 2>&1
  [ $? -eq 1 ] || die "the reproducer does not fail again"
}

# Right kernels, and what they are given.
ends 0 "$fakes:forward" "$fakes:backward" --lengths 127:257 -v
says '^forward \+ backward  cpu plain: 12 batches of S = 127 to 257, 2 steps each, 0 failed, .*, largest error 0\.'
says '^  S = 129, packed as 65, 0, 64: loss [0-9.]+, [0-9.]+ \(by the oracle'
silent 'note: all gates'
ends 0 "$forward" "$backward" --lengths 127:129
says ' 6 batches of S = 127 to 129, 2 steps each, 0 failed'

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
says '^FAIL \(train-step, .*\): S = 64, packed as 33, 0, 31, step 1: forward: .*on zeros it is right\): uninitialised cu_seqlens'
silent '^FAIL .*: S = 64, step'
replays "$fakes:uninitialised_cu"

# 4. Zero gates: a note, and no failure.
ends 0 "$fakes:forward" "$fakes:backward" --lengths 64 --gates zero
says '^  note: all gates are equal \(0\): '
ends 0 "$fakes:forward" "$fakes:backward" --lengths 64 --gates equal
says '^  note: all gates are equal \(0\.5\): '

# A wrong gradient is found and reduced.
ends 1 "$fakes:forward" "$fakes:losing_last_key" --lengths 65
says '^FAIL \(train-step, wrong.*\): S = 65, step 1: backward: d[kv]\('
says 'found by train-step in S = 65, step 1, seed 1, reduced in '
replays "$fakes:losing_last_key"

# Bad use.
ends 2 "$fakes:forward" "$fakes:forward" --lengths 64
says 'this kernel has no backward pass'
ends 2 "$fakes:backward" "$fakes:backward" --lengths 64
says 'this kernel has no forward pass'
for lengths in 0 x 5:3 1:2:3 99999999 5:; do
  ends 2 "$fakes:forward" "$fakes:backward" --lengths "$lengths"
  says "--lengths $lengths: no range"
done
echo "train-step: right kernels pass, three faults are named, and zero gates are a note"
