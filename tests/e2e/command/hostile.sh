#!/usr/bin/env bash
# hostile.sh ATTNFUZZ FAKES INCLUDE CXX PYTHON: follows kernels with hostile names through the
# command (FAKES/hostile.so). A name runs a command if anything takes it for more than text.
# Each kernel's bug is found, its replay line can be pasted, and its exported programs compile.
set -u
attnfuzz=$1 fakes=$2 include=$3 cxx=$4 python=$5
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
die() {
  echo "$*"
  tail -n 20 "$out"/*.log
  exit 1
}

"$attnfuzz" check "$fakes/hostile.so" --cases 20 --jobs 1 --allow-stale --reduce-seconds 0.1 --out found \
  --json check.json --junit check.xml >check.log 2>&1
[ $? -eq 1 ] || die "check did not end with status 1"
# Checks the bytes that a terminal, a parser of JSON and a parser of XML get.
"$python" - <<'CHECK' || die "the output is not clean"
import json, pathlib, unicodedata, xml.etree.ElementTree as tree
text = pathlib.Path("check.log").read_bytes().decode()
bad = {c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"}
assert not bad, bad
assert sum(line.startswith("replay: ") for line in text.splitlines()) == 10, text
assert len({json.loads(line)["kernel"] for line in open("check.json")}) == 10
assert len({suite.get("name") for suite in tree.parse("check.xml").getroot()}) == 10
CHECK
sed -n 's/^replay: attnfuzz //p' check.log >lines
[ "$(wc -l <lines)" -eq 10 ] || die "ten replay lines are due"
number=0
while IFS= read -r line; do
  number=$((number + 1))
  eval "\"\$attnfuzz\" $line --allow-stale" >"replay-$number.log" 2>&1
  [ $? -eq 1 ] || die "this does not fail again: attnfuzz $line"
  grep -q "was never written" "replay-$number.log" || die "this fails otherwise: attnfuzz $line"
  export=${line/#replay/export}
  eval "\"\$attnfuzz\" $export --allow-stale --cpp --out p$number.cc" >export.log 2>&1 || die "no C++ of $export"
  eval "\"\$attnfuzz\" $export --allow-stale --python --out p$number.py" >export.log 2>&1 || die "no Python of $export"
done <lines
"$cxx" -std=c++17 -fsyntax-only -Wall -Werror -I "$include" p*.cc >compile.log 2>&1 || die "an exported program does not compile"
for program in p*.py; do
  # Python runs without the folders of NumPy. Then the status must be 2, not 1 as for a failure.
  "$python" -I -S "$program" "$fakes/hostile.so" >python.log 2>&1
  [ $? -eq 2 ] && grep -q "needs NumPy" python.log || die "$program: without NumPy status 2 is due"
done
# A library that only a file names is never run.
file=$(ls found/*.attn.json | head -1)
for command in replay explain reduce "export --cpp"; do
  # shellcheck disable=SC2086
  "$attnfuzz" $command "$file" >trust.log 2>&1
  [ $? -eq 2 ] && grep -q "names a library, and what it holds would be run" trust.log || die "$command runs what a file names"
  sed 's|"kernel":.*|&\n"twin": "./libtwin.so",|' "$file" >twin.attn.json
  # shellcheck disable=SC2086
  "$attnfuzz" $command twin.attn.json --kernel "$fakes/hostile.so" >trust.log 2>&1
  [ $? -eq 2 ] && grep -q "say --peer ./libtwin.so" trust.log || die "$command loads what a file names to compare with: $(cat trust.log)"
done
[ -z "$(find . -name '*pwned*')" ] || die "a name was run"
echo "ten hostile kernels: $number replay lines pasted, $number programs in each language"
