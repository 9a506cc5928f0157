#include "fuzz/check/counts/kernel_path.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <sstream>
#include <unordered_map>

#include "base/printable.h"
#include "fuzz/host/variant_plans.h"
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

namespace {

// Asks a kernel's plans for one path. plan() sees no numbers, so the calls that several properties make of a
// case often put the same question to it. Each question is asked once, and if the target can, for all variants
// together.
class PathSearch {
 public:
  PathSearch(const std::string& asked, int32_t variants, Target& target)
      : asked_(asked), variants_(variants), target_(target), together_(dynamic_cast<VariantPlans*>(&target)) {}

  // Returns the case in a variant in which it takes the path, as adapted by the property. The drawn variant is
  // tried first.
  std::optional<Case> find(Case c, const Property& property) {
    Case call = c;
    std::string why;
    if (!adapted(call, property, target_, &why)) return refuse(why);
    if (const auto broken = illegal(call)) return refuse("it cannot be run: " + *broken);
    // No property's adapt() looks at the variant, so the calls in all variants differ in nothing else.
    PlanQuestion question = question_of(call, target_);
    const int32_t drawn = c.env.variant;
    const auto takes = [&](int32_t variant) {
      question.env.variant = c.env.variant = variant;
      return leads_there(question);
    };
    if (takes(drawn)) return c;
    for (int32_t variant = 0; variant <= variants_; ++variant) {
      if (variant != drawn && takes(variant)) return c;
    }
    return std::nullopt;
  }

  std::string why_none(uint64_t draws) const {
    std::string paths;
    for (const std::string& path : met_) paths += (paths.empty() ? "'" : ", '") + path + "'";
    return "no case of " + std::to_string(draws) + " takes the path '" + printable(asked_) + "' through " +
           target_.info().name + "; met were " +
           (paths.empty() ? "none, because " + printable(first_refusal_) : paths);
  }

 private:
  std::nullopt_t refuse(const std::string& why) {
    if (first_refusal_.empty()) first_refusal_ = why;
    return std::nullopt;
  }

  // The kernel's answer: it names the path, or says why there is none.
  struct Answer {
    std::string path, why;
  };

  bool leads_there(const PlanQuestion& question) {
    auto answer = answers_.find(bytes_of(question));
    if (answer == answers_.end()) {
      ask(question);
      answer = answers_.find(bytes_of(question));
    }
    const auto& [path, why] = answer->second;
    if (!why.empty()) {
      refuse(why);
      return false;
    }
    met_.insert(path);
    return goes(path, asked_);
  }

  void ask(PlanQuestion question) {
    std::vector<PlanReply> replies;
    if (together_ != nullptr && question.env.variant <= variants_) {
      target_.memory({});
      replies = together_->plans(question.problem, question.tensors, question.env, variants_);
    }
    if (replies.empty()) return add(question, plan_alone(question, target_));
    for (size_t n = 0; n < replies.size(); ++n) {
      question.env.variant = static_cast<int32_t>(n);
      add(question, replies[n]);
    }
  }

  void add(const PlanQuestion& question, const PlanReply& planned) {
    const std::string why = why_not(planned);
    answers_[bytes_of(question)] = {why.empty() ? path_name(planned.plan) : "", why};
  }

  static std::string bytes_of(const PlanQuestion& question) {
    // The contract's structs have no padding (covers() in kernels/contract/field.h), so their bytes can be
    // compared.
    static_assert(sizeof question == sizeof question.problem + sizeof question.tensors + sizeof question.env);
    return {reinterpret_cast<const char*>(&question), sizeof question};
  }

  const std::string& asked_;
  const int32_t variants_;
  Target& target_;
  VariantPlans* const together_;  // null: it is asked for one variant after another
  std::set<std::string> met_;
  std::string first_refusal_;
  std::unordered_map<std::string, Answer> answers_;  // by the bytes of a question
};

}  // namespace

std::optional<Drawn> draw_on_path(const GeneratorConfig& config, uint64_t seed, uint64_t index,
                                  const std::vector<const Property*>& properties, const std::string& asked,
                                  uint64_t most, Target& target, std::string* why) {
  constexpr uint64_t kApart = uint64_t{1} << 40;  // more cases than any check has
  constexpr size_t kTogether = 4;
  const Property& as_it_is = *find_property("reference");
  PathSearch search(asked, config.variants, target);
  std::vector<Case> on_path;
  for (uint64_t n = 0; n < most; ++n) {
    const Case c = draw(config, seed, index + n * kApart);
    if (auto found = search.find(c, *properties[0])) return Drawn{*found, properties[0]};
    if (properties.size() == 1) continue;
    if (auto found = search.find(c, as_it_is)) on_path.push_back(*found);
    if (on_path.size() < kTogether && n + 1 < most) continue;
    for (size_t other = 1; other < properties.size(); ++other) {
      for (const Case& one : on_path) {
        if (auto found = search.find(one, *properties[other])) return Drawn{*found, properties[other]};
      }
    }
    on_path.clear();
  }
  *why = search.why_none(most);
  return std::nullopt;
}

}  // namespace attnfuzz
