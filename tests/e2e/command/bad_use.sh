#!/usr/bin/env bash
# bad_use.sh ATTNFUZZ: checks that every misuse ends with status 2 and a sentence that
# says what to do.
set -u
attnfuzz=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
bad=0

# refuse SENTENCE ARGUMENTS...: checks that attnfuzz ends with status 2 and prints SENTENCE.
refuse() {
  local sentence=$1 said status
  shift
  said=$("$attnfuzz" "$@" 2>&1 </dev/null)
  status=$?
  if [ "$status" -ne 2 ] || ! grep -qF -- "$sentence" <<<"$said"; then
    echo "attnfuzz $*: status $status, wanted 2 and: $sentence"
    echo "$said" | head -5
    bad=$((bad + 1))
  fi
}

refuse "subcommand is required"
refuse "no kernel 'nothing'" check nothing
refuse "there is no property 'nothing'" check fa1 --property nothing
refuse "'chekc': did you mean 'check'?" chekc fa1
refuse "'--csaes': did you mean '--cases'?" check fa1 --csaes 5
refuse "did you mean 'fa1'?" check fa11
refuse "there is no property 'refrence': did you mean 'reference'?" check fa1 --property refrence
refuse "no property is left to judge" check fa1 --property stages
refuse "is not a duration" check fa1 --for soon
refuse "excludes" check fa1 --for 1s --cases 5
refuse "there is no back end 'quantum'; there are: cpu,cuda" check fa1 --backend quantum
refuse "there is no back end 'cdua': did you mean 'cuda'?" check fa1 --backend cdua
refuse "there is no shell 'powershell'; there are: bash,zsh,fish,words" completion powershell
refuse "not in range" check fa1 --cases -5
refuse "not in range" check fa1 --first 18446744073709551606
refuse "not in range" campaign fa1 --seed 18446744073709551616 --out "$out/night"
refuse "no target is on a GPU" campaign fa1 --oracle cuda --for 1s --out "$out/night"
refuse "there is no build 'assan': did you mean 'asan'?" campaign fa1 --build assan --out "$out/night"
refuse "does not exist" replay "$out/nothing.attn.json"
refuse "does not exist" explain "$out/nothing.attn.json"
refuse "is a folder: give the file of a case here" replay "$out"
refuse "does not exist: give the file of a case here, and a kernel with --kernel" explain mine.py:Mine

printf '{"format":1,"problem":{"seq_q":-3}}' >"$out/case.json"
refuse "seq_q" replay --kernel fa1 "$out/case.json"
printf '{"format":1,"problem":{"batch":1,"heads_q":1,"heads_kv":1,"seq_q":1,"seq_k":0,"dim_qk":8,"dim_v":8}}' >"$out/case.json"
refuse "leave --svg out" explain --kernel fa1 "$out/case.json" --svg "$out/picture.svg"
printf '{"format":1,"problem":{"features":2,"batch":1,"heads_q":1,"heads_kv":1,"seq_q":1,"seq_k":0,"dim_qk":1,"dim_v":8}}' >"$out/case.json"
refuse "queries see no keys in the operation merge" explain --kernel fa1 "$out/case.json" --svg "$out/picture.svg"
printf '{"format":9}' >"$out/case.json"
refuse "format" replay --kernel fa1 "$out/case.json"
printf '{"format":1,"lane":"assan"}' >"$out/case.json"
refuse "there is no build 'assan'" replay --kernel fa1 "$out/case.json"
printf 'not json' >"$out/case.json"
refuse "$out/case.json" replay --kernel fa1 "$out/case.json"
printf '{"format":1}' >"$out/case.json"
refuse "names no kernel" replay "$out/case.json"
refuse "names no kernel" explain "$out/case.json"
refuse "names no kernel" reduce "$out/case.json"

