#!/usr/bin/env bash
# untrusted_honest.sh ATTNFUZZ EXAMPLE: checks that honest kernels pass under --untrusted, on the same cases as
# without it, and that bad options are refused.
set -u
attnfuzz=$1 example=$2
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
cd "$out" || exit 1
die() {
  echo "$*"
  tail -n 20 "$out"/log "$out"/plain
  exit 1
}
digest() { sed -n 's/.*stream digest //p' "$1"; }

for kernel in fa1 splitk "$example"; do
  "$attnfuzz" check "$kernel" --cases 300 --allow-stale -v --out found >plain 2>&1 || die "$kernel fails"
  "$attnfuzz" check "$kernel" --cases 300 --seed 1 --allow-stale -v --out found --untrusted --json json >log 2>&1 || die "$kernel fails under --untrusted"
  [ -n "$(digest log)" ] && [ "$(digest log)" = "$(digest plain)" ] || die "$kernel: other cases were drawn"
  grep -q "untrusted: confined by process" log || die "$kernel: it is not said how it is confined"
  grep -q '"untrusted":{"confined":\["process"' json || die "$kernel: JSON does not say how it is confined"
  grep -q "of the bound .* is what the kernel declares" log || die "$kernel: how much of its bound is declared is not said"
done

# Without --seed the cases are unpredictable, and the seed is printed.
seeds=$(for _ in 1 2 3; do "$attnfuzz" check "$example" --cases 5 --allow-stale --out found --untrusted | sed -n 's/.*, seed \([0-9]*\).*/\1/p'; done)
[ "$(sort -u <<<"$seeds" | wc -l)" -eq 3 ] || die "three checks of a stranger without --seed drew the seeds $seeds"

# refused WORDS ARGUMENTS...: checks that attnfuzz check ends with status 2 and says WORDS.
refused() {
  local words=$1
  shift
  "$attnfuzz" check "$@" >log 2>&1
  [ $? -eq 2 ] || die "check $*: status 2 is due"
  grep -qF -- "$words" log || die "check $*: it does not say: $words"
}
refused "is for the builds plain" fa1 --untrusted --build asan
refused "there is no way to distrust a kernel" fa1 --untrusted=strickt
refused "p is one of fp32 input e4m3 e5m2" fa1 --errors p=4bit
refused "write NAME=VALUE" fa1 --errors merge_count=4
refused "there are batch=N" fa1 --domain head=4
refused "write seq<=4096" fa1 --domain "seq<4096"

# Inside a domain refused cases count as no pass, and --errors makes bounds tighter.
"$attnfuzz" check fa1 --cases 100 -v --untrusted --domain 'dim=64 seq<=128 no_bias' --errors 'p=input accumulator=tensor' --out found >log 2>&1 || die "fa1 fails in a domain"
grep -q "takes 100 % of problems inside --domain" log || die "what it takes of a domain is not said"
"$attnfuzz" check fa1 --cases 100 --untrusted --errors 'p=fp32' --reduce-seconds 0.1 --out found >log 2>&1
[ $? -eq 1 ] && grep -q "it looks like: looser plan" log || die "fa1 rounds P, and that is not told where P must be fp32"
line=$(sed -n 's/^replay: attnfuzz //p' log)
[[ $line == *" --untrusted --errors p=fp32" ]] || die "the replay line is less careful: $line"
eval "\"\$attnfuzz\" $line" >log 2>&1
[ $? -eq 1 ] || die "it does not fail again: attnfuzz $line"
"$attnfuzz" check "$example" --cases 50 --allow-stale --untrusted --domain "no_bf16" --out found >log 2>&1
[ $? -eq 1 ] && grep -q "a kernel that refuses does not pass" log || die "the example refuses much of a domain, and passes"
echo "three honest kernels pass, bad words are refused"
