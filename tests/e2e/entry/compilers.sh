#!/usr/bin/env bash
# Checks that g++ builds forms of CUDA that it is strict about, and that its build has the same errors as clang's.
set -u
. "$(dirname "$0")/tools.sh"

[ -n "$gxx" ] || { echo "there is no g++"; exit 77; }
of=forms.cu call='launch(q, k, v, o, B * H, S, S, D, scale, causal)' takes='dim = at_most(128); seq = at_most(64)'
expect 0 "forms.cu: built for the CPU executor by clang [0-9]* (" --finite --entry "$call" --takes "$takes"
errors >by_clang
CXX=$gxx expect 0 "forms.cu: built for the CPU executor by g++ [0-9]* ($gxx)" --finite --entry "$call" --takes "$takes"
errors >by_gxx
grep -q "reference  *[1-9]" by_gxx && cmp by_clang by_gxx || { echo "g++ and clang differ"; diff by_clang by_gxx; wrong=1; }
exit $wrong
