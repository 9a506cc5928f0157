#!/usr/bin/env bash
# Checks that the build tsan tells a race of a kernel from what the executor does: from placing a shared array that is
# declared outside of functions, and from the stages of a pipeline.
set -u
. "$(dirname "$0")/tools.sh"
[ -x "$(dirname "$attnfuzz")/attnfuzz-worker-cpu-tsan" ] || { echo "there is no worker for the build tsan"; exit 77; }

of=races.cu
call='launch(q, k, v, o, B, H, S, D)' small='seq = at_most(40); dim = at_most(32)'
expect 0 "40 cases in" --build tsan --finite --entry "$call" --takes "$small"
# A thread may wait for the stage as soon as all have committed, so what they write later is not there yet.
sed -i -e 's|score();  // before the commit||' -e 's|pipe.producer_commit();|pipe.producer_commit(); score();|' races.cu
expect 1 "data race" --build tsan --finite --reduce-seconds 2 --entry "$call" --takes "$small"
exit $wrong
