#!/usr/bin/env bash
# Checks packed sequences in a call like flash_attn_varlen's.
set -u
. "$(dirname "$0")/tools.sh"

# A dense batch is packed for the call. A kernel that finds keys by the queries' offsets fails, and so does one that
# writes rows of no sequence.
of=varlen.cu
varlen() { echo "varlen_fwd(q, k, v, o, lse, $1, B, Sq, Sk, total_q, H, Hkv, D, scale, causal$2)"; }
packed='align = ATTN_BOTTOM_RIGHT; seq = at_most(32); seq_k = at_most(40); dim = at_most(32); heads = at_most(6)'
cases=150
expect 0 " packed queries [1-9]" --finite --entry "$(varlen 'cu_q, cu_k' '')" --takes "$packed" --property reference \
  --property layout
grep -q "refused 0.0 %" log || { echo "cases of a kernel of packed sequences were refused"; cat log; wrong=1; }
expect 1 "packed" --finite --entry "$(varlen 'cu_q, cu_q + 0 * cu_k[0]' '')" --takes "$packed" --property reference \
  --reduce-seconds 3
# If O is copied for the kernel, the adapter reports the written rows; otherwise the check does.
expect 1 "of [oO],* behind the last \(batch entry, was written\|packed sequence\)" --finite \
  --entry "$(varlen 'cu_q, cu_k' ', true')" --takes "$packed" --property reference --reduce-seconds 3
expect 1 "wrote rows of O behind the last packed sequence" --finite --entry "$(varlen 'cu_q, cu_k' ', true')" \
  --takes "$packed; align_bytes = 4096" --property reference --reduce-seconds 3
unset cases
expect 2 "the call names cu_q: name cu_k as well" --entry 'f(q, k, v, o, cu_q, B, Sq, Sk, D)'
expect 2 "name cu_q and cu_k in the call" --entry 'f(q, k, v, o, total_q, B, Sq, Sk, D)'
expect 2 "name Sq and Sk, which no sequence exceeds, instead of S" --entry 'f(q, k, v, o, cu_q, cu_k, B, S, D)'
exit $wrong
