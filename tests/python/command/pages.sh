#!/usr/bin/env bash
# Keys in pages.
set -u
. "$(dirname "$0")/tools.sh"

# Keys in pages, likewise.
for target in paged paged_decode pages_alone paged_dlpack; do
  check $target --cases 150 --property reference --property paged_gathered || die "$target, with keys in pages, does not hold"
  grep -q ' pages [1-9]' "$out/log" || die "no pages were drawn for $target"
  grep -q 'refused 0.0 %' "$out/log" || die "cases of $target were refused"
done
for target in pages_of_first page_by_page; do
  check $target --cases 300 --property reference --reduce-seconds 3 && die "the mistake of $target was not found"
  sed -n '/^FAIL/,/^replay/p' "$out/log" | grep -q 'pages of' || die "the reduced case of $target does not say that it has pages"
done
exit 0
