#!/bin/sh
# install-packages.sh [tests|thorough]: installs the packages that building attnfuzz needs on Debian 12. With `thorough`,
# it also installs those of some tests; with `tests`, if it is their turn today (cmake/AttnfuzzTurns.cmake). It skips
# installed packages, and needs root or sudo only if one is missing.
set -eu

packages="cmake ninja-build g++-12 clang-19 libclang-rt-19-dev lld-19 llvm-19 git
  libboost-context-dev libcli11-dev libeigen3-dev libfmt-dev libgmock-dev libgtest-dev libpugixml-dev librapidcheck-dev libseccomp-dev
  libxxhash-dev nlohmann-json3-dev patch python3-numpy python3-pytest python3-venv"
case "${1-}" in
  "") ;;
  tests)
    if [ $((($(date +%s) / 86400 + 2) % 5)) -eq 0 ]; then  # the turn of python.any_torch
      packages="$packages python3-torch"
    else
      echo "install-packages: python3-torch waits for the day of python.any_torch ('thorough' installs it)"
    fi ;;
  thorough) packages="$packages python3-torch" ;;  # 200 MB
  *) echo "install-packages: '$1' is no part: 'tests', 'thorough', or nothing" >&2; exit 2 ;;
esac

missing=""
for package in $packages; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
if [ -z "$missing" ]; then
  exit 0
fi

sudo=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || {
    echo "install-packages: not root and there is no sudo; install by hand:$missing" >&2
    exit 1
  }
  sudo=sudo
fi
echo "install-packages: installing$missing"
$sudo apt-get update -qq
# shellcheck disable=SC2086 -- a list of words
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
