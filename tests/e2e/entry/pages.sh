#!/usr/bin/env bash
# Checks keys in pages, in a call like those of serving engines.
set -u
. "$(dirname "$0")/tools.sh"

# Pages have any size or one fixed size, and queries may be packed. Keys that are not in such pages are copied into
# pages for the call. A kernel that reads another row of the table fails.
of=paged.cu
paged() { echo "paged_attention(o, q, k, v, block_table, ${1:-key_lengths}, B, Sq, H, Hkv, D, scale, ${2:-page_size}, ${3:-pages_per_seq}$4)"; }
small='seq = at_most(16); seq_k = at_most(70); dim = at_most(32); heads = at_most(6); batch = at_most(5)'
cases=150
expect 0 " pages [1-9]" --finite --entry "$(paged '' '' '' '')" --takes "$small" --property reference --property paged_gathered \
  --property paged_renumbered
grep -q "refused 0.0 %" log || { echo "cases of a kernel of pages were refused"; cat log; wrong=1; }
expect 0 " pages [1-9]" --finite --entry "$(paged '' 16 '' '')" --takes "$small; page = 16" --property reference
grep -q "refused 0.0 %" log || { echo "cases of a kernel of pages of 16 keys were refused"; cat log; wrong=1; }
expect 0 " pages [1-9]" --finite --entry "$(paged '' '' '' ', cu_q')" --takes "$small" --property reference
grep -q " packed queries [1-9]" log && grep -q "refused 0.0 %" log || { echo "not all of packed queries was taken"; cat log; wrong=1; }
expect 1 "^FAIL (reference" --finite --entry "$(paged '' '' 'pages_per_seq - 1' '')" --takes "$small" --property reference --reduce-seconds 3
unset cases
expect 2 "name key_lengths as well" --entry 'f(q, k, v, o, block_table, page_size, B, Sq, Sk, D)'
expect 2 "name page_size as well, or say how many keys a page has" --entry 'f(q, k, v, o, block_table, key_lengths, B, Sq, Sk, D)'
expect 2 "name block_table in the call" --entry 'f(q, k, v, o, key_lengths, B, Sq, Sk, D)'
expect 2 "keys lie in pages or packed" --entry 'f(q, k, v, o, block_table, key_lengths, page_size, cu_q, cu_k, B, Sq, Sk, D)'
exit $wrong
