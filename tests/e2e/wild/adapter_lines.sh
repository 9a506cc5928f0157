#!/usr/bin/env bash
# adapter_lines.sh: lines of each adapter, without empty ones and comments; none above 15.
set -u
cd "$(dirname "$0")" || exit 1
most=0
for adapter in *.adapter.cu; do
  lines=$(grep -cvE '^[[:space:]]*(//.*)?$' "$adapter")
  echo "${adapter%.adapter.cu} $lines"
  [ "$lines" -gt "$most" ] && most=$lines
done
echo "most: $most"
[ "$most" -gt 0 ] && [ "$most" -le 15 ]
