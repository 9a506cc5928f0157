#!/bin/bash
# submit.sh --dir DIR --tasks N --for 8h [--cores C] [--attnfuzz FILE] [--seed S] [--options "..."] KERNEL... [-- SBATCH OPTIONS]
#
# Runs a campaign on many machines with Slurm. N tasks of a job array share the folder DIR, each
# with a campaign in DIR/tasks/NUMBER. A last job merges them into DIR/merged and writes
# DIR/merged/report.html. A second run with the same DIR continues the campaign. Arguments after --
# go to sbatch for both jobs: --partition=..., --account=...
#
#   submit.sh --dir /shared/night --tasks 16 --cores 4 --for 8h fa1 splitk -- --partition=cpu
#   submit.sh --dir /shared/gpus --tasks 2 --for 8h --options "--backend cuda" fa1 -- --gpus-per-task=1
set -eu
here=$(cd "$(dirname "$0")" && pwd)
usage() {
  echo "submit.sh: $1" >&2
  sed -n '2s/^# /usage: /p' "$0" >&2
  exit 2
}

dir='' tasks='' duration='' cores=1 attnfuzz='' seed=1 options='' kernels=''
while [ $# -gt 0 ]; do
  case $1 in
    --) shift && break ;;
    --dir | --tasks | --for | --cores | --attnfuzz | --seed | --options)
      [ $# -ge 2 ] || usage "$1 needs a value"
      case $1 in
        --dir) dir=$2 ;;
        --tasks) tasks=$2 ;;
        --for) duration=$2 ;;
        --cores) cores=$2 ;;
        --attnfuzz) attnfuzz=$2 ;;
        --seed) seed=$2 ;;
        --options) options=$2 ;;
      esac
      shift 2
      ;;
    -*) usage "there is no option $1" ;;
    *) kernels="$kernels $1" && shift ;;
  esac
done
[ -n "$dir" ] || usage "--dir says where: a folder that all nodes share"
[ -n "$kernels" ] || usage "no kernel is named"
[ -n "$duration" ] || usage "--for says how long each task lasts"
[[ $tasks =~ ^[1-9][0-9]*$ ]] || usage "--tasks '$tasks' is no number of tasks"
[[ $cores =~ ^[1-9][0-9]*$ ]] || usage "--cores '$cores' is no number of cores"
[[ $seed =~ ^[0-9]+$ ]] || usage "--seed '$seed' is no number"
[ -n "$attnfuzz" ] || attnfuzz=$(command -v attnfuzz) || usage "attnfuzz is not in PATH: name it with --attnfuzz"
[ -x "$attnfuzz" ] || usage "$attnfuzz is no program"
command -v sbatch >/dev/null || usage "there is no sbatch here: log in where Slurm is"

mkdir -p "$dir/tasks" "$dir/logs"
dir=$(cd "$dir" && pwd)
# A task that never starts leaves its folder empty, so the merge names it.
for ((task = 0; task < tasks; ++task)); do mkdir -p "$dir/tasks/$task"; done
# The tasks of the array have the seeds S, S+1, ...: choose another S for another campaign.
export ATTNFUZZ=$(realpath "$attnfuzz") ATTNFUZZ_DIR=$dir ATTNFUZZ_KERNELS=$kernels ATTNFUZZ_FOR=$duration \
  ATTNFUZZ_SEED=$seed ATTNFUZZ_OPTIONS=$options
array=$(sbatch --parsable "$@" --array="0-$((tasks - 1))" --ntasks=1 --cpus-per-task="$cores" --chdir="$dir" \
  --output="$dir/logs/task-%a.log" "$here/campaign.sbatch")
merge=$(sbatch --parsable "$@" --ntasks=1 --chdir="$dir" --dependency="afterany:${array%%;*}" \
  --output="$dir/logs/merge.log" "$here/merge.sbatch")
echo "array job ${array%%;*} of $tasks task(s), then job ${merge%%;*} merges: $dir/merged/report.html"
