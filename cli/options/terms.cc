#include "cli/options/terms.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "base/printable.h"
#include "cli/options/command.h"
#include "fuzz/check/takes/refusals.h"
#include "kernels/contract/plan_fields.h"
#include "kernels/contract/problem_fields.h"
#include "properties/case/features/domain.h"
#include "properties/case/features/feature.h"
#include "properties/case/limits.h"
#include "properties/case/size_set.h"
#include "reference/call/tensor_spec.h"
#include "reference/model/error_cap.h"

namespace attnfuzz {
namespace {

using contract::PlanField;

// The field of the plan that --errors calls by this name; nullptr: there is no such name.
const PlanField* option_named(std::string_view name) {
  const auto of = std::ranges::find_if(contract::kPlanFields,
                                       [&](const PlanField& row) { return row.option && row.option == name; });
  return of == std::end(contract::kPlanFields) ? nullptr : &*of;
}

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 0x1p31))
    return std::nullopt;
  return value;
}
std::optional<int64_t> whole_number(const std::string& text) {
  const std::optional<double> value = number(text);
  if (!value || *value != static_cast<double>(static_cast<int64_t>(*value))) return std::nullopt;
  return static_cast<int64_t>(*value);
}

// A size of the domain, with the range that a case can have.
struct Limited {
  const char* name;
  std::vector<attn_sizes*> of;
  int64_t low, high;
};

[[noreturn]] void refuse(const std::string& word, const std::string& why) {
  throw UserError("--domain '" + printable(word, 60) + "': " + why);
}

// Reads the numbers of a list, "64,128", or of a range, "64..128".
std::vector<int64_t> numbers_of(const std::string& word, std::string text, const std::string& separator) {
  std::vector<int64_t> numbers;
  for (size_t end = 0; end != text.npos; text.erase(0, end + separator.size())) {
    end = text.find(separator);
    const std::optional<int64_t> n = whole_number(text.substr(0, end));
    if (!n) refuse(word, "write seq<=4096, seq=1000..4096, dim%16 or dim=64,128 (12 at most)");
    numbers.push_back(*n);
    if (end == text.npos) break;
  }
  return numbers;
}

// "seq<=4096", "seq=1000..4096", "dim%16", "dim=64,128": values of a size. Several words for one size must all
// hold.
void limit(const std::string& word, const Limited& size, size_t sign) {
  const char is = word[sign];
  const bool two = is == '<' || is == '>', range = is == '=' && word.find("..") != word.npos;
  if (two && word.compare(sign + 1, 1, "=") != 0) refuse(word, "write seq<=4096 or seq>=64");
  const std::vector<int64_t> n = numbers_of(word, word.substr(sign + (two ? 2 : 1)), range ? ".." : ",");
  attn_sizes said = {};
  if (range ? n.size() != 2 : n.size() > (is == '=' ? std::size(said.list) : 1))
    refuse(word, "write a range as seq=1000..4096, and a list as dim=64,128 (12 at most)");
  // An upper limit or a multiple must be at least 1. An upper limit may exceed the largest size of
  // a case.
  const int64_t low = is == '<' || is == '%' ? std::max<int64_t>(size.low, 1) : size.low;
  if (std::ranges::min(n) < low || (is != '<' && std::ranges::max(n) > size.high))
    refuse(word, std::string(size.name) + " of a case is " + std::to_string(size.low) + ".." +
                     std::to_string(size.high));
  if (range) {
    if (n[0] > n[1]) refuse(word, "the first number of a range is the least");
    said.least = n[0], said.most = n[1];
    if (n[1] == 0) said = {0, 0, 0, 1, {0}};  // a limit of 0 is none
  } else if (is == '=') {
    said.count = static_cast<int64_t>(n.size());
    std::ranges::copy(n, said.list);
  } else {
    (is == '<' ? said.most : is == '>' ? said.least : said.multiple) = n[0];
  }
  const attn_sizes possible = {size.low, size.high, 0, 0, {}};
  for (attn_sizes* of : size.of) {
    const auto both = intersection(*of, said);
    if (!both || !intersection(*both, possible)) refuse(word, "no size is left by all that is said of it");
    *of = *both;
  }
}

// "layout=inner", "align_bytes=16"; false: it is another word.
bool lay(const std::string& word, attn_domain& d) {
  const std::string name = word.substr(0, word.find('=')),
                    value = word.substr(std::min(word.size(), name.size() + 1));
  if (name != "layout" && name != "align_bytes") return false;
  if ((name == "layout" ? d.layout : d.align_bytes) != 0) refuse(word, "it has been spoken of: say it once");
  if (name == "layout") {
    if (value != "dense" && value != "inner") refuse(word, "layout is dense or inner");
    d.layout = value == "dense" ? ATTN_LAYOUT_DENSE : ATTN_LAYOUT_INNER;
    return true;
  }
  const int64_t bytes = whole_number(value).value_or(0);
  if (bytes < 1 || bytes > 256 || !std::has_single_bit(static_cast<uint64_t>(bytes)))
    refuse(word, "align_bytes is a power of two up to 256");
  d.align_bytes = static_cast<int32_t>(bytes);
  return true;
}

