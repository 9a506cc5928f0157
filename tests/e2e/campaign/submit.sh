#!/usr/bin/env bash
# submit.sh ATTNFUZZ MAKE_NIGHT SUBMIT: checks that the merge of a job array names a task that never started. An sbatch
# that only prints numbers stands in for Slurm; make_night writes the folders of the tasks that did start.
set -u
attnfuzz=$1 make_night=$2 submit=$3
source "$(dirname "$0")/../scratch.sh"

mkdir "$out/bin" && printf '#!/bin/sh\necho 7\n' >"$out/bin/sbatch" && chmod +x "$out/bin/sbatch"
PATH=$out/bin:$PATH "$submit" --dir "$out/night" --tasks 3 --for 1h --attnfuzz "$attnfuzz" fa1 >"$out/submit.log" 2>&1 ||
  die "it is not submitted: $(cat "$out/submit.log")"
merged() { ATTNFUZZ=$attnfuzz ATTNFUZZ_DIR=$out/night bash "$(dirname "$submit")/merge.sbatch" >"$out/merge.log" 2>&1; }
for task in 0 1; do
  rmdir "$out/night/tasks/$task" && "$make_night" "$out/night/tasks/$task" fa1 green || die "task $task has no folder"
done
merged
[ $? -eq 2 ] || die "a task that never started is missing, and the merge passes: $(cat "$out/merge.log")"
grep -q "left out: $out/night/tasks/2: there is no campaign in it" "$out/merge.log" || die "the task is not named: $(cat "$out/merge.log")"
rmdir "$out/night/tasks/2" && "$make_night" "$out/night/tasks/2" fa1 green
merged || die "three tasks that found nothing: $(cat "$out/merge.log")"
