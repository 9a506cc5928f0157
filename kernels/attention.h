/* The contract between an attention kernel and everything that checks it.
 *
 * It is plain C because it is also the plug-in ABI: a shared library that exports
 * attn_kernel_at() can be checked, whatever language it is written in. This file
 * does not depend on CUDA and includes nothing of this project.
 *
 * What a forward call computes, for batch b, query head h, query i:
 *
 *   kv head    g      = floor(h / (heads_q / heads_kv))
 *   diagonal   diag(i) = i                          (ATTN_TOP_LEFT)
 *                      = i + len_k[b] - len_q[b]    (ATTN_BOTTOM_RIGHT), where len_q[b] is
 *              seq_q, unless queries are packed (ATTN_FEATURE_RAGGED)
 *   visible    j with 0 <= j < len_k[b]; j <= diag(i) if causal;
 *              diag(i) - window_left <= j <= diag(i) + window_right (a negative
 *              window side is unbounded); mask(b,h,i,j) != 0 if there is a
 *              mask; bias(b,h,i,j) is not -inf if there is a bias
 *   score      x_j = cap(scale * sum_t Q(b,h,i,t) K(b,g,j,t)) + bias(b,h,i,j),
 *              cap(a) = softcap * tanh(a / softcap) if softcap > 0, else a
 *   O(b,h,i,c) = sum_j exp(x_j - LSE) V(b,g,j,c),   LSE(b,h,i) = ln sum_j exp(x_j)
 *
 * A query that sees no key has exactly O = 0 and LSE = -inf. A plan may declare another
 * LSE for such queries (lse_dead), and a base other than e (lse_base). With sinks, each
 * query sees one more key (ATTN_FEATURE_SINK); with slopes, a score falls with the
 * distance of its key (ATTN_FEATURE_ALIBI); keys may stand for blocks of keys
 * (ATTN_FEATURE_KEY_STEP). For any problem a kernel either refuses with a reason
 * before it launches anything, or gives a right answer. A silent wrong answer is a bug.
 *
 * A caller works in three steps: plan() says whether and how; the caller
 * provides plan.workspace_bytes; run() launches on env->stream and returns
 * without waiting for the device. Kernels allocate nothing.
 *
 * How it grows. Every struct begins with its own size in bytes, set by whoever
 * fills it in. Fields are only ever appended, and 0 in an appended field means
 * "as before". ATTN_*_MIN are the sizes of the first contract and never change. A
 * reader refuses a smaller struct with ATTN_INVALID. If a struct is longer than the
 * reader's own, it reads the part that it knows; if it is shorter, it reads the missing
 * fields as 0: attn_read(). plan->size and partials->size tell plan() and partials() how
 * many bytes they may write: attn_write(). If an older kernel would misread a
 * problem because it ignores an appended field, that field has a bit in
 * attn_problem.features, and a kernel without this bit in attn_kernel.features
 * never gets such a problem. So a library built with any version of this file works
 * with a host built with any other. kernels/plug_in.h does all of this for C++.
 */
#pragma once

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a struct changes in a way that its size does not show. */
#define ATTN_ABI 1u

/* Bytes of the first contract: what every reader may rely on. Never changed. */
#define ATTN_PROBLEM_MIN 120u
#define ATTN_TENSORS_MIN 312u
#define ATTN_REPORT_MIN 56u
#define ATTN_PROBE_MIN 48u
#define ATTN_ENV_MIN 72u
#define ATTN_PLAN_MIN 184u
#define ATTN_PARTIALS_MIN 96u
#define ATTN_BUILD_MIN 56u
#define ATTN_KERNEL_MIN 88u

#define ATTN_EXPORT __attribute__((visibility("default")))

/* Reads a struct of any version: copies the bytes that both versions have and sets
 * the rest of `to` to zero; to->size is then to_size. Returns 0 if `from` is NULL or
 * smaller than `least`: then it is not a struct of this contract.
 *
 *   attn_problem mine;
 *   if (!attn_read(&mine, sizeof mine, problem, ATTN_PROBLEM_MIN)) return ATTN_INVALID; */
static inline int attn_read(void* to, uint32_t to_size, const void* from, uint32_t least) {
  uint32_t size = 0;
  if (from) memcpy(&size, from, sizeof size);
  memset(to, 0, to_size);
  if (size < least) return 0;
  memcpy(to, from, size < to_size ? size : to_size);
  memcpy(to, &to_size, sizeof to_size);
  return 1;
}

/* Writes an answer into the caller's struct, which may be shorter or longer than
 * `from`. On entry to->size is the number of bytes that it has, afterwards the
 * number that is filled in. Returns 0 and writes nothing if to->size is less than
 * `least`. */
static inline int attn_write(void* to, const void* from, uint32_t from_size, uint32_t least) {
  uint32_t size = 0;
  if (to) memcpy(&size, to, sizeof size);
  if (size < least) return 0;
  if (size > from_size) size = from_size;
  memcpy(to, from, size);
  memcpy(to, &size, sizeof size);
  return 1;
}

typedef enum attn_status {
  ATTN_OK = 0,
  ATTN_UNSUPPORTED = 1,   /* a legal problem that this kernel does not take */
  ATTN_INVALID = 2,       /* a problem that no kernel can take: contradictory sizes, a wrong struct size */
  ATTN_LAUNCH_FAILED = 3, /* the back end refused a launch, or launched nothing */
  ATTN_FAULT = 4          /* the back end stopped a running kernel; env->report got the reason */
} attn_status;

typedef enum attn_dtype {
  ATTN_NONE = -1, /* there is no such tensor */
  ATTN_F16 = 0,
  ATTN_BF16 = 1,
  ATTN_F32 = 2, /* Q, K, V and O have it only with ATTN_FEATURE_F32 */
  /* Only for K and V, with ATTN_FEATURE_KV8. The 8-bit formats of OCP. E4M3 has no infinity, its largest number is
   * 448, and 0x7f and 0xff are NaN. E5M2 is the upper half of fp16, and its largest number is 57344. */
  ATTN_E4M3 = 3,
  ATTN_E5M2 = 4
} attn_dtype;

typedef enum attn_align { ATTN_TOP_LEFT = 0, ATTN_BOTTOM_RIGHT = 1 } attn_align;

typedef enum attn_backend { ATTN_CPU = 0, ATTN_CUDA = 1 } attn_backend;

/* Bits of attn_problem.features. A bit of an operation other than the forward pass decides which tensors the call has.
 * Fields of the problem that this operation does not use then hold the value that switches them off. */
#define ATTN_FEATURE_F32 ((uint64_t)1) /* attn_problem.dtype is ATTN_F32: Q, K, V and O are fp32 */
/* An operation: merges the O and LSE of two sides into O and LSE over the keys of both, for each (b, h, i):
 *
 *   LSE = ln(exp(LSE1) + exp(LSE2)),   O = exp(LSE1 - LSE) O1 + exp(LSE2 - LSE) O2
 *
 * O1 and O2 have the problem's dtype, the LSEs the base plan.lse_base. A side that saw no key has O = 0, and its LSE is
 * +inf if plan.lse_dead says so, else -inf (also with ATTN_LSE_DEAD_ZERO). Such a side changes nothing; two of them
 * result in one. The problem has batch, heads_q = heads_kv, seq_q, dim_v, seq_k = 0 and dim_qk = 1. */
#define ATTN_FEATURE_MERGE ((uint64_t)1 << 1)
/* attn_problem.has_sink: each head has a sink, one more score in the softmax of all its queries, without a key or
 * a value. It is neither scaled nor capped, and nothing hides it:
 *
 *   LSE(b,h,i) = ln(exp(sink(h)) + sum_j exp(x_j)),   O as before: its weights add up to less than 1
 *
 * A sink acts like one more visible key with K = 0, V = 0 and a bias of sink(h). A sink of -inf has no effect. A query
 * that sees no key has O = 0 and LSE = sink(h). plan.lse_sink may leave the sink out of LSE, which is then that of the
 * keys alone, however far above them the sink lies. */
#define ATTN_FEATURE_SINK ((uint64_t)1 << 2)
/* dim_qk or dim_v is above 256, up to 1024. The kernel's domain and its plan() decide which of these sizes it takes. */
#define ATTN_FEATURE_WIDE ((uint64_t)1 << 3)
/* attn_problem.latent: V is the first dim_v columns of K, in the same memory. tensors.v has the data and the
 * strides of tensors.k, and dim_v <= dim_qk. A kernel may read V from either. The decode of multi-head latent
 * attention is such a problem: dim_qk = 576, dim_v = 512, one KV head and, as always, an explicit scale. */
