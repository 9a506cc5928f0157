#!/usr/bin/env bash
# report.sh ATTNFUZZ MAKE_NIGHT: checks report, status and merge on whole, damaged and half-written campaign folders.
set -u
attnfuzz=$1 make_night=$2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
bad=0
within=()  # a command that runs the next ones

# expect STATUS SENTENCE ARGUMENTS...: checks the status and the output of attnfuzz.
expect() {
  local wanted=$1 sentence=$2 said status
  shift 2
  said=$("${within[@]}" "$attnfuzz" "$@" 2>&1 </dev/null)
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
expect 1 "$out/a/report.html: 3 finding(s)" report "$out/a"
[ -s "$out/a/report.json" ] || { echo "there is no report.json" && bad=$((bad + 1)); }
expect 1 "<!DOCTYPE html>" report "$out/a" --out -
expect 2 "no/such/folder" report "$out/a" --out "$out/no/such/folder/page.html"
expect 1 "2 finding(s), 1 known, 1 never seen again, 0 failure(s) to reduce" status "$out/a"
expect 1 '"findings":2,"known":1' status "$out/a" --json
expect 1 "2 campaign(s), 6 job(s), 20 corpus entries, 3 finding(s); 3 were found again by another" \
  merge "$out/a" "$out/b" --out "$out/merged"
expect 1 "3 finding(s)" report "$out/merged"
grep -q '"cases": 36320116' "$out/merged/report.json" || {
  echo "the merged report does not count both nights' cases"
  bad=$((bad + 1))
}
expect 1 "2 campaign(s)" merge "$out/a" "$out/b" --out "$out/merged"

# A read-only folder can be read. It is mounted read-only, because root may write whatever the file mode says.
within=(unshare -rm bash -c 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"' "$out/a")
if "${within[@]}" true 2>/dev/null; then
  "${within[@]}" touch "$out/a/written" 2>/dev/null && echo "the folder can be written to" && bad=$((bad + 1))
  expect 1 "2 finding(s), 1 known" status "$out/a"
  expect 1 "$out/closed.html: 3 finding(s)" report "$out/a" --out "$out/closed.html"
  expect 1 "2 campaign(s), 6 job(s)" merge "$out/a" "$out/b" --out "$out/merged-closed"
fi
within=()

# A campaign is green (status 0) if nothing failed, nothing waits for reduction, and no file is missing.
"$make_night" "$out/green" fa1 green || exit 1
expect 0 "0 finding(s), 0 failure(s) to reduce" report "$out/green"
expect 0 '"standing":"held"' status "$out/green" --json
expect 0 "1 campaign(s)" merge "$out/green" --out "$out/merged-green"
cp -r "$out/green" "$out/full" && sed -i 's/"ended": "time"/"ended": "disk full"/' "$out/full/campaign.json"
expect 2 "0 finding(s)" report "$out/full"
expect 2 "1 campaign(s)" merge "$out/full" --out "$out/merged-full"
"$make_night" "$out/waits" fa1 waits || exit 1
expect 1 "0 finding(s), 1 failure(s) to reduce" report "$out/waits"
expect 1 "1 failure(s) to reduce" status "$out/waits"
expect 1 "1 campaign(s)" merge "$out/waits" --out "$out/merged-waits"
cut=$(echo "$out"/waits/crashing/*/crash.json) && head -c 100 "$cut" >"$cut.cut" && mv "$cut.cut" "$cut"
expect 2 "crash.json: not JSON" report "$out/waits"
expect 2 "left out: $cut: not JSON" merge "$out/waits" "$out/green" --out "$out/merged-waits"
rm "$out/green/findings.json"
expect 2 "findings.json is missing" report "$out/green"
expect 2 "findings.json is missing" status "$out/green"
expect 2 "findings.json is missing" merge "$out/green" "$out/a" --out "$out/merged-green"
expect 2 "findings.json is missing" campaign fa1 --for 1s --seed 42 --out "$out/green"

# A library that a file names is not run unless that is asked for.
"$make_night" "$out/trap" "$out/not-to-be-loaded.so" || exit 1
expect 1 "3 finding(s)" report "$out/trap"
grep -q "not-to-be-loaded.so cannot\|cannot be run here" "$out/trap/report.json" && {
  echo "report tried to run a kernel"
  bad=$((bad + 1))
}
expect 1 "3 finding(s)" report "$out/trap" --run
grep -q "its library is run only if it is named: --kernel $out/not-to-be-loaded.so" "$out/trap/report.json" || {
  echo "--run does not say what it takes to run a library"
  bad=$((bad + 1))
}
touch "$out/not-to-be-loaded.so"
expect 1 "3 finding(s)" report "$out/trap" --run --kernel "$out/not-to-be-loaded.so"
grep -q "the kernel cannot be run here" "$out/trap/report.json" || {
  echo "--run did not try to run the kernel"
  bad=$((bad + 1))
}
expect 2 "is given twice" merge "$out/a" "$out/b/../a" --out "$out/merged"
expect 2 "not from a merge" merge "$out/a" --out "$out/b"
expect 2 "is to be merged, and --out as well" merge "$out/merged" --out "$out/merged"

# Files that are no regular files, that never end or that are nested deep; merge refuses the same files as report.
mkdir "$out/odd" && cp -r "$out/b/." "$out/odd"
deep=$(head -c 100000 /dev/zero | tr '\0' '[')
for name in campaign.json findings.json canary.json shards/0/stats.json crashing/1234/crash.json; do
  mkdir -p "$(dirname "$out/odd/$name")"
  for what in fifo zero deep half; do
    mv "$out/odd/$name" "$out/kept" 2>/dev/null
    case $what in
      fifo) mkfifo "$out/odd/$name" ;;
      zero) ln -s /dev/zero "$out/odd/$name" ;;
      deep) printf '{"findings": %s' "$deep" >"$out/odd/$name" ;;
      half) printf '{"id": "12' >"$out/odd/$name" ;;
    esac
    expect 2 "$name" report "$out/odd" --out "$out/page.html"
    expect 2 "left out: $out/odd/$name" merge "$out/a" "$out/odd" --out "$out/merged"
    rm "$out/odd/$name"
    mv "$out/kept" "$out/odd/$name" 2>/dev/null
  done
done
rm -r "$out/odd/crashing/1234"
for name in shards/0/series.jsonl shards/0/corpus.jsonl; do
  rm -f "$out/odd/$name" && mkfifo "$out/odd/$name"
  expect 2 "$name is no regular file" report "$out/odd" --out "$out/page.html"
  rm "$out/odd/$name" && ln -s /dev/zero "$out/odd/$name"
  expect 2 "$name is no regular file" report "$out/odd" --out "$out/page.html"
done
expect 2 "no regular file" campaign fa1 --for 1s --seed 42 --out "$out/odd" --no-seeded-bug
"$attnfuzz" report "$out/a" --out - >/dev/full 2>"$out/full.log"
[ $? -ne 0 ] && grep -q "could not be written" "$out/full.log" || { echo "a full standard output is no failure"; bad=$((bad + 1)); }

for arguments in "status $out/a" "merge $out/a --out $out/merged"; do
  # shellcheck disable=SC2086
  "$attnfuzz" $arguments >/dev/full 2>"$out/full.log"
  [ $? -ne 0 ] && grep -q "could not be written" "$out/full.log" || { echo "$arguments >/dev/full is a success"; bad=$((bad + 1)); }
done

printf '{"format": 7}' >"$out/b/campaign.json"
expect 2 "format 7" report "$out/b"
expect 2 "left out: $out/b/campaign.json is of format 7" merge "$out/a" "$out/b" --out "$out/merged"
printf '{"format": 1, "ver' >"$out/b/campaign.json"
expect 2 "campaign.json: not JSON" report "$out/b"
printf '{"findings": [{' >"$out/a/findings.json"
expect 2 "findings.json: not JSON" report "$out/a"
grep -q "findings.json: not JSON" "$out/a/report.json" || {
  echo "the page does not say what is missing"
  bad=$((bad + 1))
}
expect 2 "left out: $out/a/findings.json: not JSON" merge "$out/a" "$out/merged" --out "$out/again"

[ "$bad" -eq 0 ] && echo "each bad folder got a clear message"
