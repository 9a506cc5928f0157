#include "tests/properties/memory/layout_support.h"

namespace attnfuzz {
Case small_case() {
  Case c;
  c.problem.batch = 2;
  c.problem.heads_q = 4;
  c.problem.heads_kv = 2;
  c.problem.seq_q = 5;
  c.problem.seq_k = 7;
  c.problem.dim_qk = 6;
  c.problem.dim_v = 3;
  c.q = {.kind = FillKind::kGaussian, .seed = 1};
  c.k = {.kind = FillKind::kUniform, .seed = 2};
  c.v = {.kind = FillKind::kPosition};
  c.problem.bias = Bias{.dtype = ATTN_F16,
                        .kind = BiasKind::kGaussian,
                        .finite = {PatternKind::kRandom, 4, 3},
                        .broadcast = {.head = true},
                        .seed = 5};
  c.problem.mask = Mask{{PatternKind::kDocuments, 2, 0}, {.batch = true}};
  c.problem.key_lengths = std::vector<int64_t>{7, 3};
  return c;
}

std::byte* element(const LaidOut& laid, const Problem& p, TensorId t, int64_t b, int64_t h, int64_t s,
                   int64_t d) {
  const attn_tensor v = view_of(laid.tensors(), spec_of(t));
  const int64_t at = b * v.stride[0] + h * v.stride[1] + s * v.stride[2] + d * v.stride[3];
  return static_cast<std::byte*>(v.data) + at * element_bytes(p, t);
}

std::byte* data(const LaidOut& laid, TensorId t) {
  return static_cast<std::byte*>(view_of(laid.tensors(), spec_of(t)).data);
}

void for_each_element(const Problem& p, TensorId t, const VisitElement& visit) {
  const std::array<int64_t, 4> size = logical_size(p, t);
  for (int64_t b = 0; b < size[0]; ++b) {
    for (int64_t h = 0; h < size[1]; ++h) {
      for (int64_t s = 0; s < size[2]; ++s) {
        for (int64_t d = 0; d < size[3]; ++d) visit(b, h, s, d);
      }
    }
  }
}

void write_outputs(const LaidOut& laid, const Case& c) {
  for (TensorId t : {TensorId::kO, TensorId::kLse}) {
    if (!is_present(c, t)) continue;
    for_each_element(c.problem, t, [&](int64_t b, int64_t h, int64_t s, int64_t d) {
      std::memset(element(laid, c.problem, t, b, h, s, d), 0, static_cast<size_t>(element_bytes(c.problem, t)));
    });
  }
}

std::optional<MemoryFault> after(const Case& c, const std::function<void(const LaidOut&)>& kernel) {
  Arena arena;
  LaidOut laid(c, arena);
  laid.give_workspace(100, 16);
  laid.before_call(c.calls[0]);
  write_outputs(laid, c);
  kernel(laid);
  return laid.check_memory();
}

}  // namespace attnfuzz
