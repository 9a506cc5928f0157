#include "cli/terms.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <optional>
#include <sstream>
#include <vector>

#include "cli/command.h"
#include "cli/help.h"
#include "properties/case/features/feature.h"
#include "reference/ceiling.h"
#include "text/printable.h"

namespace attnfuzz {
namespace {

// A class by its name: what attention.h numbers from 0 on; nullptr: it has no name.
struct Class {
  const char* name;
  int32_t attn_plan::* field;
  std::vector<const char*> values;
};

const std::vector<Class>& classes() {
  static const std::vector<Class> all = {
      {"accumulator", &attn_plan::accumulator, {nullptr, "ffma", "tensor"}},
      {"p", &attn_plan::p_format, {nullptr, "fp32", "input", "e4m3", "e5m2"}},
      {"v", &attn_plan::v_format, {nullptr, "fp32", "input", "e4m3", "e5m2"}},
      {"partials", &attn_plan::partial_format, {nullptr, "fp32", "input"}},
      {"exp", &attn_plan::exp_class, {nullptr, "ex2.approx", "exp2f", "expf", "fast_expf"}},
      {"log", &attn_plan::log_class, {nullptr, "lg2.approx", "logf", "fast_logf"}},
      {"rcp", &attn_plan::rcp_class, {nullptr, "approx", "exact"}},
      {"tanh", &attn_plan::tanh_class, {nullptr, "approx", "tanhf"}},
      {"scale", &attn_plan::scale_mode, {nullptr, "fused", "separate", "folded_q", "separate_fma"}},
      {"sum", &attn_plan::sum_rule, {"exp", "rounded_p"}},
      {"merge", &attn_plan::merge_rule, {nullptr, "weight", "lse", "one_by_one"}},
      {"conversion", &attn_plan::conversion, {"nearest", "faithful"}},
      {"flush_to_zero", &attn_plan::flush_to_zero, {"0", "1"}},
      {"isolates_masked_nan", &attn_plan::isolates_masked_nan, {"0", "1"}},
  };
  return all;
}

constexpr const char* kNumbers[] = {"merges", "rescales", "mma_block", "p_scale", "v_scale"};

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 0x1p31))
    return std::nullopt;
  return value;
}

bool set_number(const std::string& name, double value, attn_plan& plan) {
  const auto whole = static_cast<int64_t>(value);
  if (name == "merges") return (plan.merges = whole, true);
  if (name == "rescales") return (plan.rescales = whole, true);
  if (name == "mma_block")
    return (plan.mma_block = static_cast<int32_t>(std::min<int64_t>(whole, 1 << 16)), true);
  if (name == "p_scale") return (plan.p_scale = static_cast<float>(value), true);
  if (name == "v_scale") return (plan.v_scale = static_cast<float>(value), true);
  return false;
}

}  // namespace

namespace {

// Of "seq<=4096": the sizes that it limits, the sign, the numbers.
void limit(const std::string& word, const std::vector<attn_sizes*>& sizes, size_t sign) {
  const bool two = word[sign] == '<' || word[sign] == '>';
  const size_t begin = sign + (two ? 2 : 1);
  std::istringstream in(word.size() > begin && (!two || word[sign + 1] == '=') ? word.substr(begin) : "");
  std::vector<int64_t> numbers;
  for (std::string text; std::getline(in, text, ',');) {
    const std::optional<double> n = number(text);
    if (!n || *n != static_cast<double>(static_cast<int64_t>(*n))) numbers.assign(99, 0);
    if (n) numbers.push_back(static_cast<int64_t>(*n));
  }
  if (numbers.empty() || numbers.size() > std::size(attn_sizes{}.list) ||
      (word[sign] != '=' && numbers.size() > 1))
    throw UserError("--domain '" + printable(word, 60) +
                    "': write seq<=4096, dim%16 or dim=64,128 (12 at most)");
  for (attn_sizes* of : sizes) {
    if (word[sign] == '<') of->most = numbers[0];
    if (word[sign] == '>') of->least = numbers[0];
    if (word[sign] == '%') of->multiple = numbers[0];
    if (word[sign] != '=') continue;
    of->count = static_cast<int64_t>(numbers.size());
    std::ranges::copy(numbers, of->list);
  }
}

// What a feature is refused as, by its name there.
void spare(Terms& terms, const std::string& name) {
  for (const Feature* feature : all_features()) {
    for (const Refusal& refusal : feature->refusals) {
      if (refusal.name == name) terms.refused.those.push_back(&refusal);
    }
  }
}

}  // namespace

