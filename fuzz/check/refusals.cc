#include "fuzz/check/refusals.h"

#include <functional>
#include <string_view>

#include "properties/memory/layout.h"

namespace attnfuzz {

Refused ask_for_refusals(Target& target) {
  const auto refuses = [&](const std::function<void(Problem&)>& change) {
    Case c;
    c.problem.seq_q = c.problem.seq_k = 2;
    c.problem.heads_q = c.problem.heads_kv = 2;
    c.problem.dim_qk = c.problem.dim_v = 8;
    c.env.variant = target.info().variants.empty() ? 0 : 1;
    change(c.problem);
    LaidOut laid(c, target.arena());
    const PlanReply reply = target.plan(laid.problem(), laid.tensors(), laid.env());
    return !reply.crash && (reply.status == ATTN_UNSUPPORTED || reply.status == ATTN_INVALID);
  };
  Refused refused;
  refused.f16 = refuses([](Problem&) {});
  refused.bf16 = refuses([](Problem& p) { p.dtype = ATTN_BF16; });
  if (refused.f16 && refused.bf16) return {};
  const int32_t dtype = refused.f16 ? ATTN_BF16 : ATTN_F16;
  const auto refuses_too = [&](const std::function<void(Problem&)>& change) {
    return refuses([&](Problem& p) {
      p.dtype = dtype;
      change(p);
    });
  };
  refused.causal = refuses_too([](Problem& p) { p.causal = true; });
  refused.window = refuses_too([](Problem& p) { p.window_left = 1; });
  refused.key_lengths = refuses_too([](Problem& p) { p.key_lengths = {1}; });
  refused.bias = refuses_too([](Problem& p) { p.bias.emplace(); });
  refused.mask = refuses_too([](Problem& p) { p.mask.emplace(); });
  refused.softcap = refuses_too([](Problem& p) { p.softcap = 1; });
  refused.grouped = refuses_too([](Problem& p) { p.heads_kv = 1; });
  refused.dims_differ = refuses_too([](Problem& p) { p.dim_v = 16; });
  for (const int64_t dim : {256, 192, 128, 96, 64, 32, 16, 8}) {
    refused.max_dim = dim;
    if (!refuses_too([&](Problem& p) { p.dim_qk = p.dim_v = dim; })) break;
    // One of the two alone: a check may have forgotten it.
    if (!refuses_too([&](Problem& p) { p.dim_qk = dim; })) break;
    if (!refuses_too([&](Problem& p) { p.dim_v = dim; })) break;
  }
  return refused;
}

bool speaks_of(const Property& property, const Refused& refused) {
  const std::string_view name = property.name;
  if (refused.bias && (name == "bias_shift" || name == "mask_as_bias")) return false;
  if (refused.mask && name == "mask_as_bias") return false;
  if (refused.softcap && name == "softcap") return false;
  if (refused.key_lengths && name == "lengths_clamped") return false;
  if (refused.window && name == "window_wide") return false;
  if (refused.causal && name == "causal_prefix") return false;
  if (refused.grouped && name == "gqa") return false;
  return true;
}

std::string in_words(const Refused& refused) {
  std::string words;
  const auto when = [&](bool condition, const std::string& name) {
    if (condition) words += (words.empty() ? "" : ", ") + name;
  };
  when(refused.f16, "f16");
  when(refused.bf16, "bf16");
  when(refused.causal, "causal");
  when(refused.window, "windows");
  when(refused.key_lengths, "key lengths");
  when(refused.bias, "bias");
  when(refused.mask, "mask");
  when(refused.softcap, "softcap");
  when(refused.grouped, "grouped heads");
  when(refused.dims_differ, "dim_v other than dim_qk");
  when(refused.max_dim < 256, "head dimensions above " + std::to_string(refused.max_dim));
  return words;
}

}  // namespace attnfuzz
