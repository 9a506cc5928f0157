// Kernels that do less than the work.
#include <cmath>
#include <cstring>
#include <vector>

#include "tests/fuzz/strangers/stranger.h"

namespace stranger {
namespace {

STRANGER(no_op, "no-op") { return ATTN_OK; }

STRANGER(zeros, "zeros") { return cheap(p, t); }

// Computes only the first batch entry, without its last query.
STRANGER(first_batch, "first-batch") {
  attn_problem one = *p;
  one.batch = one.batch > 0 ? 1 : 0;
  one.seq_q = one.seq_q > 1 ? one.seq_q - 1 : one.seq_q;
  return compute(&one, t, plan, env);
}

// Uses only the first 16 keys.
STRANGER(few_keys, "few-keys") {
  attn_problem less = *p;
  less.seq_k = less.seq_k > 16 ? 16 : less.seq_k;
  return compute(&less, t, plan, env);
}

// Writes nothing into O; in real use O holds the result of the call before.
STRANGER(stale, "stale-buffer") {
  if (now()) return ATTN_OK;
  return compute(p, t, plan, env);
}

// Stores the first row of the call before as its first row.
STRANGER(behind, "one-call-behind") {
  static std::vector<char> last;
  const size_t bytes = static_cast<size_t>(p->dim_v) * 2;
  compute(p, t, plan, env);
  if (p->batch * p->heads_q * p->seq_q == 0) return ATTN_OK;
  std::vector<char> mine(bytes);
  std::memcpy(mine.data(), t->o.data, bytes);
  if (last.size() == bytes) std::memcpy(t->o.data, last.data(), bytes);
  last = mine;
  return ATTN_OK;
}

STRANGER(not_a_number, "nans") {
  attn_problem odd = *p;
  odd.scale = NAN;
  return compute(&odd, t, plan, env);
}

}  // namespace
}  // namespace stranger