// Leaves out all that a kernel with this limit refuses: features, and combinations of features.
void leave_out(Terms& terms, Limit limit) {
  for (const Feature* feature : all_features()) {
    for (const Refusal& refusal : feature->refusals) {
      if (refusal.limit == limit) terms.refused.those.push_back(&refusal);
    }
  }
  if (const Refusal* refusal = refusal_of_several(limit)) terms.refused.those.push_back(refusal);
}

}  // namespace

Terms parse_domain(const std::string& words) {
  Terms terms;
  attn_domain& d = terms.domain;
  d.size = sizeof d;
  constexpr int64_t kMostEntries = 1024, kMostKeys = 65536, kMostDims = contract::kMostDims;
  const std::vector<Limited> sizes = {
      {"batch", {&d.batch}, 0, kMostEntries}, {"heads_q", {&d.heads_q}, 1, kMostEntries},
      {"group", {&d.group}, 1, kMostEntries}, {"seq_q", {&d.seq_q}, 0, kMostKeys},
      {"seq_k", {&d.seq_k}, 0, kMostKeys},    {"seq", {&d.seq_q, &d.seq_k}, 0, kMostKeys},
      {"dim_qk", {&d.dim_qk}, 1, kMostDims},  {"dim_v", {&d.dim_v}, 1, kMostDims},
      {"dim", {&d.dim_qk, &d.dim_v}, 1, kMostDims}};
  constexpr std::pair<const char*, int32_t> kFormats[] = {
      {"f16", ATTN_F16}, {"bf16", ATTN_BF16}, {"f32", ATTN_F32}};
  static constexpr std::pair<const char*, const char*> kNotBoth[] = {{"no_f16", "no_bf16"},
                                                                     {"no_f16", "f16"},
                                                                     {"no_bf16", "bf16"},
                                                                     {"no_causal", "only_causal"},
                                                                     {"top_left", "bottom_right"}};
  std::set<std::string> said;
  std::istringstream in(words);
  for (std::string word; in >> word;) {
    if (word == "fp16" || word == "fp32") word.erase(1, 1);  // other names of f16 and f32
    said.insert(word);
    const size_t sign = word.find_first_of("<>=%");
    const std::string name = word.substr(0, sign);
    if (lay(word, d)) continue;
    if (name == "lse_base" || name == "lse_dead") {
      parse_errors(word);  // throws for an unknown word
      terms.errors += (terms.errors.empty() ? "" : " ") + word;
      continue;
    }
    const auto size = std::ranges::find_if(sizes, [&](const Limited& s) { return s.name == name; });
    const LimitWord* const limited = limit_named(name);
    const auto format = std::ranges::find(kFormats, name, &std::pair<const char*, int32_t>::first);
    if (sign != word.npos && size != sizes.end()) {
      limit(word, *size, sign);
      terms.sizes.insert(name);
    } else if (sign == word.npos && limited != nullptr) {
      limited->declare(d);
      leave_out(terms, limited->limit);
    } else if (sign == word.npos && format != std::end(kFormats)) {
      d.dtypes |= 1u << format->second;
    } else {
      std::string text = "--domain '" + printable(word, 60) + "': there are";
      std::vector<std::string> names;
      for (const Limited& known : sizes) names.push_back(std::string(known.name) + "=N");
      for (const LimitWord& known : kLimitWords) names.emplace_back(known.word);
      for (const auto& [known, dtype] : kFormats) names.emplace_back(known);
      for (const char* known :
           {"layout=dense", "layout=inner", "align_bytes=N", "lse_base=2", "lse_dead=VALUE"})
        names.emplace_back(known);
      for (const std::string& known : names) text += " " + known;
      throw UserError(text + suggestion(sign == word.npos ? name : name + "=N", names));
    }
  }
  if (said.empty())
    throw UserError("--domain says nothing: write what a kernel must take, as 'dim=64,128 no_bias'");
  for (const auto& [one, other] : kNotBoth) {
    if (said.contains(one) && said.contains(other))
      throw UserError(std::string("--domain: nothing is left by both ") + one + " and " + other);
  }
  if (said.contains("no_gqa") && terms.sizes.contains("group"))
    throw UserError("--domain: no_gqa means group=1; say one of no_gqa and group");
  const auto within = narrowed(d, {});  // sizes that must be equal get the values that both may have
  if (const auto* why = std::get_if<std::string>(&within))
    throw UserError("--domain leaves no case that can be drawn: " + *why);
  d = std::get<attn_domain>(within);
  return terms;
}

