#include "reference/gradients/gradient_sums.h"

namespace attnfuzz::gradients {

void write(const Element& element, size_t at, Expected* to) {
  to->rule[at] = static_cast<uint8_t>(element.due);
  to->value[at] = element.value;
  to->bound[at] = element.bound;
}

BiasSums::BiasSums(const attn_problem& problem, const attn_tensors& host)
    : p_(problem), wanted_((problem.features & ATTN_FEATURE_DBIAS) != 0) {
  if (!wanted_) return;
  const int64_t* stride = host.dbias.stride;
  full_ = {stride[0] != 0, stride[1] != 0, stride[2] != 0};
  heads_ = full_.h ? p_.heads_q : 1, queries_ = full_.i ? p_.seq_q : 1;
  sums_.resize(static_cast<size_t>((full_.b ? p_.batch : 1) * heads_ * queries_ * p_.seq_k));
}

size_t BiasSums::place(const Row& at, int64_t j) const {
  const int64_t b = full_.b ? at.b : 0, h = full_.h ? at.h : 0, i = full_.i ? at.i : 0;
  return static_cast<size_t>(((b * heads_ + h) * queries_ + i) * p_.seq_k + j);
}

void BiasSums::add(const Terms& terms, const ErrorModel& model, const Row& at, int64_t j, const Factor& of) {
  add_to_bias(terms, model, of.s, of.s_error, &sums_[place(at, j)]);
}

void BiasSums::write(const Terms& terms, Expected* to) const {
  const RowSpace rows(p_);
  for (int64_t row = 0; row < rows.count(); ++row) {
    for (int64_t j = 0; j < p_.seq_k; ++j) {
      const Element element = bias_element(terms, sums_[place(rows.at(row), j)]);
      gradients::write(element, static_cast<size_t>(row * p_.seq_k + j), to);
    }
  }
}

}  // namespace attnfuzz::gradients
