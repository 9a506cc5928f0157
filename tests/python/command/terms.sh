#!/usr/bin/env bash
# Sinks, slopes, a V that is a part of K, 576 columns, and keys that stand for blocks.
set -u
. "$(dirname "$0")/tools.sh"

# Sinks, slopes, a V that is a part of K, and 576 columns: for a function that names them.
check with_more --cases 150 || die "one with sinks and slopes does not hold"
grep -q ' sinks [1-9]' "$out/log" && grep -q ' slopes [1-9]' "$out/log" || die "no sinks or slopes were drawn"
check latent --cases 30 || die "one of 576 columns does not hold"
grep -q 'refused 0.0 %' "$out/log" && grep -q ' causal [1-9]' "$out/log" || die "little is drawn for one of 576 columns"
check scales_sinks --cases 150 --reduce-seconds 3 && die "scaled sinks were not found"
check scales_slopes --cases 150 --reduce-seconds 3 && die "scaled slopes were not found"
check blocks --cases 120 || die "one with keys that stand for blocks does not hold"
check blocks_early --property reference --cases 200 --reduce-seconds 3 && die "blocks that are seen early were not found"
exit 0
