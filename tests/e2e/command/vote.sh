#!/usr/bin/env bash
# vote.sh ATTNFUZZ LIBRARY: checks that a failure of the plain build is reported by the sanitizer that sees its cause;
# that faults which no plain build shows are found in the share of cases that check runs under asan; and that unlikely
# errors within their bounds give a warning and a pass. LIBRARY is the plain build of faults.cu; other builds are beside
# it.
set -u
attnfuzz=$1 library=$2
source "$(dirname "$0")/../scratch.sh"
asked=0
# told KERNEL BUILD KIND CLASS [OPTION...]: checks that KERNEL's failure is reported by BUILD, with this kind and class.
told() {
  local kernel=$1 build_kind=$2 kind=$3 class=$4
  shift 4
  [ -e "${library%.so}-$build_kind.so" ] || { echo "$kernel: the build $build_kind is not built: skipped"; return; }
  asked=$((asked + 1))
  "$attnfuzz" check "$library:$kernel" --cases 300 --jobs 1 --reduce-seconds 5 --property reference --out "$out/$kernel" \
    --json "$out/$kernel.json" "$@" >"$out/$kernel.log" 2>&1
  [ $? -eq 1 ] || die "$kernel: check did not end with status 1"
  local file
  file=$(ls "$out/$kernel"/*.attn.json) || die "$kernel: no file, or several"
  grep -qF "\"lane\": \"$build_kind\"" "$file" || die "$kernel: the file is not of the build $build_kind"
  grep -qF "\"kind\": \"$kind\"" "$file" || die "$kernel: the file is not of kind $kind"
  grep -q "^  likely $class" "$out/$kernel.log" || die "$kernel: not told as $class"
  eval "\"\$attnfuzz\" $(sed -n 's/^replay: attnfuzz //p' "$out/$kernel.log")" >"$out/replay.log" 2>&1
  [ $? -eq 1 ] || die "$kernel: the file does not fail again in its build"
}
told race tsan race "race" --asan-every 0
grep -q "evaluations\? in the build tsan" "$out/race.log" 2>/dev/null || [ ! -e "$out/race.log" ] || die "the build is not named"
told register msan-O0 uninitialised "" --asan-every 0
told alignment asan undefined "" --asan-every 8
# Without cases under asan the unaligned load is not found.
if [ -e "$out/alignment.log" ]; then
  "$attnfuzz" check "$library:alignment" --cases 300 --jobs 1 --property reference --asan-every 0 --out "$out/none" >"$out/none.log" 2>&1
  [ $? -eq 0 ] || die "alignment: found without asan"
fi
# If a build's library cannot be opened, the check says that it is left out.
if [ -e "${library%.so}-asan.so" ]; then
  cp "$library" "$out/" && : >"$out/$(basename "${library%.so}")-asan.so"
  "$attnfuzz" check "$out/$(basename "$library"):alignment" --cases 40 --jobs 1 --allow-stale --asan-every 8 --property reference \
    --out "$out/broken" >"$out/broken.log" 2>&1
  grep -q "the build asan is left out: " "$out/broken.log" || die "alignment: a build that cannot be opened is passed over in silence"
fi
# A drifting LSE is within its bounds: the check passes with a statistical warning.
"$attnfuzz" check "$library:drift" --cases 200 --jobs 1 --asan-every 0 --out "$out/drift" --json "$out/drift.json" >"$out/drift.log" 2>&1
[ $? -eq 0 ] || die "drift: check did not end with status 0"
grep -q "^STATISTICAL WARNING (lse), no failure" "$out/drift.log" || die "drift: no statistical warning"
grep -q '"suspects":\[{"index"' "$out/drift.json" || die "drift: the JSON has no warning"
"$attnfuzz" replay "$out"/drift/*-suspicious-*.attn.json --kernel "$library:drift" >"$out/drift-replay.log" 2>&1
[ $? -eq 0 ] || die "drift: replay did not end with status 0"
grep -q "^  statistical warning (lse): the LSE of the row" "$out/drift-replay.log" || die "drift: replay does not show it again"
[ $asked -gt 0 ] || exit 77
echo "$asked faults reported by the builds that see them"
