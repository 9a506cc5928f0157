#!/usr/bin/env bash
# nsa.sh ATTNFUZZ BROKEN_COMBINE FORWARD KERNEL...
#
# Native sparse attention from end to end: our kernels pass, a combination with its sides swapped is found, named and
# filed, and kernels that lack a stage are refused.
set -u
attnfuzz=$1 broken=$2
shift 2
source "$(dirname "$0")/scratch.sh"

"$attnfuzz" nsa "$@" --cases 5 --tokens 48 >"$out/right.log" 2>&1 || die "our kernels: $(cat "$out/right.log")"
grep -q ': 5 cases from end to end, prefill and decode at every token: passed' "$out/right.log" ||
  die "not all cases were judged: $(cat "$out/right.log")"

"$attnfuzz" nsa "$broken" "$@" --cases 5 --tokens 24 --reduce-seconds 5 --out "$out/found" >"$out/bug.log" 2>&1
[ $? -eq 1 ] || die "swapped sides were not found: $(cat "$out/bug.log")"
grep -q '^FAIL (nsa): prefill, combination by nsa_combine: ' "$out/bug.log" || die "no name: $(cat "$out/bug.log")"
file=$(ls "$out"/found/*.json)
"$attnfuzz" replay "$file" --kernel "$broken" >"$out/again.log" 2>&1
[ $? -eq 1 ] || die "the file does not fail again: $(cat "$out/again.log")"

"$attnfuzz" nsa "$1" --cases 1 >"$out/bad.log" 2>&1
[ $? -eq 2 ] || die "kernels without most stages were not refused"
grep -q 'none of these kernels does the stage: compression' "$out/bad.log" || die "the stage is not named: $(cat "$out/bad.log")"
