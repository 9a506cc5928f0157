#!/usr/bin/env bash
# venv.sh PYTHON FOLDER REQUIREMENTS: a virtual environment of what a file of versions and hashes names. Where that cannot be had
# the build goes on: FOLDER/why says why, and the tests that need it are skipped with it; the next build tries again.
set -u
python=$1 folder=$2 requirements=$3
rm -rf "$folder" && mkdir -p "$folder" || exit 1
if ! "$python" -m venv "$folder/venv" >"$folder/log" 2>&1; then
  echo "$python makes no virtual environment (python3-venv)" >"$folder/why"
elif ! timeout 120 "$folder/venv/bin/python" -m pip --disable-pip-version-check install -q --require-hashes --no-deps \
  --only-binary=:all: --retries 1 --timeout 15 -r "$requirements" >>"$folder/log" 2>&1; then
  echo "pip cannot install $(basename "$requirements"): $(grep -i error "$folder/log" | tail -n 1 | cut -c1-160)" >"$folder/why"
else
  touch "$folder/made"
fi
[ ! -e "$folder/why" ] || echo "tests of $(basename "$requirements" .txt) will be SKIPPED: $(cat "$folder/why")"
