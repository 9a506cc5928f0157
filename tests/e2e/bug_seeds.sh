#!/usr/bin/env bash
# bug_seeds.sh ATTNFUZZ LIBRARY PATCH [SEEDS]
#
# Checks a known bug from seeds 1..SEEDS (20) in the build that the head of its patch names. Each seed must find the
# bug and reduce it to a minimal case of the head's "Smallest:", which is a case, "CASE or CASE", or "?" for any case.
# Prints cases and evaluations of every seed, and a summary. A bug with "Sequence:" in its head is checked with attnfuzz
# sequence, and must be reduced to at most 4 steps on at most 3 pages, or as its head says ("Smallest: 5 steps on 2
# pages").
set -u
attnfuzz=$1 library=$2 patch=$3 seeds=${4:-20}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
expected=$(sed -n 's/^Smallest: //p' "$patch")
build_kind=$(sed -n 's/^Build: *//p' "$patch")
read -ra options < <(sed -n 's/^Options: *//p' "$patch")
others=$(sed -n 's/^Sequence: *//p' "$patch")
wrong=0
if [ -n "$others" ]; then
  [ "$others" = alone ] && others=
  read -r most_steps most_pages < <(sed -n 's/^Smallest: \([0-9]*\) steps on \([0-9]*\) pages.*/\1 \2/p' "$patch")
  most_steps=${most_steps:-4} most_pages=${most_pages:-3}
  for seed in $(seq "$seeds"); do
    log=$out/$seed.log
    # shellcheck disable=SC2086  # several kernels
    "$attnfuzz" sequence "$library" $others --build "${build_kind:-plain}" --cases 1000 --seed "$seed" --out "$out/$seed" \
      "${options[@]}" >"$log" 2>&1
    status=$?
    found=$(sed -n 's/^  found in sequence \([0-9]*\) .*reduced in \([0-9]*\) evaluations\? to \([0-9]*\) steps\? on \([0-9]*\) pages\?$/\1 \2 \3 \4/p' "$log")
    read -r index evaluations steps pages <<<"$found"
    echo "seed $seed: sequence ${index:-none}, ${evaluations:-no} evaluations: ${steps:-?} steps on ${pages:-?} pages"
    if [ "$status" -ne 1 ] || [ -z "$found" ] || [ "$steps" -gt "$most_steps" ] || [ "$pages" -gt "$most_pages" ]; then
      wrong=$((wrong + 1))
      cat "$log"
    fi
  done
  echo "$((seeds - wrong)) of $seeds seeds end in at most $most_steps steps on $most_pages pages"
  [ "$wrong" -eq 0 ]
  exit
fi
for seed in $(seq "$seeds"); do
  log=$out/$seed.log
  "$attnfuzz" check "$library" --build "${build_kind:-plain}" --cases 1000 --jobs 1 --seed "$seed" --out "$out/$seed" \
    "${options[@]}" --reduce-seconds 150 >"$log" 2>&1  # enough time on a busy machine
  status=$?
  # If several kernels of the library have the bug, the first one counts.
  found=$(sed -n '/^  found in case /{s/^  found in case \([0-9]*\) .*/\1/p;q;}' "$log")
  evaluations=$(sed -n '/^  found in case /{s/^  found in case .*, reduced in \([0-9]*\) .*/\1/p;q;}' "$log")
  minimal=$([ -n "$evaluations" ] && sed -n '/^FAIL (/{n;s/^ *//;p;q;}' "$log")
  echo "seed $seed: case ${found:-none}, ${evaluations:-no} evaluations: ${minimal:-not reduced}"
  [ "$expected" = "?" ] && due=$minimal || due=$expected
  if [ "$status" -ne 1 ] || [ -z "$minimal" ] || [[ " or $due or " != *" or $minimal or "* ]]; then
    wrong=$((wrong + 1))
    [ "$status" -ne 1 ] && cat "$log"
  fi
done
echo "$((seeds - wrong)) of $seeds seeds end in: $expected"
[ "$wrong" -eq 0 ]
