# What the scripts here begin with: PART.sh ATTNFUZZ PYTHON. They check functions of targets.py by the command.
attnfuzz=$1
export ATTNFUZZ_PYTHON=$2
targets=$(cd "$(dirname "$0")/.." && pwd)/targets.py
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
die() {
  echo "$*"
  cat "$out/log"
  exit 1
}
# check NAME ARGUMENT...: of a function. What it prints goes to the log.
check() {
  "$attnfuzz" check "$targets:$1" --jobs 2 -v --out "$out/$1" --json "$out/$1.json" "${@:2}" >"$out/log" 2>&1
}
