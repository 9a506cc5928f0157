#!/usr/bin/env bash
# report_browser.sh ATTNFUZZ MAKE_NIGHT LIBRARY PYTHON: checks the report of a fabricated campaign in
# headless Chromium, from file://. Skipped if there is no Chromium or no Python.
set -u
attnfuzz=$1 make_night=$2 library=$3 python=${4:-}
here=$(cd "$(dirname "$0")" && pwd)
skip() {
  echo "SKIPPED: $1"
  exit 77
}
[ -n "$python" ] || skip "no Python 3 here"
for name in chromium chromium-browser google-chrome; do
  browser=$(command -v "$name") && break
done
[ -n "$browser" ] || skip "there is no Chromium here (apt-get install chromium)"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$make_night" "$out/night" "$library" || exit 1
"$attnfuzz" report "$out/night"
[ $? -eq 1 ] || exit 1
"$python" "$here/report_browser.py" "$browser" "$out/night/report.html" || exit 1
# Texts of a hostile folder remain text in the page.
"$make_night" "$out/hostile" "$library" hostile || exit 1
"$attnfuzz" report "$out/hostile" >/dev/null
"$python" "$here/report_browser.py" "$browser" "$out/hostile/report.html" || exit 1
# The browser test itself must notice faults: a picture from elsewhere, a script, a wide table.
for what in '<img src="https://example.invalid/x.png" alt=""/>' '<script>console.error("x")</script>' \
  '<div style="width:2000px">x</div>'; do
  sed "s#<body>#<body>$what#; s#<meta http-equiv=[^>]*>##" "$out/night/report.html" >"$out/bad.html"
  if "$python" "$here/report_browser.py" "$browser" "$out/bad.html" >"$out/log"; then
    echo "the browser test does not notice $what"
    exit 1
  fi
done
echo "and planted faults are noticed"