#define ATTN_FEATURE_LATENT ((uint64_t)1 << 4)
/* attn_problem.has_alibi: each head has a slope, and a score falls with the distance of its key from the diagonal:
 *
 *   x_j = cap(...) + bias(b,h,i,j) - slopes(b,h) |diag(i) - j|
 *
 * diag(i) is the same as for causal masks and windows, whether there is a causal mask or not. The slope is neither
 * scaled nor capped, and may be 0 or negative. The result is the same as with a bias of -slopes(b,h) |diag(i) - j|. */
#define ATTN_FEATURE_ALIBI ((uint64_t)1 << 5)
/* An operation: computes the gradients of a forward call from dO, the gradient of a loss with respect to O. For a query
 * i that sees key j with score x_j (above), where a is scale * Q.K:
 *
 *   P_ij  = exp(x_j - LSE(b,h,i)),   D_i = sum_c dO(b,h,i,c) O(b,h,i,c)
 *   dS_ij = P_ij (sum_c dO(b,h,i,c) V(b,g,j,c) - D_i)
 *   dA_ij = dS_ij (1 - tanh(a / softcap)^2) if softcap > 0, else dS_ij
 *   dQ(b,h,i,t) = scale * sum_j dA_ij K(b,g,j,t)
 *   dK(b,g,j,t) = scale * sum_h,i dA_ij Q(b,h,i,t),   dV(b,g,j,c) = sum_h,i P_ij dO(b,h,i,c)
 *
 * The sums over h are over the query heads of g. A key that a query does not see has no part in its sums. O and
 * LSE are inputs: the outputs of a forward call, in the form of this plan (lse_base, lse_dead). dQ of a query that
 * sees no key, and dK and dV of a key that no query sees, must be written as 0, also if seq_q or seq_k is 0. O and
 * LSE of a query that sees no key do not matter. num_splits is 0, and there are no slopes and no latent V. Sinks need
 * ATTN_FEATURE_DSINK too. */
#define ATTN_FEATURE_BACKWARD ((uint64_t)1 << 6)
/* attn_problem.ragged: the sequences of a batch are packed one after the other, and each has its own length.
 *
 * With ATTN_RAGGED_QUERIES, Q, O, LSE, dO, dLSE and dQ have one batch entry of total_q rows: (1, heads_q, total_q,
 * ...). indices, scores, k_cmp, v_cmp, k_new and v_new are (1, heads_kv, total_q, ...). Query i of batch entry b is row
 * cu_q[b] + i, and the entry has len_q[b] = cu_q[b+1] - cu_q[b] queries.
 * With ATTN_RAGGED_KEYS, K, V, dK and dV have one batch entry of total_k rows, and entry b has
 * len_k[b] = cu_k[b+1] - cu_k[b] keys; key_lengths may shorten them. cu_q and cu_k hold batch + 1 numbers that begin
 * with 0, never fall and end at or below the total; the caller must ensure this. An entry may have no query or no key.
 *
 * seq_q and seq_k are then at least the length of the longest sequence, and may be more. The lengths themselves come
 * from the arrays. Bias and mask stay (batch, heads_q, seq_q, seq_k); only pairs of queries and keys that exist are
 * read. Rows behind the last sequence belong to no entry. They may hold anything, have no part in any result, and are
 * not written. Keys and blocks are numbered from 0 in each entry, in lists too. A merge, a combination by gates and a
 * copy of pages have no packed entries, and an append has no packed keys. */
#define ATTN_FEATURE_RAGGED ((uint64_t)1 << 7)
/* attn_problem.index_dtype is ATTN_INDEX_32: key_lengths, cu_q, cu_k, block_table, copies and indices hold int32_t. */
#define ATTN_FEATURE_INDEX32 ((uint64_t)1 << 8)
/* attn_problem.page_size: K and V are pools of pages, and a table says which pages hold the keys of a batch entry.
 *
 * K is (pages, heads_kv, page_size, dim_qk) and V is (pages, heads_kv, page_size, dim_v), with any strides: stride[0]
 * goes from page to page, and K and V may differ in it. Both may lie in one array. Key j of batch entry b is slot
 * j % page_size of page block_table[b][j / page_size], in K and in V. The table has pages_per_seq entries for each
 * batch entry, side by side, and block_table.stride[0] from one batch entry to the next.
 *
 * seq_k keys fit the pages of an entry: pages_per_seq >= ceil(seq_k / page_size). key_lengths are given and say how
 * many keys each entry has. Keys are not packed; queries may be. Entries of the table behind an entry's last key may
 * hold anything: -1, the largest number, any page. Slots without a key and pages without an owner may hold anything,
 * too, and have no part in any result. Two batch entries may have pages in common. The forward pass, an append and a
 * copy of pages may have pages; no other operation has them. */
#define ATTN_FEATURE_PAGED ((uint64_t)1 << 9)
/* For a backward pass: the loss also depends on the LSE. tensors.dlse is its gradient with respect to the natural LSE,
 * whatever plan.lse_base is, and D_i above is sum_c dO O - dLSE(b,h,i). dLSE of a query that sees no key does not
 * matter, unless the query has a sink. If plan.lse_sink leaves the sink out of LSE, dLSE is the gradient with respect
 * to that LSE:
 *
 *   D_i = sum_c dO O,   dS_ij = P_ij (...) + dLSE(b,h,i) exp(x_j - LSE(b,h,i)) */
#define ATTN_FEATURE_DLSE ((uint64_t)1 << 10)
/* For a backward pass with a bias: tensors.dbias is written, the gradient with respect to the bias:
 *
 *   dbias(b,h,i,j) = dS_ij, and 0 if query i does not see key j or one of them does not exist
 *
 * If dbias has a stride of 0 for batch entries, heads or queries, one element stands for all of them and is the sum
 * over them. Its stride of keys is never 0. */
#define ATTN_FEATURE_DBIAS ((uint64_t)1 << 11)
/* For a backward pass, with ATTN_FEATURE_SINK: the forward call had sinks, and tensors.dsink is written:
 *
 *   dsink(h) = -sum_b,i exp(sink(h) - lam(b,h,i)) D_i
 *
 * Here lam is the LSE with the sink, and P_ij above is exp(x_j - lam). If plan.lse_sink leaves the sink out of LSE, lam
 * is ln(exp(LSE) + exp(sink)). Then O and LSE of a query that sees no key do matter: O is 0, and LSE is the sink unless
 * plan.lse_sink leaves it out. */
#define ATTN_FEATURE_DSINK ((uint64_t)1 << 12)
/* attn_problem.kv_dtype is ATTN_E4M3 or ATTN_E5M2: K and V hold codes of that format, and scales turn codes into
 * values:
 *
 *   K(b,g,j,t) = k_scale(b,g,j) * code of K,   V(b,g,j,c) = v_scale(b,g,j) * code of V
 *
 * These are the K and V of all definitions above. Q, O and the rest do not change. The scales are fp32, from 2^-40 to
 * 2^40. A stride of 0 for batch entries, heads or keys gives all of them the same scale; with three such strides a
 * tensor has one scale. Scales are indexed by batch entry and key, also if keys are packed or in pages. Scales of keys
 * that an entry does not have may hold anything. Only the forward pass may have 8-bit K and V, and its V is then not
 * latent. plan.kv_rule says how a kernel applies the scales. */
#define ATTN_FEATURE_KV8 ((uint64_t)1 << 16)
/* An operation: writes new keys and values into a cache, after those that each batch entry already has.
 *
 * Row i of batch entry b of k_new and v_new is written as key key_lengths[b] + i of K and V: a copy of its bytes, in
 * each KV head. There are seq_q new rows, or with ATTN_RAGGED_QUERIES as many as cu_q says; they are laid out like
 * queries. seq_k is the capacity of an entry: a row whose key would be seq_k or more is not written. Nothing else of K
 * and V changes, not even slots without a key, and nothing else is written. key_lengths are the lengths before the call
 * and do not change.
 *
 * K and V may have pages (ATTN_FEATURE_PAGED). The table then names the page of each key that is written. Later
 * entries of the table may hold anything. No two batch entries write into one page. The problem has heads_q =
 * heads_kv, key lengths, and nothing that hides keys or changes scores; keys are not packed. */
