#include "fuzz/check/refusals.h"

#include <algorithm>
#include <functional>
#include <string_view>

#include "properties/case/words.h"
#include "properties/draw/draw.h"
#include "properties/judge/execution.h"

namespace attnfuzz {

Refused ask_for_refusals(Target& target) {
  Refused refused;
  const auto refuses = [&](const std::function<void(Problem&)>& change) {
    Case c;
    c.problem.seq_q = c.problem.seq_k = 2;
    c.problem.heads_q = c.problem.heads_kv = 2;
    c.problem.dim_qk = c.problem.dim_v = 8;
    c.env.variant = target.info().variants.empty() ? 0 : 1;
    strip_refused(refused, c);  // a format, if there is one that is not taken
    change(c.problem);
    const PlanReply reply = Execution(c, target).planned;
    return reply.status == ATTN_UNSUPPORTED || reply.status == ATTN_INVALID;
  };
  if (refuses([](Problem& p) { p.dtype = ATTN_F16; }) && refuses([](Problem& p) { p.dtype = ATTN_BF16; }))
    return {};
  for (const Feature* feature : all_features()) {
    for (const Refusal& refusal : feature->refusals) {
      if (refuses(refusal.ask)) refused.those.push_back(&refusal);
    }
  }
  for (const int64_t dim : {256, 192, 128, 96, 64, 32, 16, 8}) {
    refused.max_dim = dim;
    if (!refuses([&](Problem& p) { p.dim_qk = p.dim_v = dim; })) break;
    // One of the two alone: a check may have forgotten it.
    if (!refuses([&](Problem& p) { p.dim_qk = dim; })) break;
    if (!refuses([&](Problem& p) { p.dim_v = dim; })) break;
  }
  return refused;
}

bool speaks_of(const Property& property, const Refused& refused) {
  return std::ranges::none_of(refused.those, [&](const Refusal* refusal) {
    return std::ranges::any_of(
        refusal->properties, [&](const char* name) { return name && std::string_view(name) == property.name; });
  });
}

std::string in_words(const Refused& refused) {
  std::vector<std::string> words;
  for (const Refusal* refusal : refused.those) words.emplace_back(refusal->name);
  if (refused.max_dim < 256) words.push_back(cat("head dimensions above ", refused.max_dim));
  return join(words, ", ");
}

}  // namespace attnfuzz
