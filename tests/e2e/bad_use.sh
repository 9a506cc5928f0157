#!/usr/bin/env bash
# bad_use.sh ATTNFUZZ: every misuse ends with status 2 and a sentence that says
# what to do.
set -u
attnfuzz=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
bad=0

# refuse SENTENCE ARGUMENTS...
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
refuse "no property is left to judge" check fa1 --property stages
refuse "is not a duration" check fa1 --for soon
refuse "excludes" check fa1 --for 1s --cases 5
refuse "not in" check fa1 --backend quantum
refuse "not in range" check fa1 --cases -5
refuse "not in range" check fa1 --first 18446744073709551606
refuse "not in range" campaign fa1 --seed 18446744073709551616 --out "$out/night"
refuse "not in {plain" campaign fa1 --lane assan --out "$out/night"
refuse "does not exist" replay "$out/nothing.attn.json"
refuse "does not exist" explain "$out/nothing.attn.json"

printf '{"format":1,"problem":{"seq_q":-3}}' >"$out/case.json"
refuse "seq_q" replay --kernel fa1 "$out/case.json"
printf '{"format":9}' >"$out/case.json"
refuse "format" replay --kernel fa1 "$out/case.json"
printf '{"format":1,"lane":"assan"}' >"$out/case.json"
refuse "there is no lane 'assan'" replay --kernel fa1 "$out/case.json"
printf 'not json' >"$out/case.json"
refuse "$out/case.json" replay --kernel fa1 "$out/case.json"
printf '{"format":1}' >"$out/case.json"
refuse "names no kernel" replay "$out/case.json"
refuse "names no kernel" explain "$out/case.json"
refuse "names no kernel" reduce "$out/case.json"

# Plug-ins that are none.
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
