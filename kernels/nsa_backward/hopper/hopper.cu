// The instantiations of dK and dV on wgmma.
#include <algorithm>

#include "kernels/nsa_backward/hopper/hopper.h"
#include "kernels/nsa_backward/hopper/key_groups.h"

namespace attn::nsa {
namespace {

template <class T>
KeyGroups of_format(int64_t columns) {
  if (columns <= 64) return {GroupShape<T, 64>::bytes(), key_group_kernel<GroupShape<T, 64>>};
  return {GroupShape<T, 128>::bytes(), key_group_kernel<GroupShape<T, 128>>};
}

}  // namespace

KeyGroups key_groups(const attn_problem& p) {
  const int64_t columns = std::max(p.dim_qk, p.dim_v);
  return p.dtype == ATTN_F16 ? of_format<F16>(columns) : of_format<BF16>(columns);
}

}  // namespace attn::nsa