# Files that never end, are too large or are nested too deep. Each is refused at once and in few words.
mkfifo "$out/fifo"
ln -s /dev/zero "$out/zero"
refuse "larger than 16 MiB" replay --kernel fa1 "$out/zero"
(exec 3<>"$out/fifo"; refuse "has not come to its end in time" replay --kernel fa1 "$out/fifo"; exit "$bad") || bad=1
refuse "larger than 16 MiB" check fa1 --calibration "$out/zero"
refuse "larger than 16 MiB" campaign fa1 --ledger "$out/zero" --out "$out/night"
{ printf '{"format":1,"lane":"'; head -c 10000000 /dev/zero | tr '\0' x; printf '"}'; } >"$out/huge.json"
[ "$("$attnfuzz" replay --kernel fa1 "$out/huge.json" 2>&1 | wc -c)" -lt 5000 ] || { echo "a refusal repeats a value of 10 MB"; bad=1; }
{ printf '{"reproducer":1,"kernel":'; head -c 100000 /dev/zero | tr '\0' '['; } >"$out/deep.json"
refuse "nested more than" replay --kernel fa1 "$out/deep.json"
printf '{"format":1,"lane":"\\u001b[2J"}' >"$out/case.json"
refuse "there is no build '\\x1b[2J'" replay --kernel fa1 "$out/case.json"
printf '{"format":1,"known":[],"known":[]}' >"$out/ledger.json"
refuse "given twice" campaign fa1 --ledger "$out/ledger.json" --out "$out/night"
printf '{"format":1,"knwon":[],"known":[]}' >"$out/ledger.json"
refuse "there is no field 'knwon': did you mean 'known'?" campaign fa1 --ledger "$out/ledger.json" --out "$out/night"
entry() { printf '{"format":1,"known":[{"mode":"quarantined","reason":"x","features":["causal"],%s}]}' "$1" >"$out/ledger.json"; }
entry '"kernel":"fa11"'
refuse "there is no kernel 'fa11': did you mean 'fa1'?" campaign fa1 --ledger "$out/ledger.json" --out "$out/night"
entry '"lane":"plian"'
refuse "there is no build 'plian': did you mean 'plain'?" campaign fa1 --ledger "$out/ledger.json" --out "$out/night"
entry '"backend":"cpuu"'
refuse "there is no back end 'cpuu'" campaign fa1 --ledger "$out/ledger.json" --out "$out/night"
printf '{"unit":"2^-24","unit":"2^-24"}' >"$out/table.json"
refuse "given twice" check fa1 --calibration "$out/table.json"

# If results cannot be written, the command fails.
for arguments in "list" "limits fa1 --cases 20" "completion bash" "man" "--version" "check --help" "check fa1 --cases 20 --jobs 1 --property reference --json -" "check fa1 --cases 20 --jobs 1 --property reference --junit -"; do
  # shellcheck disable=SC2086
  "$attnfuzz" $arguments >/dev/full 2>"$out/full.log"
  [ $? -eq 2 ] && grep -q "could not be written" "$out/full.log" || { echo "$arguments >/dev/full is a success"; bad=1; }
done
# Standard output for results (--json -, --junit -) holds nothing else.
for option in --json --junit; do
  "$attnfuzz" check fa1 --cases 20 --jobs 1 --property reference $option - 2>/dev/null >"$out/results"
  grep -vqE '^ *[<{]' "$out/results" && { echo "$option - has more than results:" && head -3 "$out/results"; bad=1; }
done
refuse "No space left on device" check fa1 --cases 20 --jobs 1 --property reference --json /dev/full
[ -c /dev/full ] || { echo "/dev/full was replaced by a file"; bad=1; }
# A place that results cannot be written to is reported before the work begins.
mkdir -p "$out/folder" && : >"$out/file"
refuse "nowhere is not there: nothing can be written" check fa1 --cases 1000000 --json "$out/nowhere/a.json"
refuse "nowhere is not there: nothing can be written" check fa1 --cases 1000000 --junit "$out/nowhere/a.xml"
refuse "folder is a folder: name a file in it" check fa1 --cases 1000000 --json "$out/folder"
refuse "file is no folder" check fa1 --cases 1000000 --out "$out/file"
refuse "file is no folder" check fa1 --cases 1000000 --out "$out/file/found"

