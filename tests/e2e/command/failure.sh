#!/usr/bin/env bash
# failure.sh ATTNFUZZ LIBRARY SOURCE FAKES: follows one failure through the command: check, replay, explain, reduce and
# export. LIBRARY is a kernel with a known bug, the one that README shows.
set -u
attnfuzz=$1 library=$2 source=$3 fakes=$4
source "$(dirname "$0")/../scratch.sh"

"$attnfuzz" check "$library" --cases 200 --jobs 2 --out "$out/found" --json "$out/check.json" \
  --junit "$out/check.xml" >"$out/check.log" 2>&1
[ $? -eq 1 ] || die "check did not end with status 1"
line=$(sed -n 's/^replay: attnfuzz //p' "$out/check.log")
file=$(ls "$out"/found/*.attn.json)
[ "$line" = "replay $file --kernel $library" ] || die "the replay line does not name file and library: $line"
grep -q '"failure"' "$out/check.json" || die "the JSON names no failure"
grep -q '<failure' "$out/check.xml" || die "the JUnit file names no failure"
path=$(sed -n 's/^  plan: \([^,]*\),.*/\1/p' "$out/check.log")
[ -n "$path" ] || die "the verdict does not say which way through the kernel it took"
grep -qF "\"path\": \"$path\"" "$out/check.json" || grep -qF "\"path\":\"$path\"" "$out/check.json" || die "the JSON does not name the path $path"
grep -qF "\"path\": \"$path\"" "$file" || die "the reproducer does not name the path $path"
first=$(grep -o '"failure":{[^}]*' "$out/check.json" | sed 's/.*"path": *"\([^"]*\)".*/\1/')  # before it was reduced
[ -n "$first" ] || die "the JSON does not name the path of the case as it was found"
[ "$(sed -n '/^FAIL/,$p' "$out/check.log" | wc -l)" -le 25 ] || die "a failure has more than 25 lines"
grep -qF "(path: $first)" "$out/check.xml" || die "the JUnit file does not name the path $first"

eval "\"\$attnfuzz\" $line" >"$out/replay.log" 2>&1
[ $? -eq 1 ] || die "the reproducer does not fail again"
grep -qF "  plan: $path," "$out/replay.log" || die "replay does not name the path $path"
# A library is loaded only if the command line names it, not if a file does.
for command in replay explain "reduce --out $out/no" "export --cpp"; do
  # shellcheck disable=SC2086
  "$attnfuzz" $command "$file" >"$out/trust.log" 2>&1
  [ $? -eq 2 ] && grep -qF "if you trust it, say --kernel $library" "$out/trust.log" || die "$command runs what a file names"
done
"$attnfuzz" explain --kernel "$library" --ascii "$file" >"$out/explain.log" 2>&1
[ $? -eq 1 ] || die "explain did not end with status 1"
grep -q "non-finite" "$out/explain.log" || die "explain does not say what is wrong"
"$attnfuzz" explain --kernel "$library" "$file" --html "$out/page.html" >/dev/null
[ $? -eq 1 ] && grep -q "<svg" "$out/page.html" && grep -qF "attnfuzz replay $file" "$out/page.html" &&
  grep -q "non-finite" "$out/page.html" || die "explain --html does not show the failure"
! grep -q "<script\|src=" "$out/page.html" || die "the page runs or fetches something"
# README.md shows the picture that explain draws and the failing run that check prints, with "..." for the rest of a
# line.
"$attnfuzz" explain "$source/corpus/seeds/window.case.json" --kernel "$library" --svg "$out/window.svg" >/dev/null
cmp -s "$out/window.svg" "$source/docs/failing-case.svg" || die "docs/failing-case.svg is not what explain --svg draws"
sed -n '/^## A failure/,/^The same bug/p' "$source/README.md" | sed -n 's/^    //p' >"$out/shown"
[ "$(wc -l <"$out/shown")" -ge 8 ] || die "README shows no failing run"
sed "s|$out/||" "$out/check.log" | awk -v shown="$out/shown" '
  BEGIN { while ((getline line <shown) > 0) { sub(/ *[.][.][.]$/, "", line); sub(/^ */, "", line); lines[++n] = line } at = 1 }
  { sub(/^ */, "") }
  at <= n && index($0, lines[at]) == 1 { ++at }
  END { if (at <= n) { print "README shows, and check does not print: " lines[at]; exit 1 } }' || die "README's failing run is not true"
# On a terminal of any kind explain prints no line wider than the terminal.
for term in dumb xterm; do
  TERM=$term script -qec "stty cols 80; $(printf '%q ' "$attnfuzz" explain --kernel "$library" --ascii "$file")" /dev/null >"$out/pty"
  [ $? -eq 1 ] || die "explain on a terminal did not end with status 1"
  sed 's/\x1b\[[0-9;]*m//g; s/\r//g' "$out/pty" | awk 'length > 80 && / / && !/^ *[^ ]* *[^ ]*$/ { print; bad = 1 } END { exit bad }' ||
    die "explain is wider than a terminal that is $term"
done
"$attnfuzz" export --cpp --kernel "$library" "$file" >/dev/full 2>"$out/full.log"
[ $? -eq 2 ] || die "export to a full standard output is a success"
"$attnfuzz" export --cpp --kernel "$library" "$file" --out /dev/full 2>"$out/full.log"
[ $? -eq 2 ] || die "export to a full disk is a success"
"$attnfuzz" reduce --kernel "$library" "$file" --out /dev/full >"$out/full.log" 2>&1
[ $? -eq 2 ] || die "reduce to a full disk is a success"

"$attnfuzz" reduce "$file" --kernel "$library" --out "$out/smaller.attn.json" >"$out/reduce.log" 2>&1
[ $? -eq 1 ] || die "reduce did not end with status 1"
cmp -s <(grep -v '"replay"' "$file") <(grep -v '"replay"' "$out/smaller.attn.json") ||
  die "reduce made a minimal case smaller"

# A failure in a device's arithmetic: the file names the arithmetic, and replay uses the device's calibration.
"$attnfuzz" check "$library" --arithmetic device:h200 --cases 200 --jobs 2 -v --reduce-seconds 1 --out "$out/device" >"$out/device.log" 2>&1
[ $? -eq 1 ] && grep -qF "bound: calibration 'h200'" "$out/device.log" || die "nothing was found in a device's arithmetic"
grep -qF '"arithmetic": "device:h200"' "$out"/device/*.attn.json || die "the reproducer does not say its arithmetic"
"$attnfuzz" replay "$out"/device/*.attn.json --kernel "$library" >"$out/device_replay.log" 2>&1
[ $? -eq 1 ] && grep -qF "arithmetic device:h200" "$out/device_replay.log" || die "it does not fail again in its arithmetic"

# With another number of jobs the check finds the same case.
found_in() { grep -o '^  found in case [0-9]* of seed [0-9]*' "$1"; }
(cd "$(dirname "$library")" && "$attnfuzz" check "./$(basename "$library")" --cases 200 --jobs 1 --out "$out/one") >"$out/one.log" 2>&1
[ "$(found_in "$out/one.log")" = "$(found_in "$out/check.log")" ] && [ -n "$(found_in "$out/one.log")" ] || die "the finding depends on --jobs"

grep -qF "\"kernel\": \"$library\"" "$out"/one/*.attn.json || die "the library's path is not absolute"

# A file that was there before is not replaced by another finding of its name, not even on the way to it.
mkdir "$out/kept" && sed 's/"backend": "cpu"/"backend": "cuda"/' "$file" >"$out/kept/$(basename "$file")"
cp "$out/kept/$(basename "$file")" "$out/of-gpu.attn.json"
"$attnfuzz" check "$library" --cases 200 --jobs 2 --out "$out/kept" >"$out/kept.log" 2>&1
[ $? -eq 1 ] && cmp -s "$out/kept/$(basename "$file")" "$out/of-gpu.attn.json" || die "the finding of another back end is gone"
second=${file##*/}
second=$out/kept/${second%.attn.json}-2.attn.json
[ -f "$second" ] && grep -qF "replay: attnfuzz replay $second " "$out/kept.log" || die "the finding is not filed beside the other: $(cat "$out/kept.log")"
[ "$(ls "$out/kept" | wc -l)" -eq 2 ] || die "files of the reduction are left: $(ls "$out/kept")"

# The page of a kernel that is one of several of a library names it.
"$attnfuzz" explain "$source/corpus/seeds/window.case.json" --kernel "$fakes/attention.so:kills-itself-once" --allow-stale \
  --html "$out/several.html" >"$out/several.log" 2>&1 || die "explain of a kernel of several: $(cat "$out/several.log")"
grep -qF -- "--kernel $fakes/attention.so:kills-itself-once" "$out/several.html" || die "the page does not name the kernel"

# A reproducer made for other bytes is refused.
sed 's/"q": "[0-9a-f]*"/"q": "0123456789abcdef"/' "$file" >"$out/forged.attn.json"
"$attnfuzz" replay "$out/forged.attn.json" --kernel "$library" >"$out/forged.log" 2>&1
[ $? -eq 2 ] || die "a reproducer made for other bytes was not refused"
echo "found, filed, replayed, explained and reduced: $(basename "$file")"