#define ATTN_FEATURE_APPEND ((uint64_t)1 << 14)
/* An operation: copies pages of K and V. For each n below batch, page copies[n][1] of K and of V gets the bytes of
 * page copies[n][0], in all KV heads and all slots. Nothing else of K and V changes. A page is written by one pair at
 * most, and no pair reads a page that another pair writes: the caller ensures this. A pair that names one page twice
 * changes nothing.
 *
 * The problem has batch, which counts pairs, heads_q = heads_kv, seq_q = 1, seq_k = 0, dim_qk, dim_v, page_size and
 * pages (ATTN_FEATURE_PAGED), and pages_per_seq = 0. There are no key lengths and no block table. */
#define ATTN_FEATURE_COPY_PAGES ((uint64_t)1 << 15)
/* An operation: computes O and LSE of each query over the keys of the blocks that a list names. The lists are inputs:
 * tensors.indices holds attn_problem.select numbers for each query i of each KV head g, and attn_problem.block keys
 * make a block.
 *
 *   visible    j with 0 <= j < len_k[b]; j <= diag(i) if causal; and floor(j / block) is one of
 *              indices(b, g, i, 0), ..., indices(b, g, i, select - 1)
 *
 * All else is as in the forward pass. A list is a set: its order has no meaning, and a block that it names twice counts
 * once. -1 names nothing and may stand anywhere. All other numbers are 0 .. 2^31 - 1. A block may have keys that the
 * query does not see, or none that exist: these have no part in any result. With block = 1 a list names keys.
 *
 * Entries may be packed: block j of entry b has the keys j * block, ..., j * block + block - 1 of that entry. There are
 * no windows, biases, masks, sinks, slopes, latent V, splits, pages or 8-bit K and V. A kernel may take the listed keys
 * in any order: plan.key_order, and the fields that depend on it, are not read. */
#define ATTN_FEATURE_SELECTED ((uint64_t)1 << 13)
/* An operation: chooses by score the blocks of keys that each query attends over. tensors.scores has a score for each
 * block of attn_problem.block keys, for each query i of each KV head g. tensors.indices is written, in the form that
 * ATTN_FEATURE_SELECTED reads: select numbers for each (b, g, i).
 *
 *   keys        n = len_k[b], or if causal the lesser of len_k[b] and diag(i) + 1
 *   candidates  the blocks j with j * block < n, also the last one if it is incomplete
 *   chosen      min(select, candidates) of them: the first select_first, the last select_last, and then the others with
 *               the highest scores. If two scores are equal, the block with the lower number. -0 equals +0.
 *
 * The chosen blocks stand in ascending order, and -1 behind them. Scores of candidates are numbers or infinities, never
 * NaN; all others may hold anything. select >= select_first + select_last. The problem has heads_q = heads_kv,
 * dim_qk = dim_v = 1 and dtype fp16. It may have key lengths and packed entries, may be causal, and has nothing else.
 * There is no K: cu_k gives only the lengths of the entries. */
#define ATTN_FEATURE_NSA_SELECT ((uint64_t)1 << 18)
/* An operation: compresses each block of keys into one key and one value, the means over the block:
 *
 *   K_cmp(b,h,i,t) = 1/l sum_j K(b,h,j,t),   V_cmp(b,h,i,c) = 1/l sum_j V(b,h,j,c),   j = i d, ..., i d + l - 1
 *
 * d is attn_problem.key_step and l is key_offset + 1. Blocks overlap if d < l. Entry b has block i if it has all of the
 * block's keys: i d + l <= len_k[b]. tensors.k_cmp and v_cmp have seq_q rows, and row i is block i. If the entry does
 * not have this block, 0 is written to the row. The entry may have more blocks than there are rows. Keys that are in no
 * block, and keys that an entry does not have, have no part in any result.
 *
 * The rows of the results may be packed (ATTN_RAGGED_QUERIES). cu_q then says where the rows of each entry lie, and the
 * kernel writes all len_q[b] rows of entry b, as above.
 *
 * The problem has batch, heads_q = heads_kv, seq_q, seq_k, dim_qk, dim_v, a format, key_step >= 1 and key_offset >= 0.
 * It may have key lengths and packed entries, and has nothing else. */
#define ATTN_FEATURE_NSA_COMPRESS ((uint64_t)1 << 17)
/* An operation: adds three results of attention, weighted by gates. It is the last step of native sparse attention:
 *
 *   O(b,h,i,c) = sum_s gates(b,h,i,s) O_s(b,h,i,c)
 *
 * O_0, O_1 and O_2 are tensors.o1, o2 and o3: attention over compressed, selected and near keys. Gates are used as they
 * are, after any activation: they may be 0 or negative, and need not add up to 1. There is no LSE. If a gate is 0 (or
 * -0) and its side is infinite or NaN in a column, O of that column may be anything, unless plan.isolates_masked_nan is
 * set. Then such a side has no part in the result. plan.merge_format is the format to which products and sums are
 * rounded. The problem has batch, heads_q = heads_kv, seq_q, dim_v, a format, seq_k = 0 and dim_qk = 1. */
#define ATTN_FEATURE_NSA_COMBINE ((uint64_t)1 << 19)
/* For a forward pass or ATTN_FEATURE_BACKWARD: each key stands for a block of keys of a longer sequence. The blocks are
 * those of ATTN_FEATURE_NSA_COMPRESS (d = key_step, l = key_offset + 1). The position of key j is that of its block's
 * last key:
 *
 *   pos(j) = j d + l - 1
 *
 * Lengths, causal masks and windows hide keys by position:
 *
 *   visible    j >= 0 with pos(j) < len_k[b]; pos(j) <= diag(i) if causal;
 *              diag(i) - window_left <= pos(j) <= diag(i) + window_right
 *
 * len_k[b] and diag(i) are positions too: key_lengths holds lengths of the longer sequences. An entry with room for n
 * keys has a length from 0 to n d + l - 1; a value outside counts as the nearer end, and without key_lengths it is the
 * largest. Bias, mask and dbias are numbered by keys. With d = l = 1 all is as without the bit. There are no slopes. */
#define ATTN_FEATURE_KEY_STEP ((uint64_t)1 << 20)
/* An operation: computes the gradients of a call with ATTN_FEATURE_SELECTED. The inputs are dO and the O and LSE of
 * that call. dQ, dK and dV follow the formulas of ATTN_FEATURE_BACKWARD, over the keys that are visible with
 * ATTN_FEATURE_SELECTED. tensors.indices is an input, read as in that call, and has no gradient. A block that a list
 * names twice counts once. dQ of a query that sees no key, and dK and dV of a key that no query sees, must be written
 * as 0: a block that no list names has such keys. ATTN_FEATURE_DLSE may be set too. A problem with this bit has neither
 * ATTN_FEATURE_SELECTED nor ATTN_FEATURE_BACKWARD, and nothing that either of them excludes. */
#define ATTN_FEATURE_SELECTED_BACKWARD ((uint64_t)1 << 21)
/* For a merge: the result takes the place of the first side. tensors.o has the data and the strides of tensors.o1, and
 * tensors.lse, if wanted, those of tensors.lse1. A kernel must read each number of the first side before it
 * overwrites it. If no LSE is wanted, lse1 is not written. */
#define ATTN_FEATURE_IN_PLACE ((uint64_t)1 << 22)
/* An operation: scores blocks of keys by attention over compressed keys, and chooses blocks by these scores.
 * (ATTN_FEATURE_NSA_SELECT gets the scores.) tensors.k holds the compressed keys (ATTN_FEATURE_NSA_COMPRESS).
 * Key c stands for positions c d, ..., c d + l - 1, with d = key_step and l = key_offset + 1, and a query sees it under
 * the rules of ATTN_FEATURE_KEY_STEP. Lengths and diag(i) are positions. tensors.lse is an input: the LSE of attention
 * over these keys, in the form of this plan (lse_base). For each (b, g, i), h runs over the query heads of g:
 *
 *   P(h,c)      = exp(scale * Q(b,h,i).K(b,g,c) - LSE(b,h,i)) if query i sees key c, else 0
 *   score(j)    = sum_h sum_c M(c,j) * P(h,c), with M(c,j) = overlap(c,j) / d
 *   overlap(c,j) = the number of positions of key c in block j, which holds j * block to (j + 1) * block - 1
 *   positions   n = len_k[b], or if causal the lesser of len_k[b] and diag(i) + 1
 *   candidates  the blocks j with j * block < n, also the last one if it is incomplete
 *   chosen      min(select, candidates) of them: the first select_first, the last select_last, and then the others with
 *               the highest scores
 *
 * tensors.indices is written: the chosen blocks, each once, in any order, and -1 in all other places. Computed scores
 * have errors. A choice is right if scores within these errors lead to it. M is computed in fp32 or better. If an input
 * that a query sees is not finite, or a number overflows, scores may be anything. The list then names any
 * min(select, candidates) candidates, each once, including those that are always chosen.
 *
 * If tensors.scores is not NULL, the scores are written as well, and the kernel must choose by the scores that it
 * writes. All of tensors.scores is written; the value of a block that is no candidate does not matter. The LSE of a
 * query that sees no key does not matter; its candidates have scores of 0.
 *
 * select >= select_first + select_last, dim_v = 1, and key_step and key_offset are at most 2^16. The problem may have
 * key lengths and be causal. Entries may be packed; cu_k then counts compressed keys. There are no softcaps, windows,
 * biases, masks, sinks, slopes, splits, pages or 8-bit K and V. */
