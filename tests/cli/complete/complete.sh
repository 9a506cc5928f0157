#!/usr/bin/env bash
# complete.sh ATTNFUZZ: checks that three shells and the manual page know the same subcommands and options. zsh and fish
# complete for real if they are installed, and groff reads the page if it is.
set -u
attnfuzz=$1
export PATH=$(dirname "$attnfuzz"):$PATH
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
die() {
  echo "$*"
  exit 1
}
has() { # TEXT WORD
  grep -qxF -- "$2" <<<"$1" || die "'$2' is not in: $(head -5 <<<"$1")"
}

# `completion words` prints a line for each word: the word, a tab, and its meaning. No word comes twice.
commands=$(attnfuzz completion words)
has "$commands" $'check\tChecks kernels on drawn cases'
has "$(attnfuzz completion words -- check)" $'fa1\tkernel'
[ -z "$(attnfuzz completion words -- check | cut -f1 | sort | uniq -d)" ] || die "words of check are offered twice"
has "$(attnfuzz completion words -- check fa1 --build)" $'asan\t'
[ -z "$(attnfuzz completion words -- check --cases)" ] || die "numbers are offered"
awk -F'\t' 'NF != 2 || length($2) > 76 { print; bad = 1 } END { exit bad }' <<<"$(attnfuzz completion words -- campaign)" ||
  die "a line is not WORD<tab>MEANING, or the meaning has more than 76 characters"

# Every subcommand and every option is in the manual page.
attnfuzz man >"$out/page" || die "no manual page"
head -1 "$out/page" | grep -qxF ".TH ATTNFUZZ 1 \"\" \"$(attnfuzz --version | sed 's/-/\\-/g')\" \"\"" || die "its head is $(head -1 "$out/page")"
for command in $(cut -f1 <<<"$commands"); do
  export head=".SS attnfuzz ${command//-/\\-}"
  grep -qxF -- "$head" "$out/page" || die "the page has no $command"
  for option in $(attnfuzz completion words -- "$command" | cut -f1 | grep '^--'); do
    awk '$0 == ENVIRON["head"] { on = 1; next } /^\.SS/ { on = 0 } on' "$out/page" |
      grep -qF -- "${option//-/\\-}" || die "the page has no $command $option"
  done
done
if command -v groff >/dev/null; then
  said=$(groff -ww -man -Tutf8 "$out/page" 2>&1 >"$out/shown") && [ -z "$said" ] || die "groff says: $said"
  sed 's/\x1b\[[0-9;]*m//g' "$out/shown" | grep -q "^ATTNFUZZ(1)" || die "groff shows no page"
else
  echo "not tried: the page by groff, which is not installed"
fi

# The build writes the scripts and the page for an installation with the command itself.
share=$(dirname "$attnfuzz")/../share
cmp "$out/page" "$share/man/man1/attnfuzz.1" || die "the page to install differs"
cmp <(attnfuzz completion bash) "$share/bash-completion/completions/attnfuzz" || die "the bash script differs"
cmp <(attnfuzz completion zsh) "$share/zsh/site-functions/_attnfuzz" || die "the zsh script differs"
cmp <(attnfuzz completion fish) "$share/fish/vendor_completions.d/attnfuzz.fish" || die "the fish script differs"

# tests/e2e/command/bad_use.sh checks bash. zsh runs without its completion system: the words that _describe gets are checked.
if command -v zsh >/dev/null; then
  given() {
    zsh -fc 'compdef() { : }; source <(attnfuzz completion zsh); _describe() { print -l -- ${(P)4} }
             words=("$@"); CURRENT=$#words; _attnfuzz' zsh "$@"
  }
  has "$(given attnfuzz ch)" "check:Checks kernels on drawn cases"
  has "$(given attnfuzz check fa1 --build a)" "asan:"
else
  echo "not tried: zsh, which is not installed"
fi
if command -v fish >/dev/null; then
  offered() { HOME=$out fish --no-config -c 'attnfuzz completion fish | source; complete -C $argv[1]' "$1"; }
  has "$(offered "attnfuzz ch")" $'check\tChecks kernels on drawn cases'
  has "$(offered "attnfuzz check fa1 --build as")" "asan"
  offered "attnfuzz check --pr" | grep -q -- '^--property' || die "fish is not offered --property"
else
  echo "not tried: fish, which is not installed"
fi
exit 0