namespace {

// The bits of the operations that have a tensor of this size.
uint64_t operations_with(Size size) {
  uint64_t operations = 0;
  for (const TensorSpec& spec : kTensors) {
    if (std::ranges::find(spec.shape, size) != spec.shape.end()) operations |= spec.operations;
  }
  return operations;
}

// The operations that have a size that --domain names: seq is either length, dim either dimension. heads_q also limits
// the heads of operations without queries, and seq_k the keys of caches and of scores of blocks.
uint64_t operations_with(const std::string& name) {
  using enum Size;
  const auto with = [](Size size) { return operations_with(size); };
  const uint64_t keys = with(kSeqK) | with(kStores) | with(kSlots) | with(kBlocks);
  const std::map<std::string, uint64_t> operations = {{"batch", with(kBatch)},
                                                      {"heads_q", with(kHeadsQ) | with(kHeadsKv)},
                                                      {"group", with(kHeadsQ) & with(kHeadsKv)},
                                                      {"seq_q", with(kSeqQ)},
                                                      {"seq_k", keys},
                                                      {"seq", with(kSeqQ) | keys},
                                                      {"dim_qk", with(kDimQk)},
                                                      {"dim_v", with(kDimV)},
                                                      {"dim", with(kDimQk) | with(kDimV)}};
  return operations.at(name);
}

// Throws UserError for a size that no operation of the kernel has.
void refuse_missing_sizes(const Terms& asked, const KernelInfo& kernel) {
  const uint64_t forward = (kernel.features & ATTN_FEATURE_NO_FORWARD) == 0 ? kOfForward : 0;
  const uint64_t operations = (kernel.features & kOperations) | forward;
  for (const std::string& size : asked.sizes) {
    if ((operations & operations_with(size)) == 0)
      throw UserError("--domain: " + kernel.name + " has no " + (size == "group" ? "groups of query heads" : size) +
                      "; leave " + size + " out");
  }
}

}  // namespace

Terms narrowed(const Terms& asked, const KernelInfo& kernel) {
  refuse_missing_sizes(asked, kernel);
  if (const auto why = leaves_nothing(asked.domain, kernel.features))
    throw UserError("--domain leaves nothing of what " + kernel.name + " takes: " + *why);
  if (!kernel.domain) return asked;
  Terms terms = asked;
  // If --domain excludes fp16 or bf16, fp32 stays allowed, if the kernel takes it.
  for (const Refusal* refusal : asked.refused.those) {
    if (refusal->limit == Limit::kNoF16 || refusal->limit == Limit::kNoBf16)
      terms.domain.dtypes |= 1u << ATTN_F32;
  }
  const auto within = narrowed(*kernel.domain, terms.domain);
  if (const auto* why = std::get_if<std::string>(&within))
    throw UserError("--domain leaves nothing of what " + kernel.name + " declares: " + *why);
  terms.domain = std::get<attn_domain>(within);
  return terms;
}

namespace {

[[noreturn]] void refuse_errors(const std::string& word, const std::string& why) {
  throw UserError("--errors '" + printable(word, 60) + "': " + why);
}

[[noreturn]] void refuse_unknown(const std::string& word, const std::string& name) {
  std::string text = "write NAME=VALUE, with a name of";
  std::vector<std::string> names;
  for (const PlanField& row : contract::kPlanFields) {
    if (row.option) names.emplace_back(row.option);
  }
  for (const std::string& known : names) text += " " + known;
  refuse_errors(word, text + suggestion(name, names));
}

void set_number(const std::string& word, const PlanField& row, const std::string& value, attn_plan& plan) {
  const std::optional<double> n = number(value);
  const bool whole = row.at.type != contract::Type::kFloat;
  if (!n || !(*n > 0) || (whole && !whole_number(value)))
    refuse_errors(word,
                  std::string(row.option) + (whole ? " is a whole number from 1 on" : " is a number above 0"));
  contract::set(row.at, &plan, row.high > 0 ? std::min(*n, row.high) : *n);
}

void set_choice(const std::string& word, const PlanField& row, const std::string& value, attn_plan& plan) {
  const bool is_exp = row.at.offset == offsetof(attn_plan, exp_class);
  const auto at = std::ranges::find_if(row.names, [&](const char* v) { return v != nullptr && value == v; });
  if (at != row.names.end()) {
    contract::set(row.at, &plan, at - row.names.begin());
    if (is_exp) plan.exp_error = 0;
    return;
  }
  const std::optional<double> error = is_exp ? number(value) : std::nullopt;
  if (error && *error > 0 && *error < 0.25) {
    plan.exp_error = static_cast<float>(*error);
    return;
  }
  std::string text = std::string(row.option) + " is one of";
  for (const char* known : row.names) text += known != nullptr ? std::string(" ") + known : "";
  refuse_errors(word, text + (is_exp ? ", or its relative error: a number below 0.25" : ""));
}

}  // namespace

attn_plan parse_errors(const std::string& words) {
  attn_plan plan = documented_cap();
  std::istringstream in(words);
  for (std::string word; in >> word;) {
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals), value = equals == word.npos ? "" : word.substr(equals + 1);
    const PlanField* row = option_named(name);
    if (!row) refuse_unknown(word, name);
    (row->names.empty() ? set_number : set_choice)(word, *row, value, plan);
  }
  return plan;
}

}  // namespace attnfuzz