#define ATTN_FEATURE_NSA_SCORE ((uint64_t)1 << 23)
/* A bit only of attn_kernel.features: the kernel has no forward pass, and gets only problems of other operations. */
#define ATTN_FEATURE_NO_FORWARD ((uint64_t)1 << 63)

/* Bits of attn_problem.ragged. */
typedef enum attn_ragged { ATTN_RAGGED_QUERIES = 1, ATTN_RAGGED_KEYS = 2 } attn_ragged;

/* The numbers in key_lengths, cu_q, cu_k, block_table, copies and indices. */
typedef enum attn_index { ATTN_INDEX_64 = 0, ATTN_INDEX_32 = 1 /* with ATTN_FEATURE_INDEX32 */ } attn_index;

/* The problem that a caller asks for. Sizes are counts of elements; a zero length is legal. */
typedef struct attn_problem {
  uint32_t size;
  int32_t dtype; /* of Q, K, V and O: ATTN_F16, ATTN_BF16, or with ATTN_FEATURE_F32 ATTN_F32. See kv_dtype */
  int64_t batch;
  int64_t heads_q;
  int64_t heads_kv; /* divides heads_q */
  int64_t seq_q;
  int64_t seq_k;           /* the capacity of K and V; key_lengths may be shorter */
  int64_t dim_qk;          /* 1..256, with ATTN_FEATURE_WIDE to 1024 */
  int64_t dim_v;           /* the same range, independent of dim_qk except where latent */
  float scale;             /* finite; always explicit, there is no default; may be 0 or negative */
  float softcap;           /* 0: none; else positive and finite */
  int32_t causal;          /* boolean */
  int32_t align;           /* attn_align: where diag(i) lies, for both causal masks and windows */
  int64_t window_left;     /* inclusive; negative: unbounded */
  int64_t window_right;    /* inclusive; negative: unbounded; causal caps it at 0 */
  int32_t has_key_lengths; /* boolean: tensors.key_lengths holds one length a batch entry */
  int32_t bias_dtype;      /* ATTN_NONE, ATTN_F16, ATTN_BF16 or ATTN_F32 */
  int32_t has_mask;        /* boolean: tensors.mask is given */
  int32_t latent;          /* boolean, with ATTN_FEATURE_LATENT: V is the first dim_v columns of K */
  int64_t num_splits; /* 0: the kernel chooses; more splits than KV tiles is legal */
  uint64_t features;  /* appended: ATTN_FEATURE_*, all that goes beyond a dense 16-bit forward call; 0: nothing does */
  int32_t has_sink;   /* appended: boolean, with ATTN_FEATURE_SINK: tensors.sink is given */
  int32_t sink_dtype; /* of the sinks: ATTN_F16, ATTN_BF16 or ATTN_F32; 0 without sinks */
  int32_t has_alibi;  /* appended: boolean, with ATTN_FEATURE_ALIBI: tensors.slopes is given */
  int32_t ragged;     /* bits of attn_ragged, with ATTN_FEATURE_RAGGED; 0: nothing is packed */
  int64_t total_q;    /* appended: rows of packed queries; 0 if they are not packed */
  int64_t total_k;    /* appended: rows of packed keys; 0 if they are not packed */
  int32_t index_dtype; /* appended: attn_index */
  int32_t reserved2;
  int64_t page_size;     /* appended: keys of a page, with ATTN_FEATURE_PAGED; 0: K and V have no pages */
  int64_t pages;         /* appended: pages of K and V; 0 without pages */
  int64_t pages_per_seq; /* appended: entries of the table for each batch entry; 0 without pages */
  int32_t kv_dtype;      /* appended: of K and V with ATTN_FEATURE_KV8: ATTN_E4M3 or ATTN_E5M2; 0: as dtype says */
  int32_t reserved3;
  int64_t block;  /* appended: keys per block, with ATTN_FEATURE_SELECTED, _SELECTED_BACKWARD, _NSA_SELECT or _NSA_SCORE;
                     else 0 */
  int64_t select; /* appended: indices per query and KV head, with the same bits, at least 1; else 0 */
  int64_t select_first; /* appended: how many first blocks are always chosen, with ATTN_FEATURE_NSA_SELECT or _NSA_SCORE;
                           else 0 */
  int64_t select_last;  /* appended: how many last blocks are always chosen, with the same bits; else 0 */
  int64_t key_step;   /* appended: keys from the start of a block to the start of the next, at least 1, with
                         ATTN_FEATURE_NSA_COMPRESS, _NSA_SCORE or _KEY_STEP (for these two at most 2^16); else 0 */
  int64_t key_offset; /* appended: keys of a block less 1, with the same bits and the same limits; else 0 */
} attn_problem;

/* A strided view: element (i0,i1,i2,i3) lies at data + sum i_n stride[n], in
 * elements. Any stride is legal for a size-1 dimension; 0 broadcasts an input. */
typedef struct attn_tensor {
  void* data;
  int64_t stride[4];
} attn_tensor;

/* The tensors, in host memory for ATTN_CPU and in device memory for ATTN_CUDA. */
typedef struct attn_tensors {
  uint32_t size;
  uint32_t reserved;
  attn_tensor q;              /* (batch, heads_q, seq_q, dim_qk) */
  attn_tensor k;              /* (batch, heads_kv, seq_k, dim_qk); in pages (pages, heads_kv, page_size, dim_qk) */
  attn_tensor v;              /* (batch, heads_kv, seq_k, dim_v); in pages (pages, heads_kv, page_size, dim_v) */
  attn_tensor o;              /* (batch, heads_q, seq_q, dim_v) */
  attn_tensor lse;            /* (batch, heads_q, seq_q, 1), fp32, of plan.lse_base; data NULL: not wanted */
  attn_tensor bias;           /* (batch, heads_q, seq_q, seq_k), of bias_dtype */
  attn_tensor mask;           /* (batch, heads_q, seq_q, seq_k), one byte each; non-zero: may be seen */
  const int64_t* key_lengths; /* (batch), dense, of index_dtype; a value outside 0..seq_k counts as the nearer end.
                                 Lengths are positions with ATTN_FEATURE_KEY_STEP */
  void* workspace;            /* plan.workspace_bytes, of any content; aligned to plan.workspace_align */
  uint64_t workspace_bytes;
  /* Appended, for ATTN_FEATURE_MERGE: the results of two sides. */
  attn_tensor o1, o2;     /* (batch, heads_q, seq_q, dim_v) */
  attn_tensor lse1, lse2; /* (batch, heads_q, seq_q, 1), fp32, of plan.lse_base */
  /* Appended, for ATTN_FEATURE_SINK: (1, heads_q, 1, 1), of sink_dtype. Exponents of e, whatever plan.lse_base is. */
  attn_tensor sink;
  /* Appended, for ATTN_FEATURE_BACKWARD and _SELECTED_BACKWARD, which read o and lse. All of the problem's dtype. */
  attn_tensor dout;   /* (batch, heads_q, seq_q, dim_v): the gradient of O */
  attn_tensor dq;     /* (batch, heads_q, seq_q, dim_qk) */
  attn_tensor dk, dv; /* the shapes of k and v */
  /* Appended, for ATTN_FEATURE_ALIBI: (batch, heads_q, 1, 1), fp32. For exponents of e. The stride of the batch is 0 if
   * all entries have the same slopes. */
  attn_tensor slopes;
  /* Appended, for ATTN_FEATURE_RAGGED: (batch + 1), dense, of index_dtype. NULL for a side that is not packed. */
  const void* cu_q;
  const void* cu_k;
  /* Appended, for ATTN_FEATURE_PAGED: (batch, 1, 1, pages_per_seq), of index_dtype; stride[3] is 1. */
  attn_tensor block_table;
  /* Appended, for ATTN_FEATURE_DLSE: (batch, heads_q, seq_q, 1), fp32. */
  attn_tensor dlse;
  /* Appended, for ATTN_FEATURE_DBIAS: (batch, heads_q, seq_q, seq_k), of bias_dtype. It is never packed. */
  attn_tensor dbias;
  /* Appended, for ATTN_FEATURE_DSINK: (1, heads_q, 1, 1), fp32. */
  attn_tensor dsink;
  /* Appended, for ATTN_FEATURE_KV8: (batch, heads_kv, seq_k, 1), fp32. Never packed, never in pages. */
  attn_tensor k_scale, v_scale;
  /* Appended, for ATTN_FEATURE_APPEND, which writes k and v. */
  attn_tensor k_new; /* (batch, heads_kv, seq_q, dim_qk) */
  attn_tensor v_new; /* (batch, heads_kv, seq_q, dim_v) */
  /* Appended, for ATTN_FEATURE_COPY_PAGES, which writes k and v: (batch, 1, 1, 2), of index_dtype; stride[3] is 1. */
  attn_tensor copies;
  /* Appended, for ATTN_FEATURE_SELECTED and _SELECTED_BACKWARD, and written for ATTN_FEATURE_NSA_SELECT and _NSA_SCORE:
   * (batch, heads_kv, seq_q, select), of index_dtype. */
  attn_tensor indices;
  /* Appended, for ATTN_FEATURE_NSA_SELECT: (batch, heads_kv, seq_q, ceil(seq_k / block)), fp32. Written for
   * ATTN_FEATURE_NSA_SCORE, if data is not NULL: the same, with ceil((seq_k d + l - 1) / block) columns. */
  attn_tensor scores;
  /* Appended, for ATTN_FEATURE_NSA_COMPRESS: (batch, heads_kv, seq_q, dim_qk) and (batch, heads_kv, seq_q, dim_v). */
  attn_tensor k_cmp, v_cmp;
  /* Appended, for ATTN_FEATURE_NSA_COMBINE, which reads o1 and o2, too: (batch, heads_q, seq_q, dim_v). */
  attn_tensor o3;
  /* Appended, for ATTN_FEATURE_NSA_COMBINE: (batch, heads_q, seq_q, 3), of the problem's dtype. */
  attn_tensor gates;
} attn_tensors;

