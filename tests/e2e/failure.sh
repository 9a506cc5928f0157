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
line=$(sed -n 's/^replay: attnfuzz //p' "$out/check.log")
file=$(ls "$out"/found/*.attn.json)
[ "$line" = "replay $file --kernel $library" ] || die "the replay line does not name file and library: $line"
grep -q '"failure"' "$out/check.json" || die "the JSON names no failure"
grep -q '<failure' "$out/check.xml" || die "the JUnit file names no failure"

eval "\"\$attnfuzz\" $line" >"$out/replay.log" 2>&1
[ $? -eq 1 ] || die "the reproducer does not fail again"
# A library is loaded for whoever names it, and for no file.
for command in replay explain "reduce --out $out/no" "export --cpp"; do
  # shellcheck disable=SC2086
  "$attnfuzz" $command "$file" >"$out/trust.log" 2>&1
  [ $? -eq 2 ] && grep -qF "if you trust it, say --kernel $library" "$out/trust.log" || die "$command runs what a file names"
done
"$attnfuzz" explain --kernel "$library" --ascii "$file" >"$out/explain.log" 2>&1
[ $? -eq 1 ] || die "explain did not end with status 1"
grep -q "non-finite" "$out/explain.log" || die "explain does not say what is wrong"
"$attnfuzz" reduce "$file" --kernel "$library" --out "$out/smaller.attn.json" >"$out/reduce.log" 2>&1
[ $? -eq 1 ] || die "reduce did not end with status 1"
cmp -s <(grep -v '"replay"' "$file") <(grep -v '"replay"' "$out/smaller.attn.json") ||
  die "what is minimal was made smaller still"

# Another job count finds the same case.
(cd "$(dirname "$library")" && "$attnfuzz" check "./$(basename "$library")" --cases 200 --jobs 1 --out "$out/one") >"$out/one.log" 2>&1
[ "$(grep ^FAILURE "$out/one.log")" = "$(grep ^FAILURE "$out/check.log")" ] || die "the finding depends on --jobs"

grep -qF "\"kernel\": \"$library\"" "$out"/one/*.attn.json || die "the library's path is not absolute"

# A reproducer made for other bytes is refused.
sed 's/"q": "[0-9a-f]*"/"q": "0123456789abcdef"/' "$file" >"$out/forged.attn.json"
"$attnfuzz" replay "$out/forged.attn.json" --kernel "$library" >"$out/forged.log" 2>&1
[ $? -eq 2 ] || die "a reproducer made for other bytes was not refused"
echo "found, filed, replayed, explained and reduced: $(basename "$file")"
