# Sourced by tests. $out is a temporary folder, deleted when the script ends. die WORDS prints the words and the logs in
# $out, and ends the script with 1.
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
die() {
  echo "$*"
  cat "$out"/*.log
  exit 1
}