/* Why a kernel was stopped. The strings are valid during the callback only. */
typedef enum attn_report_kind {
  ATTN_REPORT_LAUNCH = 0,       /* a launch was refused */
  ATTN_REPORT_DEADLOCK = 1,     /* every thread waits, or some exited while others wait */
  ATTN_REPORT_DIVERGENCE = 2,   /* threads met at different places, with different masks or operations */
  ATTN_REPORT_SHARED = 3,       /* shared memory: a red zone was written, or a copy left its array */
  ATTN_REPORT_ALIGNMENT = 4,    /* an address not aligned as the operation needs */
  ATTN_REPORT_ASYNC = 5,        /* an asynchronous operation was not waited for, or misused */
  ATTN_REPORT_DISAGREEMENT = 6, /* lanes hold different values where all must hold the same */
  ATTN_REPORT_STACK = 7,        /* a thread ran off its stack */
  ATTN_REPORT_DEVICE = 8,       /* an error of the CUDA runtime or driver */
  /* What an instrumented build, or compute-sanitizer, finds: */
  ATTN_REPORT_ADDRESS = 9,        /* an access outside of an object, or to a freed one */
  ATTN_REPORT_UNDEFINED = 10,     /* undefined behaviour of C++: overflow, a bad shift, misalignment */
  ATTN_REPORT_UNINITIALISED = 11, /* a use of memory that nothing has written */
  ATTN_REPORT_RACE = 12           /* two unordered accesses to one address by two threads, one of them a write */
} attn_report_kind;

typedef struct attn_report {
  uint32_t size;
  int32_t kind; /* attn_report_kind */
  uint32_t block[3];
  uint32_t thread[3];
  const char* message; /* one line for a person: what happened, and where to look */
  const char* file;    /* NULL where the back end cannot say */
  int32_t line;
  int32_t shared_bytes; /* if a launch was refused for its shared memory: the bytes that a block needs; else 0 */
} attn_report;

/* Asks for intermediates of one block and one warp. Records are appended to
 * `values` as floats: tag (attn_probe_tag), KV tile, lane, count, then `count`
 * values. `used` counts floats. It may end above `capacity`: floats beyond it are lost.
 *
 * Each kernel may distribute a tile over lanes in its own way. Readers know one way,
 * the C fragments of mma.m16n8k16, whose warp owns 16 rows: value 4n + e of S,
 * P or O lies in row lane / 4 + 8 (e / 2), column 8n + 2 (lane % 4) + e % 2 of
 * the tile; value r of ROW_MAX and SCALE belongs to row lane / 4 + 8 r, and so
 * do values 3r..3r+2 of ROWS. Units depend on the kernel as well: scores may
 * not be scaled yet, or be multiplied by log2 e. */
typedef enum attn_probe_tag {
  ATTN_PROBE_S = 1,       /* scores after scale, cap, bias and mask */
  ATTN_PROBE_ROW_MAX = 2, /* the running row maximum after this tile */
  ATTN_PROBE_SCALE = 3,   /* the factor by which the accumulator was rescaled */
  ATTN_PROBE_P = 4,       /* probabilities, before they are rounded to 16 bits */
  ATTN_PROBE_O = 5,       /* the accumulator after this tile */
  ATTN_PROBE_ROWS = 6     /* once: b, h, i of each row; i is -1 for a row past the last */
} attn_probe_tag;

typedef struct attn_probe {
  uint32_t size;
  uint32_t block[3];
  uint32_t warp;
  uint32_t reserved;
  float* values; /* in the same memory, host or device, as the tensors */
  uint64_t capacity;
  unsigned long long* used; /* in the same memory as values; starts at 0 */
} attn_probe;

/* The results of the CPU executor's approximate instructions and tensor-core products. */
typedef enum attn_arithmetic {
  ATTN_ARITHMETIC_ANY = 0,  /* any results that are documented as possible; the seed says how products round */
  ATTN_ARITHMETIC_H200 = 1, /* the bits of an NVIDIA H200 */
  /* Products follow published models, and ex2, lg2, rcp and rsqrt have an H200's bits. This is not proven
   * (docs/how-it-works/executor.md). */
  ATTN_ARITHMETIC_A100 = 2, /* sm_80 */
  ATTN_ARITHMETIC_L40S = 3  /* sm_89 */
} attn_arithmetic;

/* Where the kernel runs. On the CPU all values come from the case, so that a finding
 * made on a GPU replays with that GPU's choice of splits. */
typedef struct attn_env {
  uint32_t size;
  int32_t backend;             /* attn_backend */
  int32_t sm_count;            /* multiprocessors to plan for */
  int32_t compute_capability;  /* 10 * major + minor: 80, 90 */
  int64_t shared_memory_limit; /* bytes a block may have after opting in */
  uint64_t schedule_seed;      /* CPU: order of threads, early or late copies, rounding of mma; 0: in order */
  int32_t variant;             /* 0: the kernel's own choice; n: its n-th instantiation, which plan.path names */
  int32_t arithmetic;          /* CPU: attn_arithmetic */
  void* stream;                /* CUDA: the cudaStream_t to launch on */
  void (*report)(void* user, const attn_report* report);
  void* user;
  const attn_probe* probe; /* NULL: none */
} attn_env;

/* The plan says how the kernel will compute. The oracle derives its bound from the
 * plan, and the generators aim at its tile borders. 0 in an error class or format means
 * "not known": the loosest documented class is assumed, and every verdict says so. */
typedef enum attn_accumulator { ATTN_ACC_UNKNOWN = 0, ATTN_ACC_FFMA = 1, ATTN_ACC_TENSOR = 2 } attn_accumulator;

typedef enum attn_exp_class {
  ATTN_EXP_UNKNOWN = 0,
  ATTN_EXP_EX2_APPROX = 1, /* ex2.approx.ftz.f32 */
  ATTN_EXP_EXP2F = 2,      /* exp2f */
  ATTN_EXP_EXPF = 3,       /* expf */
  ATTN_EXP_FAST_EXPF = 4   /* __expf */
} attn_exp_class;

