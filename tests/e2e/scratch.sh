# Sourced. $out: a folder that goes when the script ends. die WORDS: ends it with 1, and prints the logs that lie there.
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
die() {
  echo "$*"
  cat "$out"/*.log
  exit 1
}