refuse "did you mean 'seq=N'" check fa1 --cases 20 --domain sq=3
refuse "layout is dense or inner" check fa1 --cases 20 --domain layout=packed
refuse "align_bytes is a power of two up to 256" check fa1 --cases 20 --domain align_bytes=24
refuse "it has been spoken of" check fa1 --cases 20 --domain "layout=inner layout=dense"
refuse "lse_dead is one of -inf +inf 0 any" check fa1 --cases 20 --domain lse_dead=nan
refuse "write a range as seq=1000..4096" check fa1 --cases 20 --domain seq=1..2..3
refuse "the first number of a range is the least" check fa1 --cases 20 --domain seq=4096..1000
refuse "no size is left by all that is said of it" check fa1 --cases 20 --domain "seq>=1000 seq<=999"
refuse "no_gqa means group=1" check fa1 --cases 20 --domain "group=2 no_gqa"
refuse "merge has no groups of query heads" check merge --cases 20 --domain group=2
refuse "merge has no dim_qk; leave dim_qk out" check merge --cases 20 --domain dim_qk=64
refuse "merge has no seq_k; leave seq_k out" check merge --cases 20 --domain "seq_q=8 seq_k<=4"
for kernel in nsa_select cache nsa_compress; do
  said=$("$attnfuzz" check $kernel --cases 2 --jobs 1 --out "$out/sizes" --domain "seq_k<=512 heads_q<=4" 2>&1)
  [ $? -ne 2 ] || { echo "--domain: $kernel has these sizes: $said"; bad=1; }
done
# Domains whose cases are all too large to draw.
for domain in "seq=65536 batch=1024 heads_q=1024 dim=256" "seq_q>=60000 batch=1000 dim=256"; do
  refuse "--domain leaves no case that can be drawn" check fa1 --cases 20 --domain "$domain"
done

# Each subcommand's help has an example and the exit statuses, in 80 columns; a shell can complete it.
commands=$("$attnfuzz" completion words | cut -f1)
[ "$(wc -w <<<"$commands")" -ge 12 ] || { echo "completion knows: $commands"; bad=1; }
for command in $commands; do
  "$attnfuzz" "$command" --help >"$out/help"
  for words in "Example:" "Exit status:"; do
    grep -q "^$words" "$out/help" || { echo "$command --help has no $words"; bad=1; }
  done
  awk -v c="$command" 'length > 80 { print c " --help: " $0; bad = 1 } END { exit bad }' "$out/help" || bad=1
done
completes() {  # WORD COMMAND-LINE...
  local word=$1
  shift
  COMP_WORDS=("$attnfuzz" "$@") COMP_CWORD=$# COMPREPLY=()
  _attnfuzz
  [[ " ${COMPREPLY[*]} " == *" $word "* ]] || { echo "completion of $*: ${COMPREPLY[*]}, wanted $word"; bad=1; }
}
# shellcheck disable=SC1090
source <("$attnfuzz" completion bash)
completes check ch
completes --property check fa1 --pr
completes asan check fa1 --build a
completes reference campaign fa1 --property ref
completes splitk check sp
completes bash completion ""

# The output fits a terminal of 80 columns, and `list` shows all builds.
for arguments in "list" "check fa1 --cases 40 --jobs 1 -v --property reference --out $out/found"; do
  TERM=dumb script -qec "stty cols 80; $(printf '%q' "$attnfuzz") $arguments" /dev/null >"$out/pty" || { echo "$arguments fails on a terminal"; bad=1; }
  sed 's/\r//g' "$out/pty" | awk -v a="$arguments" 'length > 80 { print a ": " $0; bad = 1 } END { exit bad }' || bad=1
done
sed 's/\r//g' "$out/pty" | awk '
  /^  drawn:/ { on = 1 }
  on && /^  [a-z]/ && !/^  drawn:/ { exit }
  on { if (last != "" && length(last) < 50) bad = 1; last = $0 }
  END { exit bad || !on }' || { echo "the list of what was drawn is ragged"; bad=1; }
