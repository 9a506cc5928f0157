#!/usr/bin/env bash
# A wrong function is found, told and replayed; a file that cannot be loaded is refused.
set -u
. "$(dirname "$0")/tools.sh"

# A wrong one is found, reduced to a second tile, and replayed by the line that is printed.
check off_by_one --cases 300 --reduce-seconds 15 && die "the planted bug was not found"
grep -q '^  B=1 H=1/1 S=[0-9]*/6[5-9] D=1/1 f16 causal' "$out/log" || die "the planted bug was not reduced"
line=$(sed -n 's/^replay: attnfuzz //p' "$out/log")
[ "${line##* --kernel }" = "$targets:off_by_one" ] || die "the replay line does not name the function: $line"
eval "\"\$attnfuzz\" $line" >"$out/log" 2>&1
[ $? -eq 1 ] || die "the reproducer does not fail again"
# A file is Python that would be run: only for whoever names it.
"$attnfuzz" replay "${line%% --kernel*}" >/dev/null 2>&1 && die "replay runs what a file names"

ends() {
  check "$1" --cases 40 --reduce-seconds 0.2 "${@:3}"
  [ $? -eq 1 ] || die "$1: not found"
  grep -q "^FAIL ([a-z_]*, $2" "$out/log" || die "$1: not told as '$2'"
}
ends segfaults "crash): .*SIGSEGV in run(), null pointer (0x8)"
ends raises "fault): raised ValueError: sixty-five (targets.py:"
ends exits "fault): called sys.exit(3) (targets.py:"
ends leaves "crash): .*exit status 7 in run()"
ends hangs "hang)" --watchdog 0.3

# A compiler takes longer than a call may, and may not take for ever; what is compiled serves 32 cases.
check compiles_slowly --cases 20 --watchdog 0.5 --domain f16 || die "a compiler's time counts as a call's"
ends compiles_for_ever "hang)" --watchdog 0.05 --domain f16

# Memory that a library allocates itself is poison until it is written, and has redzones.
ends reads_fresh "non-finite)"
ends writes_past "crash): .*SIGABRT in run()"

# A file that cannot be loaded is reported in Python's words, with status 2.
refused() {
  "$attnfuzz" check "$1" >"$out/log" 2>&1
  [ $? -eq 2 ] && grep -qF "$2" "$out/log" || die "$1 is not refused with '$2'"
}
echo "import nothing_of_this_name" >"$out/broken.py"
echo "x = 1" >"$out/empty.py"
refused "$out/broken.py" "raised ModuleNotFoundError: No module named 'nothing_of_this_name' (broken.py:1)"
refused "$out/empty.py" "has no targets"
refused "$targets:nobody" "has no kernel 'nobody'"
"$attnfuzz" check "$targets:right" --build asan >"$out/log" 2>&1
[ $? -eq 2 ] && grep -q "is Python" "$out/log" || die "a sanitizer's build is not refused"
ATTNFUZZ_PYTHON=/nowhere/python3 "$attnfuzz" check "$targets:right" >"$out/log" 2>&1
[ $? -eq 2 ] && grep -q "cannot start /nowhere/python3" "$out/log" || die "a Python that is not there is not told"
exit 0
