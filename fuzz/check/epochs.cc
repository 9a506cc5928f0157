#include "fuzz/check/epochs.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "properties/case/features/shrink_toggles.h"
#include "properties/draw/generator.h"

namespace attnfuzz {
namespace {

// The stream that epochs' own cases are drawn from.
constexpr uint64_t kOfEpochs = 0x9e3779b97f4a7c15;

attn_sizes exactly(int64_t n) {
  attn_sizes one = {};
  one.count = 1;
  one.list[0] = n;
  return one;
}

// Narrows the domain to the case's values of these parts, as far as a domain can express them.
attn_domain narrowed(attn_domain domain, const Case& to, const std::vector<std::string>& parts) {
  const Problem& p = to.problem;
  for (const std::string& part : parts) {
    if (part == "dtype") domain.dtypes = 1u << p.dtype;
    if (part == "batch") domain.batch = exactly(p.batch);
    if (part == "heads") {
      domain.heads_q = exactly(p.heads_q);
      domain.group = exactly(p.heads_q / std::max<int64_t>(p.heads_kv, 1));
    }
    if (part == "seq") {
      domain.seq_q = exactly(p.seq_q), domain.seq_k = exactly(p.seq_k);
      domain.equal_lengths = 0;
    }
    if (part == "dim") {
      domain.dim_qk = exactly(p.dim_qk), domain.dim_v = exactly(p.dim_v);
      domain.equal_dims = 0;
    }
    if (part == "causal") domain.causal = p.causal ? 2 : 1;
    if (part == "lse") domain.lse = to.want_lse ? 2 : 1;
  }
  return domain;
}

// Copies the parts that a domain cannot express from the epoch's case.
void alike(Problem& p, const Problem& to, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    if (part == "bias") {
      if (p.bias.has_value() != to.bias.has_value()) p.bias = to.bias;
      if (p.bias) p.bias->dtype = to.bias->dtype;
    }
    if (part == "mask" && p.mask.has_value() != to.mask.has_value()) p.mask = to.mask;
    if (part == "key_lengths" && p.key_lengths.has_value() != to.key_lengths.has_value()) {
      p.key_lengths = to.key_lengths;
      if (p.key_lengths) p.key_lengths->resize(static_cast<size_t>(p.batch), p.seq_k);
    }
    if (part == "window") p.window_left = to.window_left, p.window_right = to.window_right;
    if (part == "softcap") p.softcap = to.softcap;
    if (part == "scale") p.scale = to.scale;
  }
}

}  // namespace

std::vector<std::string> compiles_for(const std::string& flags) {
  constexpr std::string_view kWord = "compiles=";
  std::vector<std::string> parts;
  std::istringstream words(flags);
  for (std::string word; words >> word;) {
    if (!word.starts_with(kWord)) continue;
    std::istringstream list(word.substr(kWord.size()));
    for (std::string part; std::getline(list, part, ',');) parts.push_back(part);
  }
  return parts;
}

Case draw_in_epoch(const GeneratorConfig& config, const KernelInfo& kernel, uint64_t seed, uint64_t index) {
  const std::vector<std::string> parts = compiles_for(kernel.build.flags);
  if (parts.empty()) return draw(config, seed, index);
  const Case epoch = draw(config, seed ^ kOfEpochs, index / kCasesOfEpoch);
  attn_domain any = {};
  any.size = sizeof any;
  GeneratorConfig inside = config;
  inside.domain = narrowed(config.domain.value_or(any), epoch, parts);
  Case c = draw(inside, seed, index);
  Case same = c;
  Problem& p = same.problem;
  alike(p, epoch.problem, parts);
  // A full mask or bias may exceed the size limit of a long case. It then becomes a broadcast one.
  for (Broadcast* of : {p.mask ? &p.mask->broadcast : nullptr, p.bias ? &p.bias->broadcast : nullptr}) {
    if (of && illegal(same)) *of = {.batch = true, .head = true, .query = true};
  }
  tidy(same);
  return illegal(same) ? c : same;
}

}  // namespace attnfuzz
