#!/usr/bin/env bash
# adapter_lines.sh: prints the number of lines of each adapter, without empty lines and comments. It may be 15 at most.
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
