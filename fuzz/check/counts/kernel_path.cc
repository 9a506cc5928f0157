#include "fuzz/check/counts/kernel_path.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <sstream>

#include "base/printable.h"
#include "properties/case/features/domain.h"
#include "properties/judge/execution.h"
#include "properties/judge/trial.h"
#include "properties/operations/operation.h"

namespace attnfuzz {

namespace {

std::set<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::set<std::string> words;
  for (std::string word; stream >> word;) words.insert(word);
  return words;
}

}  // namespace

std::string path_of(const attn_plan& plan) {
  return printable({plan.path, strnlen(plan.path, sizeof plan.path)});
}

std::string path_name(const attn_plan& plan) {
  const std::string whole(plan.path, strnlen(plan.path, sizeof plan.path));
  std::string path;
  for (size_t at = 0; at < whole.size() && whole[at] != '(';) {
    const size_t end = std::min(whole.find_first_of(" (", at), whole.size());
    const std::string word = whole.substr(at, end - at);
    if (!word.empty() && word.find_first_of("0123456789") == std::string::npos)
      path += (path.empty() ? "" : " ") + word;
    at = end + (end < whole.size() && whole[end] == ' ');
  }
  return printable(path.empty() ? whole : path);
}

bool goes(const std::string& path, const std::string& asked) {
  const std::set<std::string> words = words_of(path);
  for (const std::string& word : words_of(asked)) {
    if (!words.contains(word)) return false;
  }
  return true;
}

std::set<std::string> paths_through(const GeneratorConfig& config, Target& target) {
  std::set<std::string> met;
  const auto plan_call = [&](Case c) {
    for (c.env.variant = 0; c.env.variant <= config.variants; ++c.env.variant) {
      const PlanReply planned = plan_alone(c, target);
      if (why_not(planned).empty()) met.insert(path_name(planned.plan));
    }
  };
  const auto plan = [&](Case c) {
    if (config.domain) fit(*config.domain, c);
    for (const Operation* one : all_operations()) {
      if (!kernel_has(*one, config.features)) continue;
      Case call = c;
      make_call(*one, call, config.features);
      plan_call(call);
    }
  };
  const bool wide = (config.features & ATTN_FEATURE_WIDE) != 0;
  for (const int64_t dim : {4, 64, 128, 256, 512}) {
    if (dim > contract::kUsualDims && !wide) continue;
    for (const int64_t queries : {1, 128}) {
      for (const bool causal : {false, true}) {
        for (const bool biased : {false, true}) {
          Case c;
          c.problem.heads_q = 4;
          c.problem.seq_q = queries;
          c.problem.seq_k = 1024;
          c.problem.dim_qk = c.problem.dim_v = dim;
          c.problem.causal = causal;
          if (biased) c.problem.bias = Bias{};
          for (const int64_t shared : {1, 4}) {
            c.problem.heads_kv = c.problem.heads_q / shared;
            for (c.problem.num_splits = 0; c.problem.num_splits <= int64_t{config.splits};
                 ++c.problem.num_splits)
              plan(c);
          }
        }
      }
    }
  }
  for (uint64_t index = 0; index < 100; ++index) plan(draw(config, 1, index));
  return met;
}

std::optional<Case> draw_on_path(const GeneratorConfig& config, uint64_t seed, uint64_t index,
                                 const Property& property, const std::string& asked, Target& target,
                                 std::string* why_none) {
  constexpr uint64_t kDraws = 1000, kApart = uint64_t{1} << 40;  // more cases than any check has
  std::set<std::string> met;
  std::string first_refusal;
  for (uint64_t draw_number = 0; draw_number < kDraws; ++draw_number) {
    Case c = draw(config, seed, index + draw_number * kApart);
    const int32_t drawn = c.env.variant;
    for (int32_t other = -1; other <= config.variants; ++other) {
      if (other == drawn) continue;
      c.env.variant = other < 0 ? drawn : other;
      std::string why;
      PlanReply planned;
      Case call = c;
      if (adapted(call, property, target, &why)) {
        planned = plan_alone(call, target);
        why = why_not(planned);
      }
      if (!why.empty()) {
        if (first_refusal.empty()) first_refusal = why;
        continue;
      }
      const std::string path = path_name(planned.plan);
      if (goes(path, asked)) return c;
      met.insert(path);
    }
  }
  std::string paths;
  for (const std::string& path : met) paths += (paths.empty() ? "'" : ", '") + path + "'";
  *why_none = "no case of a thousand takes the path '" + printable(asked) + "' through " + target.info().name +
              "; met were " + (paths.empty() ? "none, because " + printable(first_refusal) : paths);
  return std::nullopt;
}

}  // namespace attnfuzz
