// Tests rare but legal layouts: elements that are not adjacent, odd strides, a bias or
// mask that is broadcast.
#include <sys/mman.h>

#include "tests/kernels/call.h"

namespace attnfuzz {
namespace {

class Layout : public OfKernel {};

// Two batch entries with two groups of heads. All sizes differ.
attn_problem grouped(int64_t dim_qk, int64_t dim_v) {
  attn_problem p = square(70, dim_qk);
  p.batch = 2, p.heads_q = 4, p.heads_kv = 2;
  p.seq_q = 34;
  p.dim_v = dim_v;
  return p;
}

Index times(const Index& strides, int64_t n) {
  return {strides[0] * n, strides[1] * n, strides[2] * n, strides[3] * n};
}

TEST_P(Layout, ElementsApart) {
  for (int64_t apart : {2, 3}) {
    for (int64_t dim_v : {16, 17, 1}) {
      for (Tensor Call::* tensor : {&Call::q, &Call::k, &Call::v, &Call::o}) {
        Call call(grouped(24, dim_v));
        call.lay_out(tensor, times(dense((call.*tensor).shape()), apart));
        holds_in_parts(call);
      }
    }
  }
  Call call(grouped(8, 16));  // each tensor has another column stride
  call.lay_out(&Call::q, times(dense(call.q.shape()), 2));
  call.lay_out(&Call::k, times(dense(call.k.shape()), 3));
  call.lay_out(&Call::v, times(dense(call.v.shape()), 4));
  call.lay_out(&Call::o, times(dense(call.o.shape()), 5));
  holds_in_parts(call);
}

// Two columns of O may be stored at once only at a multiple of four bytes. Another
// address is a fault on a GPU.
TEST_P(Layout, StridesOfOutputs) {
  const Index layouts[] = {
      {1440, 360, 18, 1},                      // every row is at a multiple of four bytes
      {1360, 340, 17, 1},                      // row strides are odd
      {1680, 420, 21, 1}, {1444, 361, 18, 1},  // row or head strides are odd
      {1452, 363, 18, 1}, {1441, 360, 18, 1},  // head or batch strides are odd
      {1443, 360, 18, 1}, {1441, 361, 17, 1}, {2880, 720, 36, 2},
  };
  for (const Index& strides : layouts) {
    SCOPED_TRACE(testing::PrintToString(strides));
    attn_problem p = grouped(16, 16);
    p.seq_q = 20;
    Call call(p);
    call.lay_out(&Call::o, strides);
    call.lay_out(&Call::lse, {320, 80, 2, 1});
    holds_in_parts(call);
  }
  attn_problem p = grouped(16, 1);
  Call call(p);
  call.lay_out(&Call::o, {34 * 8, 34 * 2, 2, 1});  // one column is no pair
  holds_in_parts(call);
}

TEST_P(Layout, BroadcastBiasAndMask) {
  for (int32_t dtype : {ATTN_F16, ATTN_BF16, ATTN_F32, ATTN_NONE}) {
    attn_problem p = grouped(16, 16);
    p.causal = 0;
    p.bias_dtype = dtype;
    p.has_mask = dtype == ATTN_NONE;
    Tensor Call::* const tensor = p.has_mask ? &Call::mask : &Call::bias;
    const Index whole = dense({p.batch, p.heads_q, p.seq_q, p.seq_k});
    for (int which = 0; which < 4; ++which) {  // broadcast over batches, heads, queries, keys
      SCOPED_TRACE("dtype " + std::to_string(dtype) + ", dimension " + std::to_string(which));
      Call call(p);
      Index strides = whole;
      strides[which] = 0;
      call.lay_out(tensor, strides);
      holds_in_parts(call);
      for (int n = 0; n < 4; ++n) strides[n] = n == which ? whole[n] : 0;
      call.lay_out(tensor, strides);
      holds_in_parts(call);
    }
    Call call(p);
    call.lay_out(tensor, times(whole, 2));
    holds_in_parts(call);
    call.lay_out(&Call::q, times(dense(call.q.shape()), 3));
    holds_in_parts(call);
  }
}

// If a head has one element, the key strides of bias and mask still count.
TEST_P(Layout, HeadsOfOneElement) {
  for (int32_t dtype : {ATTN_F32, ATTN_NONE}) {
    for (int64_t apart : {0, 2}) {
      attn_problem p = grouped(1, 8);
      p.bias_dtype = dtype;
      p.has_mask = dtype == ATTN_NONE;
      Tensor Call::* const tensor = p.has_mask ? &Call::mask : &Call::bias;
      Call call(p);
      Index strides = times(dense((call.*tensor).shape()), 2);
      strides[3] = apart;
      call.lay_out(tensor, strides);
      holds_in_parts(call);
    }
  }
}

// A tensor that the problem does not have is not read, even if its pointer is set.
TEST_P(Layout, TensorsOutsideOfTheProblemAreNotRead) {
  constexpr size_t kPage = 1 << 16;
  void* const nowhere = mmap(nullptr, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(nowhere, MAP_FAILED);
  for (float softcap : {0.0f, 2.0f}) {  // scores are computed in two ways
    attn_problem p = grouped(16, 16);
    p.softcap = softcap;
    Call call(p);
    call.tensors.bias = call.tensors.mask = {nowhere, {0, 0, 0, 1}};
    call.tensors.key_lengths = static_cast<const int64_t*>(nowhere);
    holds_in_parts(call);
  }
  munmap(nowhere, kPage);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Layout, testing::Values("fa1", "splitk", "fa1h", "splitkh"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace attnfuzz