typedef enum attn_log_class {
  ATTN_LOG_UNKNOWN = 0,
  ATTN_LOG_LG2_APPROX = 1, /* lg2.approx.ftz.f32 */
  ATTN_LOG_LOGF = 2,       /* logf or log2f */
  ATTN_LOG_FAST_LOGF = 3   /* __logf */
} attn_log_class;

typedef enum attn_rcp_class {
  ATTN_RCP_UNKNOWN = 0,
  ATTN_RCP_APPROX = 1, /* rcp.approx.ftz.f32 */
  ATTN_RCP_EXACT = 2   /* correctly rounded reciprocal or division */
} attn_rcp_class;

typedef enum attn_tanh_class {
  ATTN_TANH_UNKNOWN = 0,
  ATTN_TANH_APPROX = 1, /* tanh.approx.f32 */
  ATTN_TANH_TANHF = 2   /* tanhf */
} attn_tanh_class;

typedef enum attn_scale_mode {
  ATTN_SCALE_UNKNOWN = 0,
  ATTN_SCALE_FUSED = 1, /* exp2(fma(s, sigma, -mu)) with mu = max * sigma */
  /* The scaled score is rounded before the maximum is subtracted. If a bias absorbs all scores of a row, as the
   * lowest finite number does, they are equal. Then all weights must be equal, even if the score times log2 e
   * is -inf. */
  ATTN_SCALE_SEPARATE = 2,
  /* Q is scaled and rounded to its own format first. A backward pass may multiply dA by this Q for dK. */
  ATTN_SCALE_FOLDED_Q = 3,
  /* The scaled score x is rounded, then exp2(fma(x, log2 e, -mu)) with mu = max * log2 e rounded. If |x| is
   * 2^27 or more, the rounding of mu changes all weights of a row by one factor. If a tile holds only keys whose
   * biases are that far below the row's maximum, no weight may become infinite in P's format: NaN, from such a
   * weight times 0, is a bug of the kernel. */
  ATTN_SCALE_SEPARATE_FMA = 4
} attn_scale_mode;

typedef enum attn_format {
  ATTN_FORMAT_UNKNOWN = 0,
  ATTN_FORMAT_F32 = 1,
  ATTN_FORMAT_OF_INPUT = 2, /* the problem's dtype */
  ATTN_FORMAT_E4M3 = 3,     /* 8 bits, 448 at most; of P and V only */
  ATTN_FORMAT_E5M2 = 4,     /* 8 bits, 57344 at most; of P and V only */
  ATTN_FORMAT_TF32 = 5, /* fp32 with 10 bits of mantissa, as a tensor core takes it; of Q and K, P and V only */
  ATTN_FORMAT_F16 = 6,  /* fp16, whatever the inputs are; of P and V only */
  ATTN_FORMAT_BF16 = 7  /* bf16, whatever the inputs are; of P and V only */
} attn_format;

/* The plan's fields for the following enums were appended. A kernel that declares
 * them is judged by a bound that is many times sharper, and must compute as declared
 * in every row of every problem. */

/* How P.V accumulates the keys of a split. A tile is tile_k keys, the first of
 * which is a multiple of tile_k; keys within a tile may be added in any order. */
typedef enum attn_key_order {
  ATTN_KEYS_ANY = 0,        /* not known: several accumulators, any order */
  ATTN_KEYS_ASCENDING = 1,  /* one accumulator, tile after tile from the first to the last */
  ATTN_KEYS_DESCENDING = 2, /* one accumulator, from the last tile to the first */
  ATTN_KEYS_CONSECUTIVE = 3 /* at any time each accumulator holds the sum over one run of consecutive tiles */
} attn_key_order;

/* The maximum that is subtracted from a row's scores before the exponential. It is
 * the largest of the scores in the form in which they enter the exponential; with
 * ATTN_SCALE_FUSED it is a score multiplied by sigma and rounded. */
typedef enum attn_max_rule {
  /* A number that never falls, and is the row's maximum or at most 10 below it. P times p_scale must
   * always fit p_format: in e4m3, which holds at most 448, p_scale = 256 allows nothing but the maximum itself.
   */
  ATTN_MAX_UNKNOWN = 0,
  /* The maximum over the visible keys of all tiles (of the split) up to the key's own tile,
   * in a declared key_order. If a tile does not raise it, the accumulator and the sum do not
   * change: exp(0) is exactly 1. */
  ATTN_MAX_RUNNING = 1,
  ATTN_MAX_WHOLE = 2 /* the maximum over all visible keys of the split, known beforehand: no rescales */
} attn_max_rule;

typedef enum attn_sum_rule {
  ATTN_SUM_OF_EXP = 0,      /* the row sum adds the results of the exponential, in fp32 */
  ATTN_SUM_OF_ROUNDED_P = 1 /* it adds P as converted to p_format */
} attn_sum_rule;

typedef enum attn_dot_order {
  ATTN_DOT_ANY = 0,
  ATTN_DOT_ASCENDING = 1 /* Q.K has one accumulator; 16 columns after 16, from the first; any order within 16 */
} attn_dot_order;

/* How the results of the splits are merged. A split whose keys all lie so far below the others that its weight is 0 has
 * no part in the result, however large the rounding of its LSE is. */
typedef enum attn_merge_rule {
  ATTN_MERGE_UNKNOWN = 0,   /* judged by the loosest bound, that of ATTN_MERGE_ONE_BY_ONE */
  ATTN_MERGE_BY_WEIGHT = 1, /* sum w_s O_s / sum w_s, w_s = exp(LSE_s - max LSE) */
  ATTN_MERGE_BY_LSE = 2,    /* sum exp(LSE_s - LSE) O_s, all at once, not normalised again */
  ATTN_MERGE_ONE_BY_ONE = 3 /* each split into the result of those before it, through an LSE in fp32 */
} attn_merge_rule;

/* How fp32 numbers are rounded to a format with fewer bits: P, V, a scaled Q, partials, O. */
typedef enum attn_conversion {
  ATTN_CONVERT_NEAREST = 0, /* to nearest, ties to even */
  ATTN_CONVERT_FAITHFUL = 1 /* to either neighbour: truncated, rounded up, or stochastic */
} attn_conversion;

/* Whether P is divided by the sum of its row, or of its split's part of the row, before it is rounded to
 * p_format. A weight of 2^-20 in a row of 1024 equal weights is a normal number of fp16 as exp(x - max), and a
 * subnormal one after the division. */
typedef enum attn_p_order {
  /* Either. A running maximum, a sum of rounded P (ATTN_MAX_RUNNING, ATTN_SUM_OF_ROUNDED_P) and a merge_format
   * of ATTN_FORMAT_OF_INPUT divide by the sum at the end; then the same as ATTN_P_UNNORMALISED. */
  ATTN_P_ANY = 0,
  ATTN_P_UNNORMALISED = 1, /* exp(x - max) is rounded, and O is divided by the sum */
  /* exp(x - max) / sum, or exp(x - max) * rcp(sum), is rounded, with the same exp(x - max) that the sum adds. A
   * backward pass that rounds P = exp(x - LSE) may say this too. */
  ATTN_P_NORMALISED = 2
} attn_p_order;

/* The plan's fields for the enums from here to attn_lse_rule were appended later. A plan that sets all of
 * these, and all fields above, determines every bit of O and LSE in a device's known arithmetic:
 * reference/emulator/ computes them, and the property bit_exact compares. Each step is rounded to fp32, and
 * there is no fma but those written here. 0: not declared; then the emulator cannot follow the plan. None of
 * these fields changes a bound. */

/* How a product of Q.K becomes the score that enters the exponential. With ATTN_SCALE_FUSED the score is
 * the product times the scale's sign, sigma is |scale| * log2 e, and no rule is needed. With
 * ATTN_SCALE_SEPARATE the score is x * log2 e, with x as below. If that is -inf for a visible key, the score is
 * the most negative finite number: only hidden keys have -inf. */
typedef enum attn_score_rule {
  ATTN_SCORE_UNKNOWN = 0,
  /* x = product * scale; with a cap then x = softcap * tanh(x / softcap); with a bias then x = x + bias. */
  ATTN_SCORE_BY_STEPS = 1,
  /* No cap, no bias: x = product * scale. No cap, a bias: x = fma(product, scale, bias). With a cap, t =
   * tanh(product * (scale / softcap)). A cap and a bias: x = t * softcap, then x = x + bias. A cap, no bias:
   * the score is t * (softcap * log2 e), and there is no x. A value in parentheses is computed in double and
   * rounded to fp32. */
  ATTN_SCORE_BY_FMA = 2
} attn_score_rule;

