#include "properties/case/domain.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "properties/case/planted_rank.h"
#include "properties/case/switches.h"

namespace attnfuzz {

int64_t nearest(const attn_sizes& sizes, int64_t n) {
  if (sizes.count > 0) {
    const int64_t* const end = sizes.list + std::min<int64_t>(sizes.count, std::size(sizes.list));
    return *std::min_element(sizes.list, end, [&](int64_t a, int64_t b) {
      const int64_t x = std::abs(a - n), y = std::abs(b - n);
      return x != y ? x < y : a < b;
    });
  }
  const int64_t step = std::max<int64_t>(sizes.multiple, 1);
  n = std::max(n, sizes.least);
  if (sizes.most > 0) n = std::min(n, sizes.most / step * step);
  const int64_t up = (n + step - 1) / step * step;
  return sizes.most > 0 && up > sizes.most ? up - step : up;
}

void fit(const attn_domain& domain, Case& c) {
  Problem& p = c.problem;
  const uint32_t taken = domain.dtypes & 7;
  if (taken != 0 && !(taken >> p.dtype & 1)) set_dtype(c, std::countr_zero(taken));
  p.batch = nearest(domain.batch, p.batch);
  const int64_t group = nearest(domain.group, p.heads_kv > 0 ? p.heads_q / p.heads_kv : 1);
  p.heads_q = nearest(domain.heads_q, std::max<int64_t>(p.heads_q, 1));
  // As many heads of K and V as before, if that is in reach.
  p.heads_kv = std::max<int64_t>(p.heads_q / std::max<int64_t>(group, 1), 1);
  if (p.heads_q % p.heads_kv != 0) p.heads_q = p.heads_kv * group;
  p.seq_k = nearest(domain.seq_k, p.seq_k);
  p.seq_q = domain.equal_lengths ? p.seq_k : nearest(domain.seq_q, p.seq_q);
  const bool usual = p.scale == 1.0f / std::sqrt(static_cast<float>(p.dim_qk));
  p.dim_qk = nearest(domain.dim_qk, p.dim_qk);
  p.dim_v = domain.equal_dims ? p.dim_qk : nearest(domain.dim_v, p.dim_v);
  if (domain.usual_scale || usual) p.scale = 1.0f / std::sqrt(static_cast<float>(p.dim_qk));
  if (domain.causal) p.causal = domain.causal == 2;
  if (domain.align && (p.seq_q != p.seq_k || p.key_lengths)) p.align = domain.align - 1;
  if (domain.lse) c.want_lse = domain.lse == 2;
  tidy(c);
}

std::optional<std::string> leaves_nothing(const attn_domain& domain) {
  constexpr int64_t kMost = int64_t{1} << 40;  // further on than any size of a case
  for (const attn_sizes* sizes : {&domain.batch, &domain.heads_q, &domain.group, &domain.seq_q, &domain.seq_k,
                                  &domain.dim_qk, &domain.dim_v}) {
    if (sizes->count < 0 || sizes->count > static_cast<int64_t>(std::size(sizes->list)))
      return "a list of " + std::to_string(sizes->count) + " sizes, which has 0 to " +
             std::to_string(std::size(sizes->list));
    for (const int64_t n : {sizes->least, sizes->most, sizes->multiple}) {
      if (n < 0 || n > kMost)
        return "a limit of " + std::to_string(n) + ", which is 0 to " + std::to_string(kMost);
    }
    if (sizes->most > 0 && nearest(*sizes, 0) < sizes->least)
      return "no size from " + std::to_string(sizes->least) + " to " + std::to_string(sizes->most) +
             " that it allows";
  }
  // The smallest there is.
  Case c;
  Problem& p = c.problem;
  p.batch = p.heads_q = p.heads_kv = p.seq_q = p.seq_k = p.dim_qk = p.dim_v = 1;
  fit(domain, c);
  if (auto why = illegal(c)) return why;
  if (nearest(domain.group, p.heads_q / p.heads_kv) != p.heads_q / p.heads_kv)
    return "no number of heads is one of heads_q and of so many to a KV head";
  return std::nullopt;
}

bool says_sizes(const attn_domain& domain) {
  attn_domain formats = {};
  formats.size = domain.size;
  formats.dtypes = domain.dtypes;
  return std::memcmp(&formats, &domain, sizeof domain) != 0;
}

}  // namespace attnfuzz
