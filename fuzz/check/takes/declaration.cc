#include "fuzz/check/takes/declaration.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <utility>

#include "fuzz/check/takes/memory_refusals.h"
#include "properties/case/features/feature.h"
#include "properties/case/words.h"

namespace attnfuzz {
namespace {

// A size with its name. Two equal sizes of one kind may share an entry and a name.
struct Named {
  std::string name;
  attn_sizes sizes;
};

bool same(const attn_sizes& a, const attn_sizes& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// All sizes of a domain. If `together`, two equal sizes of one kind become one entry.
std::vector<Named> named(const attn_domain& d, bool together) {
  std::vector<Named> all = {{"batch", d.batch}, {"heads_q", d.heads_q}};
  const auto add = [&](const char* both, const char* one, const attn_sizes& a, const char* other,
                       const attn_sizes& b) {
    if (together && same(a, b)) {
      all.push_back({both, a});
    } else {
      all.push_back({one, a});
      all.push_back({other, b});
    }
  };
  add("seq", "seq_q", d.seq_q, "seq_k", d.seq_k);
  add("dim", "dim_qk", d.dim_qk, "dim_v", d.dim_v);
  std::erase_if(all, [](const Named& n) { return same(n.sizes, attn_sizes{}); });
  return all;
}

std::string list_of(const attn_sizes& s) {
  std::string text;
  for (int64_t i = 0; i < std::min<int64_t>(s.count, std::size(s.list)); ++i)
    text += (i ? ", " : "") + std::to_string(s.list[i]);
  return text;
}

// ".least = 1, .most = 128", "least=1, most=128"
std::string limits_of(const attn_sizes& s, const char* before, const char* equals) {
  std::vector<std::string> parts;
  for (const auto& [name, n] : {std::pair{"least", s.least}, {"most", s.most}, {"multiple", s.multiple}}) {
    if (n != 0) parts.push_back(cat(before, name, equals, n));
  }
  return join(parts, ", ");
}

std::string python_size(const attn_sizes& s) {
  if (s.count == 1) return std::to_string(s.list[0]);
  if (s.count > 1) return "{" + list_of(s) + "}";
  const auto also = [&](const char* name, int64_t n) { return n != 0 ? cat(", ", name, "=", n) : ""; };
  if (s.multiple != 0)
    return cat("attnfuzz.multiple(", s.multiple, also("least", s.least), also("most", s.most), ")");
  if (s.least != 0 && s.most != 0) return cat("range(", s.least, ", ", s.most + 1, ")");
  return s.least != 0 ? cat("attnfuzz.at_least(", s.least, ")") : cat("attnfuzz.at_most(", s.most, ")");
}

}  // namespace

const char* layout_name(int32_t layout) { return layout == ATTN_LAYOUT_DENSE ? "dense" : "inner"; }

bool takes_fp32(const attn_domain& d) { return (d.dtypes >> ATTN_F32 & 1) != 0; }

// True if the list of formats already shows the refusal. It does for a kernel that takes fp32.
bool is_said(const attn_domain& d, const LimitWord& word) {
  return takes_fp32(d) && (word.limit == Limit::kNoF16 || word.limit == Limit::kNoBf16);
}

// The names of the domain's formats, joined by `between`.
std::string formats_of(const attn_domain& d, const std::array<const char*, 3>& names, const char* between) {
  std::vector<std::string> all;
  for (size_t dtype = 0; dtype < names.size(); ++dtype) {
    if ((d.dtypes >> dtype & 1) != 0) all.emplace_back(names[dtype]);
  }
  return join(all, between);
}

// Declares the layouts of tensors, from the refusals for Q, K, V and O. If gaps or another order are refused,
// the layout is dense. If columns that are apart or across rows are refused, columns must be side by side. The
// alignment is the smallest with which all of them are taken. Other refusals (negative strides, far offsets)
// cannot be declared.
void say_layouts(const Refused& refused, attn_domain& d) {
  const auto refuses = [&](const Refusal& one) {
    return std::ranges::find(refused.those, &one) != refused.those.end();
  };
  for (const MemoryRefusals& of : kMemoryRefusals) {
    const Element element = spec_of(of.tensor).element;
    if (element != Element::kInput && element != Element::kKv) continue;
    if (refuses(of.gaps) && refuses(of.order)) {
      d.layout = ATTN_LAYOUT_DENSE;
    } else if (d.layout == ATTN_LAYOUT_ANY && refuses(of.step) && refuses(of.across)) {
      d.layout = ATTN_LAYOUT_INNER;
    }
    for (const memory_refusals::Alignment& a : of.alignments) {
      if (refuses(*a.base) || refuses(*a.rows))
        d.align_bytes = std::max(d.align_bytes, static_cast<int32_t>(a.bytes));
    }
  }
}

Declaration declaration_of(const Refused& refused) {
  Declaration takes;
  if (refused.sizes) takes.domain = *refused.sizes;
  takes.domain.size = sizeof takes.domain;
  say_layouts(refused, takes.domain);
  for (const Refusal* refusal : refused.those) {
    const LimitWord* word = word_of(refusal->limit);
    // The sizes say whether lengths and dims are equal.
    if (word == nullptr || word->limit == Limit::kEqualLengths || word->limit == Limit::kEqualDims) continue;
    word->declare(takes.domain);
    takes.refused.push_back(refusal);
  }
  return takes;
}

std::string as_c(const Declaration& declaration) {
  const attn_domain& d = declaration.domain;
  std::string text = "static const attn_domain kTakes = {\n    .size = sizeof(attn_domain),\n";
  for (const auto& [format, name] : {std::pair{ATTN_F16, "ATTN_F16"}, {ATTN_BF16, "ATTN_BF16"}}) {
    if (d.dtypes == 1u << format) text += cat("    .dtypes = 1u << ", name, ",\n");
  }
  if (takes_fp32(d))
    text += cat("    .dtypes = ", formats_of(d, {"1u << ATTN_F16", "1u << ATTN_BF16", "1u << ATTN_F32"}, " | "),
                ",  // and attn_kernel.features has ATTN_FEATURE_F32\n");
  std::vector<Named> sizes = named(d, false);
  if (!same(d.group, attn_sizes{}))
    sizes.insert(std::ranges::find(sizes, "seq_q", &Named::name), {"group", d.group});
  // In the order of the struct, as C++ wants it.
  for (const char* field : {"batch", "heads_q", "group", "seq_q", "seq_k", "dim_qk", "dim_v"}) {
    const auto of = std::ranges::find(sizes, field, &Named::name);
    if (of == sizes.end()) continue;
    const attn_sizes& s = of->sizes;
    text +=
        cat("    .", field, " = {",
            s.count > 0 ? cat(".count = ", s.count, ", .list = {", list_of(s), "}") : limits_of(s, ".", " = "),
            "},\n");
  }
  for (const auto& [field, value] :
       {std::pair{"equal_lengths", d.equal_lengths}, {"equal_dims", d.equal_dims}, {"causal", d.causal}}) {
    if (value != 0) text += cat("    .", field, " = ", value, ",\n");
  }
  if (d.align != 0)
    text +=
        cat("    .align = 1 + ", d.align == 1 + ATTN_TOP_LEFT ? "ATTN_TOP_LEFT" : "ATTN_BOTTOM_RIGHT", ",\n");
  for (const auto& [field, value] : {std::pair{"lse", d.lse}, {"usual_scale", d.usual_scale}}) {
    if (value != 0) text += cat("    .", field, " = ", value, ",\n");
  }
  if (d.layout != ATTN_LAYOUT_ANY)
    text +=
        cat("    .layout = ", d.layout == ATTN_LAYOUT_DENSE ? "ATTN_LAYOUT_DENSE" : "ATTN_LAYOUT_INNER", ",\n");
  if (d.align_bytes != 0) text += cat("    .align_bytes = ", d.align_bytes, ",\n");
  return text + "};\n";
}

std::string as_python(const Declaration& declaration) {
  const attn_domain& d = declaration.domain;
  std::vector<std::string> parts;
  for (const auto& [name, sizes] : named(d, true)) parts.push_back(cat(name, "=", python_size(sizes)));
  if (d.equal_lengths) parts.emplace_back("equal_lengths=True");
  if (d.equal_dims) parts.emplace_back("equal_dims=True");
  if (takes_fp32(d))
    parts.push_back(cat("dtypes=(", formats_of(d, {"\"f16\",", "\"bf16\",", "\"f32\","}, " "), ")"));
  for (const Refusal* refusal : declaration.refused) {
    const LimitWord* word = word_of(refusal->limit);
    if (!is_said(d, *word)) parts.emplace_back(word->python);
  }
  if (d.layout != ATTN_LAYOUT_ANY) parts.push_back(cat("layout=\"", layout_name(d.layout), "\""));
  if (d.align_bytes != 0) parts.push_back(cat("align_bytes=", d.align_bytes));
  return "attnfuzz.Domain(" + join(parts, ", ") + ")";
}

std::string as_terms(const Declaration& declaration) {
  const attn_domain& d = declaration.domain;
  std::vector<std::string> words;
  for (const auto& [name, s] : named(d, true)) {
    if (s.count > 0) {
      std::string list = list_of(s);
      std::erase(list, ' ');
      words.push_back(cat(name, "=", list));
    }
    if (s.least > 0) words.push_back(cat(name, ">=", s.least));
    if (s.most > 0) words.push_back(cat(name, "<=", s.most));
    if (s.multiple > 0) words.push_back(cat(name, "%", s.multiple));
  }
  if (d.equal_lengths) words.emplace_back("equal_lengths");
  if (d.equal_dims) words.emplace_back("equal_dims");
  if (takes_fp32(d)) words.push_back(formats_of(d, {"f16", "bf16", "f32"}, " "));
  for (const Refusal* refusal : declaration.refused) {
    const LimitWord* word = word_of(refusal->limit);
    if (!is_said(d, *word)) words.emplace_back(word->word);
  }
  if (d.layout != ATTN_LAYOUT_ANY) words.push_back(cat("layout=", layout_name(d.layout)));
  if (d.align_bytes != 0) words.push_back(cat("align_bytes=", d.align_bytes));
  return join(words, " ");
}

namespace {

std::string takes_size(const attn_sizes& s) {
  if (s.count > 0) return cat("one_of(", list_of(s), ")");
  if (s.multiple <= 1 && s.least > 1 && s.most > 0) return cat("between(", s.least, ", ", s.most, ")");
  if (s.multiple <= 1 && s.most > 0) return cat("at_most(", s.most, ")");
  return cat(s.multiple > 1 ? cat("multiple_of(", s.multiple, ")") : std::string("any_size()"),
             s.least > std::max<int64_t>(s.multiple, 1) ? cat(".from(", s.least, ")") : std::string(),
             s.most > 0 ? cat(".up_to(", s.most, ")") : std::string());
}

// An adapter takes no size of 0, and so declares a least of 1.
bool says_something(const attn_sizes& s) { return s.count > 0 || s.multiple > 1 || s.most > 0 || s.least > 1; }

}  // namespace

std::vector<std::string> as_takes(const attn_domain& found, const attn_domain& declared) {
  std::vector<std::string> statements;
  if (found.dtypes != 0 && found.dtypes != declared.dtypes)
    statements.push_back("format = " +
                         formats_of(found, {"Formats::kF16", "Formats::kBf16", "Formats::kF32"}, " | "));
  const auto size = [&](const char* name, const attn_sizes& of, const attn_sizes& before) {
    if (says_something(of) && !same(of, before)) statements.push_back(cat(name, " = ", takes_size(of)));
  };
  size("batch", found.batch, declared.batch);
  size("heads", found.heads_q, declared.heads_q);
  size("group", found.group, declared.group);
  size("dim", found.dim_qk, declared.dim_qk);
  const bool one_dim = found.equal_dims || declared.equal_dims;
  if (!one_dim) size("dim_v", found.dim_v, declared.dim_v);
  if (one_dim && !declared.equal_dims) statements.emplace_back("equal_dims = true");
  size("seq", found.seq_q, declared.seq_q);
  const bool one_length = found.equal_lengths || declared.equal_lengths;
  if (!one_length) size("seq_k", found.seq_k, declared.seq_k);
  if (one_length && !declared.equal_lengths) statements.emplace_back("equal_lengths = true");
  if (found.causal != 0 && declared.causal == 0)
    statements.emplace_back(found.causal == 1 ? "causal = Causal::kNever" : "causal = Causal::kOnly");
  return statements;
}

}  // namespace attnfuzz
