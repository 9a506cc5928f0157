#!/usr/bin/env bash
# disk_full.sh ATTNFUZZ LIBRARY: checks a campaign whose disk fills up. LIBRARY is a
# kernel with a known bug.
#
# When a disk of a megabyte is full, the campaign says what to do and waits. If room is
# made, it continues; if not, it ends by itself and says so. The files of the folder
# are still there and readable, and the next session continues with them. On a disk
# without room for the first files the campaign refuses to start.
#
# Skipped (77) if no file system can be mounted: that needs a user namespace.
set -u
if [ -z "${DISK_FULL_INSIDE:-}" ]; then
  probe=$(mktemp -d)
  why=$(unshare -rm mount -t tmpfs -o size=1m none "$probe" 2>&1)
  status=$?
  rmdir "$probe"
  if [ "$status" -ne 0 ]; then
    echo "SKIPPED: no file system can be mounted here: $why"
    exit 77
  fi
  DISK_FULL_INSIDE=1 exec unshare -rm "$0" "$@"
fi

attnfuzz=$1 library=$2
out=$(mktemp -d)
disk=$out/disk
mkdir "$disk"
mount -t tmpfs -o size=1m none "$disk" || exit 1
job=
trap '[ -n "$job" ] && kill -9 "$job" 2>/dev/null; umount -l "$disk"; rm -rf "$out"' EXIT
die() {
  echo "$*"
  tail -n 5 "$out"/*.log
  df "$disk"
  exit 1
}
room() { mount -o remount,size="$1" "$disk" || die "cannot remount"; }
# wait_for WORDS FILE: waits until the file has the words. There is no timeout, because the campaign lasts long enough.
wait_for() {
  until grep -q "$1" "$2" 2>/dev/null; do
    kill -0 "$job" 2>/dev/null || die "the campaign ended before it said '$1'"
    grep -q '"event":"restart"' "$2" && die "a job died of the full disk"
    sleep 0.05
  done
}
files() { (cd "$disk/night" && find corpus findings -name '*.json' | sort); }

# In one session the disk fills up, and then gets room again.
"$attnfuzz" campaign "$library" fa1 --for 10m --jobs 2 --no-seeded-bug --out "$disk/night" --json >"$out/first.log" 2>&1 &
job=$!
wait_for '"event":"disk-full"' "$out/first.log"
grep '"event":"disk-full"' "$out/first.log" | grep -q 'make room' || die "what to do is not said"
sleep 1  # whatever there was to write is written
before=$(files)
"$attnfuzz" report "$disk/night" -o "$out/full.html" >"$out/report.log" 2>&1
[ $? -lt 2 ] || die "a full disk's folder cannot be read"
cases=$(grep -c . "$disk"/night/shards/0/series.jsonl)
room 64m
wait_for '"event":"disk-has-room"' "$out/first.log"
wait_for '"event":"finding"' "$out/first.log"
# series.jsonl gets a line about every five seconds.
until [ "$(grep -c . "$disk"/night/shards/0/series.jsonl)" -gt "$cases" ]; do
  kill -0 "$job" 2>/dev/null || die "the campaign ended and did not go on"
  sleep 0.1
done
kill -INT "$job"
wait "$job"
status=$?
job=
[ "$status" -eq 1 ] || die "the campaign ended with status $status"
grep -q '"event":"end".*"ended":"interrupted"' "$out/first.log" || die "the end is not told"
[ -z "$(comm -23 <(echo "$before") <(files))" ] || die "something was lost: $(comm -23 <(echo "$before") <(files))"
echo "full, and with room again: $(files | wc -l) files"

# The room is increased page by page. With too little room a session refuses to start. With
# just enough to start, the first case of the seeded bug waits for room, gets none, and the
# session ends by itself.
rm -rf "${disk:?}"/*
room 1m
head -c 2m /dev/zero >"$disk/filler" 2>/dev/null
refused=0
until
  "$attnfuzz" campaign "$library" fa1 --for 12s --jobs 2 --out "$disk/night" >"$out/second.log" 2>&1
  status=$?
  [ "$status" -ne 2 ]
do
  grep -q 'make some and start again' "$out/second.log" || die "a start without room is refused without a word"
  refused=$((refused + 1))
  truncate -s -4k "$disk/filler"
done
[ "$refused" -gt 0 ] || die "it starts on a full disk"
[ "$status" -eq 1 ] || die "the session with a full disk ended with status $status"
grep -q 'the disk is full.*make room' "$out/second.log" || die "what to do is not said"
grep -q '^ended: disk full' "$out/second.log" || die "it does not say that it ended for want of room"
grep -q 'NOT FOUND (.*the disk was full)' "$out/second.log" || die "why the seeded bug was not found is not said"
before=$(files)
"$attnfuzz" status "$disk/night" >"$out/status.log" 2>&1
[ $? -lt 2 ] || die "the folder on a full disk cannot be read"

# The same with a right kernel and no seeded bug: the session found nothing, but must not pass.
rm -rf "$disk/idle"
until
  "$attnfuzz" campaign fa1 --for 1s --jobs 1 --no-seeded-bug --out "$disk/idle" >"$out/idle.log" 2>&1
  status=$?
  grep -q '^ended: ' "$out/idle.log"
do
  [ "$status" -eq 2 ] || die "a start without room ended with status $status"
  truncate -s -4k "$disk/filler"
done
[ "$status" -eq 2 ] || die "a session that the disk was full for ended with status $status"
grep -q '^ended: disk full; 0 finding(s)' "$out/idle.log" || die "it does not say that the disk was full"
rm -r "$disk/idle"

rm "$disk/filler"
room 64m
"$attnfuzz" campaign "$library" fa1 --for 5s --jobs 2 --out "$disk/night" >"$out/third.log" 2>&1
[ $? -eq 1 ] && grep -q '^ended: time' "$out/third.log" || die "the next session does not go on"
grep -q '^seeded bug seeded-bug.cpu.plain: found' "$out/third.log" || die "the seeded bug was not found"
[ -z "$(comm -23 <(echo "$before") <(files))" ] || die "something was lost: $(comm -23 <(echo "$before") <(files))"
"$attnfuzz" report "$disk/night" -o "$out/end.html" >"$out/report.log" 2>&1
[ $? -eq 1 ] || die "the folder cannot be read"
echo "refused $refused times, full to the end, gone on with: $(files | wc -l) files"
