#!/usr/bin/env bash
# old_names.sh ATTNFUZZ SEEDED FIXTURES: checks that old names are still read. The old names of options work, and no
# help shows them. FIXTURES has a reproducer and a campaign as commit e9c1a557 wrote them, with lanes, canaries and
# rejected cases. Both found the first bug of SEEDED, the library of seeded bugs.
set -u
attnfuzz=$1 seeded=$2 fixtures=$3
source "$(dirname "$0")/../scratch.sh"

# says WORDS STATUS ARGUMENTS...: checks the status and the output of attnfuzz.
says() {
  local words=$1 wanted=$2 status
  shift 2
  "$attnfuzz" "$@" >"$out/said.log" 2>&1 </dev/null
  status=$?
  [ "$status" -eq "$wanted" ] || die "attnfuzz $*: status $status, wanted $wanted"
  grep -qF -- "$words" "$out/said.log" || die "attnfuzz $*: it does not say: $words"
}

# An option that is not known is refused before the name of a build is looked at.
says "there is no build 'plian': did you mean 'plain'?" 2 check fa1 --lane plian --way mma --twin ./libtwin.so
says "there is no build 'plian': did you mean 'plain'?" 2 campaign fa1 --no-canary --lane plian --way mma --out "$out/none"
says "--line" 2 check fa1 --line plain
says "cpu schedules" 0 check fa1 --lane schedules --property reference --cases 5 --jobs 1 --json "$out/check.json" --out "$out/found"
grep -qF '"lane":"schedules"' "$out/check.json" || die "the build has another key in --json"
for command in check campaign replay; do
  "$attnfuzz" "$command" --help | grep -E -- '--(lane|way|twin|beside|no-canary)\b' && die "the help of $command shows an old name"
done

cp -r "$fixtures/." "$out"
says "FAIL (reference, wrong): lse(b=0,h=0,q=0) is 4.15888309" 1 replay "$out/kernel-wrong-e329ec.attn.json" \
  --kernel "$seeded:seeded-bug"
grep -qF "build schedules" "$out/said.log" || die "the reproducer's lane is not its build"
says "FAIL (reference, wrong): lse(b=0,h=0,q=0) is 4.15888309" 1 replay "$out/night/findings/kernel-wrong-ccd89b.attn.json" \
  --kernel "$seeded:seeded-bug"

says "1 finding(s), 0 known, 0 never seen again, 0 failure(s) to reduce" 1 status "$out/night"
grep -q " refused, " "$out/said.log" || die "the rejected cases are not said to be refused"
says "report.html: 1 finding(s)" 1 report "$out/night"
python=$(command -v python3) || exit 0
"$python" - "$out/night/report.json" >"$out/read.log" 2>&1 <<'END' || die "the report does not have what the old folder holds"
import json, sys

report = json.load(open(sys.argv[1]))
assert report["canaries"] == [report["canaries"][0]] and report["canaries"][0]["found"], report["canaries"]
assert report["summary"]["canaries_missed"] == 0 and report["summary"]["rejected"] > 0, report["summary"]
assert [t["canary"] for t in report["campaign"]["targets"]] == [True, False], report["campaign"]["targets"]
assert {t["lane"] for t in report["campaign"]["targets"]} == {"schedules"}
END
