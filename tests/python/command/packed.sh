#!/usr/bin/env bash
# Packed entries.
set -u
. "$(dirname "$0")/tools.sh"

# Packed entries: a function that takes them all, one that takes nothing else, and one that writes their rows alone.
for target in packed varlen packed_into packed_dlpack; do
  check $target --cases 150 --property reference --property layout || die "the packed $target does not hold"
  grep -q ' packed queries [1-9]' "$out/log" || die "no packed entries were drawn for $target"
  grep -q 'refused 0.0 %' "$out/log" || die "cases of $target were refused"
done
for target in writes_slack keys_by_queries longest_is_length; do
  check $target --cases 300 --property reference --reduce-seconds 3 && die "the mistake of $target was not found"
  sed -n '/^FAIL/,/^replay/p' "$out/log" | grep -q 'packed queries' || die "the reduced case of $target does not say that it is packed"
done

# Scores of blocks and lists, likewise: of packed entries too, of nothing else, and into memory that is given.
for target in scores scores_varlen lists_into; do
  check $target --cases 150 --property reference --property score_packed_alone || die "the packed $target does not hold"
  grep -q ' packed queries [1-9]' "$out/log" || die "no packed entries were drawn for $target"
  grep -q 'refused 0.0 %' "$out/log" || die "cases of $target were refused"
done
for target in scores_top_left lists_of_pool; do
  check $target --cases 300 --property reference --reduce-seconds 3 && die "the mistake of $target was not found"
  sed -n '/^FAIL/,/^replay/p' "$out/log" | grep -q 'packed queries' || die "the reduced case of $target does not say that it is packed"
done
exit 0
