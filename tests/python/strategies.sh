#!/usr/bin/env bash
# strategies.sh PACKAGE FOLDER: cases as Hypothesis draws and shrinks them. FOLDER is venv.sh's.
set -u
[ -e "$2/made" ] || {
  echo "SKIPPED: $(cat "$2/why" 2>/dev/null || echo "$2 was not built")"
  exit 77
}
PYTHONPATH=$1 exec "$2/venv/bin/python" "$(dirname "$0")/strategies_test.py"
