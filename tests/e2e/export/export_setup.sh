# What the tests of exported programs share. The caller has set language, tool and include.
# Sets out, a folder that is removed at the end, and suffix, that of the program's file.
if [ -z "$tool" ]; then
  echo "SKIPPED: no Python with NumPy here (python3-numpy)"
  exit 77
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
die() {
  echo "$*"
  tail -n 30 "$out"/*.log
  exit 1
}
suffix=py
[ "$language" = cpp ] && suffix=cc

# Compiles the program if it is one in C++.
compile() {
  [ "$language" = cpp ] || return 0
  "$tool" -std=c++17 -Wall -Wextra -Werror -I "$include" "$out/found.cc" -o "$out/found" -ldl >"$out/compile.log" 2>&1 ||
    die "the program does not compile"
}
