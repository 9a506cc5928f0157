#!/usr/bin/env bash
# export_seeds.sh ATTNFUZZ LIBRARY KERNEL SEEDS PYTHON: every case of the corpus as a Python
# program: its reference and layout agree with those that the case is judged by.
set -u
attnfuzz=$1 library=$2 kernel=$3 seeds=$4 python=${5:-}
if [ -z "$python" ]; then
  echo "SKIPPED: no Python with NumPy here (python3-numpy)"
  exit 77
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
tried=0 bad=0
for seed in "$seeds"/*.case.json; do
  if ! "$attnfuzz" export "$seed" --kernel "$kernel" --python --out "$out/seed.py" 2>"$out/log" ||
    ! "$python" -W error "$out/seed.py" "$library" >"$out/log" 2>&1; then
    echo "$seed"
    head -20 "$out/log"
    bad=$((bad + 1))
  fi
  tried=$((tried + 1))
done
echo "$tried programs, $bad bad"
[ "$tried" -gt 0 ] && [ "$bad" -eq 0 ]