Terms parse_domain(const std::string& words) {
  Terms terms;
  attn_domain& d = terms.domain;
  d.size = sizeof d;
  const std::vector<std::pair<std::string, std::vector<attn_sizes*>>> sizes = {
      {"batch", {&d.batch}}, {"heads_q", {&d.heads_q}},     {"seq_q", {&d.seq_q}},
      {"seq_k", {&d.seq_k}}, {"seq", {&d.seq_q, &d.seq_k}}, {"dim_qk", {&d.dim_qk}},
      {"dim_v", {&d.dim_v}}, {"dim", {&d.dim_qk, &d.dim_v}}};
  const std::vector<std::pair<std::string, std::function<void()>>> flags = {
      {"no_f16", [&] { d.dtypes |= 1u << ATTN_BF16, spare(terms, "f16"); }},
      {"no_bf16", [&] { d.dtypes |= 1u << ATTN_F16, spare(terms, "bf16"); }},
      {"no_gqa", [&] { d.group.count = 1, d.group.list[0] = 1, spare(terms, "grouped heads"); }},
      {"no_bias", [&] { spare(terms, "bias"); }},
      {"no_mask", [&] { spare(terms, "mask"); }},
      {"no_window", [&] { spare(terms, "windows"); }},
      {"no_softcap", [&] { spare(terms, "softcap"); }},
      {"no_key_lengths", [&] { spare(terms, "key lengths"); }},
      {"no_lse", [&] { d.lse = 1; }},
      {"no_causal", [&] { d.causal = 1, spare(terms, "causal"); }},
      {"only_causal", [&] { d.causal = 2; }},
      {"top_left", [&] { d.align = 1 + ATTN_TOP_LEFT; }},
      {"bottom_right", [&] { d.align = 1 + ATTN_BOTTOM_RIGHT; }},
      {"equal_lengths", [&] { d.equal_lengths = 1; }},
      {"equal_dims", [&] { d.equal_dims = 1, spare(terms, "dim_v other than dim_qk"); }},
      {"usual_scale", [&] { d.usual_scale = 1; }}};
  std::istringstream in(words);
  for (std::string word; in >> word;) {
    const size_t sign = word.find_first_of("<>=%");
    const std::string name = word.substr(0, sign);
    const auto size = std::ranges::find_if(sizes, [&](const auto& s) { return s.first == name; });
    const auto flag = std::ranges::find_if(flags, [&](const auto& f) { return f.first == name; });
    if (sign != word.npos && size != sizes.end()) {
      limit(word, size->second, sign);
    } else if (sign == word.npos && flag != flags.end()) {
      flag->second();
    } else {
      std::string text = "--domain '" + printable(word, 60) + "': there are";
      std::vector<std::string> names;
      for (const auto& [known, of] : sizes) names.push_back(known + "=N");
      for (const auto& [known, set] : flags) names.push_back(known);
      for (const std::string& known : names) text += " " + known;
      throw UserError(text + suggestion(name, names));
    }
  }
  return terms;
}

attn_plan parse_errors(const std::string& words) {
  attn_plan plan = documented_ceiling();
  std::istringstream in(words);
  for (std::string word; in >> word;) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals), value = equals == word.npos ? "" : word.substr(equals + 1);
    const auto of = std::ranges::find_if(classes(), [&](const Class& c) { return c.name == name; });
    const std::optional<double> as_number = number(value);
    if (of == classes().end()) {
      if (as_number && set_number(name, *as_number, plan)) continue;
      std::vector<std::string> names(std::begin(kNumbers), std::end(kNumbers));
      for (const Class& c : classes()) names.emplace_back(c.name);
      std::string text = "--errors '" + printable(word, 60) + "': write NAME=VALUE, with a name of";
      for (const std::string& known : names) text += " " + known;
      throw UserError(text + suggestion(name, names));
    }
    const auto at = std::ranges::find_if(of->values, [&](const char* v) { return v != nullptr && value == v; });
    if (at != of->values.end()) {
      plan.*(of->field) = static_cast<int32_t>(at - of->values.begin());
      if (name == "exp") plan.exp_error = 0;
    } else if (name == "exp" && as_number && *as_number > 0 && *as_number < 0.25) {
      plan.exp_error = static_cast<float>(*as_number);
    } else {
      std::string text = "--errors '" + printable(word, 60) + "': " + name + " is one of";
      for (const char* known : of->values) text += known != nullptr ? std::string(" ") + known : "";
      throw UserError(text);
    }
  }
  return plan;
}

}  // namespace attnfuzz
