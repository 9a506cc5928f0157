#!/usr/bin/env bash
# fault_class.sh ATTNFUZZ LIBRARY WORDS: checks that check and explain name the likely
# class of fault of a known bug; WORDS are a part of the class's name.
set -u
attnfuzz=$1 library=$2 words=$3
source "$(dirname "$0")/../scratch.sh"

"$attnfuzz" check "$library" --cases 500 --jobs 2 --out "$out/found" >"$out/check.log" 2>&1
grep -q "^  likely .*$words.*: " "$out/check.log" || die "check does not say: likely ... $words"
file=$(ls "$out"/found/*.attn.json) || die "no reproducer"
"$attnfuzz" explain --kernel "$library" --ascii "$file" >"$out/explain.log" 2>&1
grep -q "^likely .*$words.*: " "$out/explain.log" || die "explain does not say: likely ... $words"
grep -q "^  look at: " "$out/explain.log" || die "explain does not say where to look"
grep "^likely" "$out/explain.log"