/* tanh(x) is computed from size = |x| and gets x's sign. */
typedef enum attn_tanh_rule {
  ATTN_TANH_RULE_UNKNOWN = 0,
  /* If size < 0.65: fma(size * q, p, size) with q = x * x and a polynomial p in q, by Horner's rule with fma.
   * Its coefficients from the highest: -0x1.6970d8p-8, 0x1.4f5ee6p-6, -0x1.b7cfeep-5, 0x1.1103f2p-3,
   * -0x1.555524p-2. Else: fma(-2, rcp(exp2(size * 2 log2 e) + 1), 1), by exp_class and rcp_class. */
  ATTN_TANH_IN_TWO = 1
} attn_tanh_rule;

/* How the accumulator and the sum are rescaled if the maximum grows. */
typedef enum attn_rescale_rule {
  ATTN_RESCALE_UNKNOWN = 0,
  /* In each tile, before its keys are added, both are multiplied by exp2(old - new), where old and new are the
   * maxima as they are subtracted. As long as the maximum is -inf, 0 is subtracted in its place. */
  ATTN_RESCALE_EACH_TILE = 1,
  /* The accumulator as above. Each part of the sum is rescaled by the fma that adds the first of its keys in
   * the tile: sum = fma(sum, exp2(old - new), p), with p = 0 for a hidden key. */
  ATTN_RESCALE_BY_FMA = 2
} attn_rescale_rule;

/* The number and the order of the keys that P.V adds at once. */
typedef enum attn_tile_order {
  ATTN_TILE_ANY = 0,
  ATTN_TILE_ASCENDING = 1 /* as many keys as the tensor core takes (16 on an H200), ascending from the tile's
                             first key; Q.K adds as many columns at once, ascending */
} attn_tile_order;

/* The order in which splits are merged, or the two sides of ATTN_FEATURE_MERGE, which count as two splits. If only one
 * side saw a key, the sum of w_s is 1, and the result is its O and, with a declared lse_rule, its LSE, bit for bit. */
typedef enum attn_merge_order {
  ATTN_MERGE_ANY = 0,
  /* O = (sum of w_s O_s) * rcp(sum of w_s), with w_s = exp2((LSE_s - largest) * log2 e). The first sum is
   * ascending, by fma. The second is kept in 32 parts: part s mod 32 takes split s, ascending. Then
   * neighbouring parts are added in pairs. */
  ATTN_MERGE_ASCENDING = 1,
  ATTN_MERGE_BY_FOURS =
      2 /* both sums in four parts: part s mod 4 takes split s; the parts are added in order */
} attn_merge_order;

/* How a row, or a split's part of it, is normalised. A sum of 0 means that the row sees no key. */
typedef enum attn_norm_rule {
  ATTN_NORM_UNKNOWN = 0,
  ATTN_NORM_BY_RECIPROCAL = 1 /* O = accumulator * rcp(sum), by rcp_class */
} attn_norm_rule;

typedef enum attn_lse_rule {
  ATTN_LSE_UNKNOWN = 0,
  /* (m + lg2(sum)) * ln 2, where m is the number subtracted from scores, in powers of two. Of merged splits:
   * largest + lg2(sum of w_s) * ln 2. lg2 is that of log_class. */
  ATTN_LSE_FROM_LOG2 = 1,
  ATTN_LSE_BY_FMA = 2 /* the same, but of merged splits fma(lg2(sum of w_s), ln 2, largest) */
} attn_lse_rule;

/* What the LSE of a query that sees no key holds. */
typedef enum attn_lse_dead {
  ATTN_LSE_DEAD_MINUS_INF = 0,
  ATTN_LSE_DEAD_PLUS_INF = 1,
  ATTN_LSE_DEAD_ZERO = 2,
  ATTN_LSE_DEAD_ANY = 3 /* anything: it is not judged */
} attn_lse_dead;

/* Where a backward pass gets O and the LSE from, and the operation of ATTN_FEATURE_NSA_SCORE the LSE. */
typedef enum attn_saved {
  ATTN_SAVED_GIVEN = 0,     /* the tensors */
  ATTN_SAVED_RECOMPUTED = 1 /* its own forward pass, as in automatic differentiation of a forward call */
} attn_saved;

/* How a kernel applies the scales of K and V (ATTN_FEATURE_KV8). */
typedef enum attn_kv_rule {
  ATTN_KV_RULE_UNKNOWN = 0, /* either */
  /* Products take the codes as they are, which every format of 16 bits holds exactly. A score is multiplied by its
   * key's scale. A scale of V multiplies P before P is rounded, or O. */
  ATTN_KV_FOLDED = 1,
  /* Each code is multiplied by its scale and rounded once to the problem's dtype, as plan.conversion says. Products
   * take these numbers. */
  ATTN_KV_DEQUANTISED = 2
} attn_kv_rule;

typedef struct attn_plan {
  uint32_t size;
  int32_t accumulator;         /* attn_accumulator of Q.K and P.V */
  char path[64];               /* which path through the kernel, NUL-terminated: "64x64 d64 cp.async" */
  int64_t tile_q;              /* query rows of a tile */
  int64_t tile_k;              /* keys of a tile */
  int64_t num_splits;          /* splits that will run; 1: none */
  int64_t split_tiles;         /* KV tiles of one split; the last splits may have fewer */
  int64_t rescales;            /* the most online rescales of a row's accumulator */
  int64_t merges;              /* the most partial results merged into a row; 0: none */
  int32_t mma_block;           /* products that the tensor core adds at once; 0: not known */
  int32_t exp_class;           /* attn_exp_class */
  int32_t log_class;           /* attn_log_class */
  int32_t rcp_class;           /* attn_rcp_class */
  int32_t tanh_class;          /* attn_tanh_class; only read with softcap */
  int32_t scale_mode;          /* attn_scale_mode */
  int32_t p_format;            /* attn_format of P in P.V */
  int32_t partial_format;      /* attn_format of the partials' O */
  int32_t flush_to_zero;       /* boolean: fp32 subnormals may become 0 */
  int32_t isolates_masked_nan; /* boolean: a NaN value never reaches a row that may not see its key */
  int32_t deterministic;       /* boolean: the same call gives the same bits */
  int32_t saved; /* attn_saved, read only with ATTN_FEATURE_BACKWARD, _SELECTED_BACKWARD or _NSA_SCORE */
  uint64_t workspace_bytes;
  uint64_t workspace_align; /* a power of two; at least 1 */
  /* Appended: */
  int32_t key_order;  /* attn_key_order */
  int32_t max_rule;   /* attn_max_rule */
  int32_t sum_rule;   /* attn_sum_rule */
  int32_t sum_lanes;  /* the row sum is kept in this many parts. Each adds at most ceil(tile_k / sum_lanes)
                         keys of a tile, one by one, tile after tile in key_order. The parts are added at the
                         end. 0: not known */
  int32_t dot_order;  /* attn_dot_order */
  int32_t merge_rule; /* attn_merge_rule; only read with splits and with ATTN_FEATURE_MERGE */
  int32_t conversion; /* attn_conversion */
  int32_t v_format;   /* attn_format that V is converted to before P.V; 0: it stays as it is */
  float exp_error;    /* the exponential's largest relative error, if it is in no class (a polynomial:
                         2^-13.5); 0: as exp_class says; must be below 0.25 */
  float p_scale;      /* P is multiplied by this before it is converted; the row sum may be too. 0: by 1 */
  float v_scale;      /* V is multiplied by this before it is converted to v_format; 0: by 1 */
  int32_t qk_format;  /* attn_format that Q and K are converted to before Q.K: ATTN_FORMAT_TF32; 0: they stay as
                         they are */
  /* Appended: */
  int32_t score_rule;   /* attn_score_rule */
  int32_t tanh_rule;    /* attn_tanh_rule; only read with softcap */
  int32_t rescale_rule; /* attn_rescale_rule */
  int32_t tile_order;   /* attn_tile_order */
  int32_t sum_run; /* the number of neighbouring keys of a tile that go to one part of the row sum, ascending.
                      The next sum_run keys go to the next of the sum_lanes parts, and after the last part to
                      the first. At the end the rescaled parts are added, neighbours in pairs. 0: not known */
  int32_t merge_order; /* attn_merge_order; only read with splits and with ATTN_FEATURE_MERGE */
  int32_t norm_rule;   /* attn_norm_rule */
  int32_t lse_rule;    /* attn_lse_rule */
  /* Appended: attn_format that partials are merged in. 0 or ATTN_FORMAT_F32: in fp32, as merge_rule says.
   * ATTN_FORMAT_OF_INPUT: O = sum w_s O_s / sum w_s l_s, where O_s is not divided by its sum l_s, and
   * w_s = exp(m_s - max m) with the split's maximum m_s. In the numerator each w_s, each w_s O_s and the sum
   * are rounded to the input's format, in the denominator only the sum. Both are added up in fp32. merge_rule
   * is not read. */
  int32_t merge_format;
  int32_t lse_base; /* of the LSE of run() and reduce(), not of the partials. 0: e; 2: log2 of the sum */
  int32_t lse_dead; /* attn_lse_dead */
  int32_t lse_sink; /* boolean, read only with sinks: the LSE of run() leaves the sink out */
  /* Appended, read only with ATTN_FEATURE_BACKWARD or _SELECTED_BACKWARD: */
  int32_t ds_format;   /* attn_format of dA as a factor of dQ and dK. 0: not known, assumed to be the input's */
  int32_t head_format; /* attn_format of dK and dV of one query head, before they are added up over the heads of
                          a KV head, and of one dS_ij that is added to dbias. 0: not known, assumed to be the input's */
  int64_t dq_adds;     /* the most fp32 additions of partial sums, outside of a product's accumulator, that an
                          element of dQ takes. 0: not known, assumed to be one for each key */
  int64_t dkv_adds;    /* the same for dK and dV. 0: not known, assumed to be one for each query of each head of the
                          group */
  int32_t kv_rule;     /* appended: attn_kv_rule, read only with ATTN_FEATURE_KV8 */
  int32_t p_order;     /* appended: attn_p_order */
} attn_plan;

