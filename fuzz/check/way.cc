#include "fuzz/check/way.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <sstream>
#include <stdexcept>

#include "properties/case/domain.h"
#include "properties/judge/execution.h"
#include "base/printable.h"

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

std::string way_of(const attn_plan& plan) {
  const std::string path(plan.path, strnlen(plan.path, sizeof plan.path));
  std::string way;
  for (size_t at = 0; at < path.size() && path[at] != '(';) {
    const size_t end = std::min(path.find_first_of(" (", at), path.size());
    const std::string word = path.substr(at, end - at);
    if (!word.empty() && word.find_first_of("0123456789") == std::string::npos)
      way += (way.empty() ? "" : " ") + word;
    at = end + (end < path.size() && path[end] == ' ');
  }
  return printable(way.empty() ? path : way);
}

bool goes(const std::string& way, const std::string& asked) {
  const std::set<std::string> words = words_of(way);
  for (const std::string& word : words_of(asked)) {
    if (!words.contains(word)) return false;
  }
  return true;
}

std::set<std::string> ways_through(const GeneratorConfig& config, Target& target) {
  std::set<std::string> met;
  const auto plan = [&](Case c) {
    if (config.domain) fit(*config.domain, c);
    for (c.env.variant = 0; c.env.variant <= config.variants; ++c.env.variant) {
      const PlanReply planned = plan_alone(c, target);
      if (why_not(planned).empty()) met.insert(way_of(planned.plan));
    }
  };
  for (const int64_t dim : {4, 64, 128, 256}) {
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

Case draw_on_way(const GeneratorConfig& config, uint64_t seed, uint64_t index, const std::string& asked,
                 Target& target) {
  constexpr uint64_t kDraws = 1000, kApart = uint64_t{1} << 40;  // no check comes that far
  std::set<std::string> met;
  for (uint64_t draw_number = 0; draw_number < kDraws; ++draw_number) {
    Case c = draw(config, seed, index + draw_number * kApart);
    const int32_t drawn = c.env.variant;
    for (int32_t other = -1; other <= config.variants; ++other) {
      if (other == drawn) continue;
      c.env.variant = other < 0 ? drawn : other;
      const PlanReply planned = plan_alone(c, target);
      if (!why_not(planned).empty()) continue;
      const std::string way = way_of(planned.plan);
      if (goes(way, asked)) return c;
      met.insert(way);
    }
  }
  std::string ways;
  for (const std::string& way : met) ways += (ways.empty() ? "'" : ", '") + way + "'";
  throw std::runtime_error("no case of a thousand goes the way '" + printable(asked) + "' through " +
                           target.info().name + "; met were " + (ways.empty() ? "none" : ways));
}

}  // namespace attnfuzz
