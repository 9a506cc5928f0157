#!/usr/bin/env bash
# report.sh ATTNFUZZ MAKE_NIGHT: folders that are no campaign, or a half-written one.
set -u
attnfuzz=$1 make_night=$2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
bad=0

# expect STATUS SENTENCE ARGUMENTS...
expect() {
  local wanted=$1 sentence=$2 said status
  shift 2
  said=$("$attnfuzz" "$@" 2>&1 </dev/null)
  status=$?
  if [ "$status" -ne "$wanted" ] || ! grep -qF -- "$sentence" <<<"$said"; then
    echo "attnfuzz $*: status $status, wanted $wanted and: $sentence"
    echo "$said" | head -5
    bad=$((bad + 1))
  fi
}

mkdir "$out/empty"
expect 2 "does not exist" report "$out/nothing"
expect 2 "there is no campaign in" report "$out/empty"
expect 2 "there is nothing to merge" merge "$out/empty" "$out/nothing" --out "$out/merged"
[ -e "$out/merged" ] && echo "a merge of nothing left something" && bad=$((bad + 1))

"$make_night" "$out/a" fa1 && "$make_night" "$out/b" fa1 || exit 1
expect 0 "$out/a/report.html: 3 finding(s)" report "$out/a" --no-run
expect 0 "<!DOCTYPE html>" report "$out/a" --no-run --out -
expect 2 "no/such/folder" report "$out/a" --no-run --out "$out/no/such/folder/page.html"
expect 0 "2 campaign(s), 6 job(s), 20 corpus entries, 3 finding(s); 3 were found again by another" \
  merge "$out/a" "$out/b" --out "$out/merged"
expect 0 "3 finding(s)" report "$out/merged" --no-run
grep -q "36.320.116" <(sed 's/\xe2\x80\xaf/./g' "$out/merged/report.html") || {
  echo "the merged report does not count both nights' cases"
  bad=$((bad + 1))
}
expect 0 "2 campaign(s)" merge "$out/a" "$out/b" --out "$out/merged"
expect 2 "is given twice" merge "$out/a" "$out/b/../a" --out "$out/merged"
expect 2 "not from a merge" merge "$out/a" --out "$out/b"
expect 2 "is to be merged, and --out as well" merge "$out/merged" --out "$out/merged"

printf '{"format": 7}' >"$out/b/campaign.json"
expect 2 "format 7" report "$out/b"
expect 2 "left out: $out/b/campaign.json is of format 7" merge "$out/a" "$out/b" --out "$out/merged"
printf '{"format": 1, "ver' >"$out/b/campaign.json"
expect 2 "campaign.json is not JSON" report "$out/b"
printf '{"findings": [{' >"$out/a/findings.json"
expect 2 "findings.json is not JSON" report "$out/a" --no-run
grep -q "Part of the folder could not be read" "$out/a/report.html" || {
  echo "the page does not say what is missing"
  bad=$((bad + 1))
}
expect 2 "left out: $out/a/findings.json is not JSON" merge "$out/a" "$out/merged" --out "$out/again"

[ "$bad" -eq 0 ] && echo "each got a clear word"
