#!/usr/bin/env bash
# failure.sh ATTNFUZZ LIBRARY: the way of a failure through the command. LIBRARY
# is a kernel with a known bug.
set -u
attnfuzz=$1 library=$2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
die() {
  echo "$*"
  cat "$out"/*.log
  exit 1
}

"$attnfuzz" check "$library" --cases 200 --jobs 2 --out "$out/found" --json "$out/check.json" \
  --junit "$out/check.xml" >"$out/check.log" 2>&1
[ $? -eq 1 ] || die "check did not end with status 1"
file=$(sed -n 's/^replay: attnfuzz replay //p' "$out/check.log")
[ -f "$file" ] || die "the replay line names no file: '$file'"
grep -q '"failure"' "$out/check.json" || die "the JSON names no failure"
grep -q '<failure' "$out/check.xml" || die "the JUnit file names no failure"

"$attnfuzz" replay "$file" >"$out/replay.log" 2>&1
[ $? -eq 1 ] || die "the reproducer does not fail again"
"$attnfuzz" explain --ascii "$file" >"$out/explain.log" 2>&1
[ $? -eq 1 ] || die "explain did not end with status 1"
grep -q "non-finite" "$out/explain.log" || die "explain does not say what is wrong"
"$attnfuzz" reduce "$file" --out "$out/smaller.attn.json" >"$out/reduce.log" 2>&1
[ $? -eq 1 ] || die "reduce did not end with status 1"
cmp -s <(grep -v '"replay"' "$file") <(grep -v '"replay"' "$out/smaller.attn.json") ||
  die "what is minimal was made smaller still"

# Another job count finds the same case.
"$attnfuzz" check "$library" --cases 200 --jobs 1 --out "$out/one" >"$out/one.log" 2>&1
[ "$(grep ^FAILURE "$out/one.log")" = "$(grep ^FAILURE "$out/check.log")" ] || die "the finding depends on --jobs"

# A reproducer made for other bytes is refused.
sed 's/"q": "[0-9a-f]*"/"q": "0123456789abcdef"/' "$file" >"$out/forged.attn.json"
"$attnfuzz" replay "$out/forged.attn.json" >"$out/forged.log" 2>&1
[ $? -eq 2 ] || die "a reproducer made for other bytes was not refused"
echo "found, filed, replayed, explained and reduced: $(basename "$file")"