/* Results of the splits: each has an O normalised by its own sum, and its LSE.
 * A split without a visible key has 0 and -inf. Both are fp32, innermost dense. They
 * leave sinks out; reduce() takes them in. */
typedef struct attn_partials {
  uint32_t size;
  uint32_t reserved;
  int64_t num_splits;
  uint64_t o_offset;     /* bytes from the start of the workspace */
  uint64_t lse_offset;   /* bytes from the start of the workspace */
  int64_t o_stride[4];   /* elements: (split, batch, head_q, query); dim_v has stride 1 */
  int64_t lse_stride[4]; /* elements: (split, batch, head_q, query) */
} attn_partials;

/* The sources that a library was built from. They show whether the library is stale. */
typedef struct attn_build {
  uint32_t size;
  uint32_t file_count;
  const char* hash;               /* of all fields below, lower-case hex */
  const char* compiler;           /* name and version */
  const char* flags;              /* as given to the compiler */
  const char* root;               /* the source tree at build time; files in it are named relative to it */
  const char* const* files;       /* sources and headers that the compiler read from the tree */
  const char* const* file_hashes; /* XXH3-128 of each, lower-case hex */
} attn_build;

/* The values that a size may have: all multiples of `multiple` from `least` to
 * `most`, or the values of `list`. If all fields are zero, the size may have any value. */
typedef struct attn_sizes {
  int64_t least;
  int64_t most;     /* 0: no limit */
  int64_t multiple; /* 0: any */
  int64_t count;    /* entries of `list`; 0: there is no list, and the range applies */
  int64_t list[12];
} attn_sizes;

/* The layouts that tensors may have. Strides of dimensions of one element do not matter. */
typedef enum attn_layout {
  ATTN_LAYOUT_ANY = 0,
  /* Dense in the order of attn_tensors: no gaps, and in Q, K, V, O and LSE no strides of 0. A bias or a mask
   * may have strides of 0. */
  ATTN_LAYOUT_DENSE = 1,
  ATTN_LAYOUT_INNER = 2 /* columns side by side: stride[3] is 1 */
} attn_layout;

/* The problems that a kernel takes: cases are drawn, changed and reduced within this
 * domain. plan() must still refuse other problems. 0 everywhere: all problems. */
typedef struct attn_domain {
  uint32_t size;
  uint32_t dtypes; /* bits 1 << attn_dtype; the bit of ATTN_F32 needs ATTN_FEATURE_F32 too; 0: fp16 and bf16 */
  attn_sizes batch;
  attn_sizes heads_q;
  attn_sizes group; /* heads_q / heads_kv */
  attn_sizes seq_q;
  attn_sizes seq_k;
  attn_sizes dim_qk;
  attn_sizes dim_v;
  int32_t equal_lengths; /* boolean: seq_q = seq_k, and a packed entry has as many keys as queries */
  int32_t equal_dims;    /* boolean: dim_qk = dim_v */
  int32_t causal;        /* 0: either; 1: never; 2: always */
  int32_t align;         /* of a causal mask, if seq_q and seq_k differ. 0: either; else 1 + attn_align */
  int32_t lse;           /* 0: wanted or not; 1: never wanted; 2: always wanted */
  int32_t usual_scale;   /* boolean: scale = 1 / sqrt(dim_qk) */
  /* Appended: */
  int32_t layout;      /* attn_layout */
  int32_t align_bytes; /* 0: any; else a power of two, at most 256. It divides the address of each tensor. If
                          the layout is not dense, it also divides the strides of Q, K, V and O in bytes, except
                          the strides of columns. (A dense row is as long as its dim.) */
} attn_domain;

/* One kernel on one back end. */
typedef struct attn_kernel {
  uint32_t size;
  uint32_t abi; /* ATTN_ABI */
  const char* name;
  const char* description; /* one line */
  int32_t backend;         /* attn_backend */
  uint32_t variant_count;  /* instantiations that env.variant = 1..variant_count selects */
  const char* const* variants;
  const attn_build* build; /* NULL: unknown, and every verdict says so */

  /* Decides how the kernel would compute `problem`. Reads only addresses and
   * strides of the tensors, and launches nothing. On refusal it writes a sentence
   * that names what is not supported into reason[reason_size], always
   * NUL-terminated. It writes at most plan->size bytes of the plan. For the same
   * arguments it gives the same answer. */
  attn_status (*plan)(const attn_problem* problem, const attn_tensors* tensors, const attn_env* env,
                      attn_plan* plan, char* reason, uint64_t reason_size);

  /* Launches the kernel as planned. It writes the outputs of the problem's operation: in the forward pass O, and LSE
   * if wanted. */
  attn_status (*run)(const attn_problem* problem, const attn_tensors* tensors, const attn_plan* plan,
                     const attn_env* env);

  /* The stages of a kernel that splits the keys; all NULL for a kernel that does
   * not. partials() says where the partial results lie in the workspace, partial()
   * computes all of them, reduce() turns them into O and LSE. A plan made with
   * num_splits = 1 can be run in stages too. */
  attn_status (*partials)(const attn_problem* problem, const attn_plan* plan, attn_partials* partials);
  attn_status (*partial)(const attn_problem* problem, const attn_tensors* tensors, const attn_plan* plan,
                         const attn_env* env);
  attn_status (*reduce)(const attn_problem* problem, const attn_tensors* tensors, const attn_plan* plan,
                        const attn_env* env);

  uint64_t features; /* appended: bits of attn_problem.features that plan() reads; 0: dense 16-bit forward calls
                        only */
  const attn_domain* domain; /* appended: NULL: not declared; the host finds out what plan() refuses */
} attn_kernel;

/* The function that a plug-in exports: returns its kernels by index, NULL past the last. */
ATTN_EXPORT const attn_kernel* attn_kernel_at(uint32_t index);

#ifdef __cplusplus
} /* extern "C" */
static_assert(ATTN_PROBLEM_MIN <= sizeof(attn_problem) && ATTN_TENSORS_MIN <= sizeof(attn_tensors) &&
                  ATTN_REPORT_MIN <= sizeof(attn_report) && ATTN_PROBE_MIN <= sizeof(attn_probe) &&
                  ATTN_ENV_MIN <= sizeof(attn_env) && ATTN_PLAN_MIN <= sizeof(attn_plan) &&
                  ATTN_PARTIALS_MIN <= sizeof(attn_partials) && ATTN_BUILD_MIN <= sizeof(attn_build) &&
                  ATTN_KERNEL_MIN <= sizeof(attn_kernel),
              "fields are appended, never taken away");
#endif
