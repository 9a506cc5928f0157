#!/usr/bin/env bash
# export.sh cpp|python ATTNFUZZ BAD GOOD INCLUDE TOOL: checks that the exported program of a
# finding shows the failure with the kernel BAD, and no failure with the right kernel GOOD.
# TOOL is the C++ compiler, or a Python that has NumPy; without it the test is skipped.
set -u
language=$1 attnfuzz=$2 bad=$3 good=$4 include=$5 tool=${6:-}
. "$(dirname "$0")/export_setup.sh"

"$attnfuzz" check "$bad" --cases 200 --jobs 1 --out "$out/check" >"$out/check.log" 2>&1
file=$(ls "$out"/check/*.attn.json) || die "nothing was found"
"$attnfuzz" export "$file" --kernel "$bad" "--$language" --out "$out/found.$suffix" >"$out/export.log" 2>&1 || die "export failed"
[ -s "$out/export.log" ] && die "export has something to say"
"$attnfuzz" export "$file" --kernel "$bad" "--$language" >"$out/stdout.$suffix" 2>>"$out/export.log" || die "export to a pipe failed"
cmp -s <(grep -v 'found\|finding' "$out/found.$suffix") <(grep -v 'found\|finding' "$out/stdout.$suffix") ||
  die "a file and a pipe do not get the same"

try() { # LIBRARY
  if [ "$language" = cpp ]; then "$out/found" "$@"; else "$tool" -W error "$out/found.py" "$@"; fi
}
compile
executor=$(dirname "$good")/libattnfuzz-executor.so
try "$bad" "$executor" >"$out/bad.log" 2>&1
[ $? -eq 1 ] || die "the failure does not show"
grep -q "o(b=0,h=0,q=0,d=0) is nan, must be 0 " "$out/bad.log" || die "it is not said what is wrong"
try "$bad" >"$out/beside.log" 2>&1
[ $? -eq 1 ] || die "the executor is not found in ../lib"
try "$good" >"$out/good.log" 2>&1
[ $? -eq 0 ] || die "a right kernel does not hold"
# The limit of time is of the kernel. Here it is 1 s, and the reference takes longer, or the run.
mv "$out/found.$suffix" "$out/whole.$suffix"
slow() { # SED
  sed -e 's/^\(constexpr unsigned kSeconds\|SECONDS\) = 120/\1 = 1/' -e "$1" "$out/whole.$suffix" >"$out/found.$suffix"
  compile
  try "$good" "$executor" >"$out/slow.log" 2>&1
}
[ "$language" = cpp ] && sleeps='usleep(2500000);' || sleeps='__import__("time").sleep(2.5)'
slow "s/^\( *\)\(judge_outputs(in\|expected = reference(\)/\1$sleeps\n&/" || die "the reference has a limit of time"
grep -qF "$sleeps" "$out/found.$suffix" || die "the program is written otherwise"
slow "s/^\( *\)\(const attn_status \|\)status = kernel\(->\|\.\)run(.*/\1$sleeps\n&/"
[ $? -eq 1 ] && grep -q "did not come back within 1 s" "$out/slow.log" || die "a run has no limit of time"
mv "$out/whole.$suffix" "$out/found.$suffix" && compile

try "$out/nothing.so" >"$out/nothing.log" 2>&1
[ $? -eq 2 ] || die "a library that is not there was not refused"
try >"$out/usage.log" 2>&1
[ $? -eq 2 ] || die "no library was not refused"

# The head of the program has its commands, with paths that work.
sed -n 's,^\(//\|#\)   \([^ ].*\)$,\2,p' "$out/found.$suffix" | sed "s|^c++ |$tool |; s|^python3 |$tool |" |
  grep -E "^($tool|\./found) " >"$out/commands"
(cd "$out" && sh -e commands) >"$out/commands.log" 2>&1
[ $? -eq 1 ] || die "the commands of its head do not show the failure"

# A finding of a coverage build is exported for the plain library.
printf '{"format":1,"lane":"coverage"}' >"$out/coverage.json"
"$attnfuzz" export "$out/coverage.json" --kernel "$good" "--$language" >"$out/coverage" 2>"$out/coverage.log" || die "a case of the build coverage is not exported"
grep -q "found in the build coverage; the program takes the plain library" "$out/coverage.log" || die "it is not said that the library is another"
grep -qF "$good" "$out/coverage" && ! grep -q "_cpu-coverage" "$out/coverage" || die "its head does not name the plain library"

# A case that does not fail is exported all the same, with a message.
"$attnfuzz" export "$file" --kernel fa1 "--$language" >/dev/null 2>"$out/right.log" || die "a case that holds is not exported"
grep -q "does not fail here" "$out/right.log" || die "it is not said that the case holds"

refuse() { # SENTENCE ARGUMENTS...
  local sentence=$1
  shift
  "$attnfuzz" export "$@" >"$out/refuse.log" 2>&1
  [ $? -eq 2 ] && grep -qF -- "$sentence" "$out/refuse.log" || die "export $*: wanted 2 and: $sentence"
}
refuse "say which: --cpp or --python" "$file"
refuse "say which: --cpp or --python" "$file" --cpp --python
refuse "does not exist" "$out/nothing.attn.json" --cpp
printf '{"format":1}' >"$out/case.json"
refuse "names no kernel" "$out/case.json" --cpp
printf '{"format":1,"problem":{"seq_q":2000,"seq_k":2000,"dim_qk":256,"dim_v":256}}' >"$out/case.json"
refuse "attnfuzz reduce" "$out/case.json" --cpp --kernel fa1
refuse "$out/no/such/folder" "$file" --kernel "$bad" --cpp --out "$out/no/such/folder/found.cc"
"$attnfuzz" export "$file" --kernel "$bad" --cpp >/dev/full 2>"$out/full.log"
[ $? -eq 2 ] && grep -q "could not be written" "$out/full.log" || die "a full standard output is no failure"
refuse "No space left" "$file" --kernel "$bad" --cpp --out /dev/full
[ -c /dev/full ] || die "/dev/full was replaced by a file"
echo "the failure shows, a right kernel holds ($language)"