listed=$("$attnfuzz" list)
build_kinds=$(sed -n '/^builds$/,/^$/s/^  \([a-z][^ ]*\) .*/\1/p' <<<"$listed")
for build_kind in plain schedules coverage asan msan msan-O0 tsan memcheck racecheck initcheck synccheck; do
  grep -qxF -- "$build_kind" <<<"$build_kinds" || { echo "list does not have the build $build_kind"; bad=1; }
done
for paths in "cp.async, elementwise, mma, mma scored, paged cp.async" "cp.async, elementwise, latent" "a warp a head, mma"; do
  tr -s ' \n' ' ' <<<"$listed" | grep -F "paths: $paths" >/dev/null || { echo "list does not name the paths $paths"; bad=1; }
done
# --path finds cases of a kernel without a forward pass, and of a path that only one of two operations has.
for kernel in nsa cache; do
  path=mma
  [ $kernel = cache ] && path=copy
  "$attnfuzz" check $kernel --path $path --cases 6 --jobs 1 -v --out "$out/path" >"$out/path.log" 2>&1 &&
    grep -qE "^ +$path[a-z, ]* +6 " "$out/path.log" ||
    { tail -n 20 "$out/path.log"; echo "check $kernel --path $path does not take that path six times"; bad=1; }
done
refuse "takes the path 'nowhere' through nsa; met were 'a warp a head', 'mma'" check nsa --path nowhere --cases 1 --out "$out/path"

# A folder that cannot be made is reported before the work. A closed pipe on standard output is no error.
refuse "no folder can be made there" check fa1 --cases 1 --out /proc/attnfuzz
# Two checks at once may want a folder that is not there yet.
for n in 1 2 3 4 5 6; do
  "$attnfuzz" check fa1 --cases 1 --jobs 1 --out "$out/both$n/found" >"$out/one" 2>&1 &
  "$attnfuzz" check fa1 --cases 1 --jobs 1 --out "$out/both$n/found" >"$out/other" 2>&1
  here=$?
  wait $! && [ "$here" -eq 0 ] || { echo "of two checks with one new folder, one fails"; cat "$out/one" "$out/other"; bad=1; }
done
"$attnfuzz" check fa1 --cases 1 --jobs 1 2>"$out/pipe" | true
[ "${PIPESTATUS[0]}" -eq 0 ] && [ ! -s "$out/pipe" ] || { echo "a closed pipe is an error"; cat "$out/pipe"; bad=1; }

# An installation without a sanitizer's worker says what to build.
mkdir "$out/bin" && cp "$attnfuzz" "$out/bin/" && printf x >"$out/libother.so"
attnfuzz=$out/bin/attnfuzz refuse "this attnfuzz was configured without the build asan; -DATTNFUZZ_BUILDS=asan builds it" check "$out/libother.so" --build asan
rm -r "$out/bin"

# Files that are no plug-ins.
refuse "is no regular file" check "$out/fifo"
printf 'not a library' >"$out/libmine.so"
refuse "libmine.so is a text file, not a shared library" check "$out/libmine.so"
refuse "(a plug-in is given by a path with a '/': ./libmine.so)" check libmine.so
refuse "there is no file $out/libyours.so" check "$out/libyours.so"
refuse "is a folder" check "$out/"
refuse "ends in ':'" check "$out/libmine.so:"
printf '\177ELF\2\1\1\0\0\0\0\0\0\0\0\0\3\0\267\0%044d' 0 >"$out/libmine.so"
refuse "libmine.so is built for aarch64, this machine is x86-64" check "$out/libmine.so"
printf '\177ELF\2\1' >"$out/libmine.so"
refuse "libmine.so is cut off" check "$out/libmine.so"
printf '!<arch>\n' >"$out/libmine.so"
refuse "libmine.so is a static library" check "$out/libmine.so"

[ "$bad" -eq 0 ] && echo "every misuse was refused with status 2"
