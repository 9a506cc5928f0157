#include "properties/export/text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "base/printable.h"
#include "kernels/contract/problem_fields.h"
#include "properties/case/codec/as_contract.h"
#include "properties/case/places/geometry.h"
#include "properties/case/places/packed.h"
#include "properties/case/words.h"
#include "properties/memory/extent.h"
#include "properties/memory/inputs.h"
#include "properties/memory/layout.h"
#include "reference/model/device_arithmetic.h"

namespace attnfuzz::exporting {
namespace {

// Collects words and joins equal neighbours.
class Words {
 public:
  void add(const std::string& word) {
    if (word == last_) {
      ++count_;
      return;
    }
    flush();
    last_ = word;
    count_ = 1;
  }
  std::string text() {
    flush();
    return text_;
  }

 private:
  void flush() {
    if (count_ == 0) return;
    if (!text_.empty()) text_ += ' ';
    if (count_ > 1) text_ += std::to_string(count_) + "*";
    text_ += last_;
    count_ = 0;
  }
  std::string text_, last_;
  int64_t count_ = 0;
};

std::string digits_of(const std::byte* element, int64_t bytes) {
  std::string text;
  char two[3];
  for (int64_t n = bytes - 1; n >= 0; --n) {
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned>(element[n]));
    text += two;
  }
  return text;
}

std::string values_text(const Export& e, TensorId t, const Geometry& g) {
  Words words;
  if (g.empty()) return "";
  const PackedCase packed(e.c.problem);
  InputRows rows(e.c, packed, t, dead_lse_of(e.plan), e.derived[static_cast<size_t>(t)]);
  std::vector<std::byte> row(static_cast<size_t>(g.row_bytes()));
  Index at;
  for (at.n[0] = 0; at.n[0] < g.size[0]; ++at.n[0]) {
    for (at.n[1] = 0; at.n[1] < g.size[1]; ++at.n[1]) {
      for (at.n[2] = 0; at.n[2] < g.size[2]; ++at.n[2]) {
        rows.write(at, row.data());
        for (int64_t d = 0; d < g.size[3]; ++d)
          words.add(digits_of(&row[d * g.element_bytes], g.element_bytes));
      }
    }
  }
  return words.text();
}

uint32_t poison(Poison poison, int32_t dtype) {
  if (poison == Poison::kNan) return kNeverWritten;
  if (dtype == ATTN_F16) return 0x7bff7bff;
  return dtype == ATTN_BF16 ? 0x71807180 : 0x71800000;
}

// Three digits, rounded up.
std::string rounded_up(double bound) {
  if (bound == 0) return "0";
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", bound);
  if (std::strtod(text, nullptr) < bound) std::snprintf(text, sizeof text, "%.2e", bound * 1.01);
  return text;
}

std::string exact(float value, Language language) {
  char text[64];
  std::snprintf(text, sizeof text, language == Language::kCpp ? "%af" : "float.fromhex(\"%a\")",
                static_cast<double>(value));
  return text;
}

std::string bound_text(const Expected& due, RowState state, size_t at) {
  switch (static_cast<Due>(due.rule[at])) {
    case Due::kAnything:
      return "any";
    case Due::kMustBeNaN:
      return "nan";
    case Due::kNumber:
      break;
  }
  if (state == RowState::kDead) return "0";
  if (std::isinf(due.bound[at])) return "inf";
  // The program's reference is exact and knows none of the roundings that the oracle predicts. The middle of a hull
  // is not the exact value, but at most the hull's extent away from it.
  return rounded_up(due.allowance(static_cast<int64_t>(at)) * (state == RowState::kUninformative ? 2 : 1));
}

// Writes the bounds in the order in which the tensor lies in memory. A row of no entry may hold anything: its bound is
// the word `any`.
std::string bounds_text(const Export& e, TensorId tensor, const Geometry& g) {
  Words words;
  const Expected& due = e.reference[tensor];
  const bool query = of_queries(spec_of(tensor));
  const PackedCase packed(e.c.problem);
  const auto row = [&](size_t n) {
    const auto columns = static_cast<size_t>(due.columns);
    const RowState state = query ? e.reference.state[n] : RowState::kBounded;
    for (size_t at = n * columns; at < (n + 1) * columns; ++at) words.add(bound_text(due, state, at));
  };
  if (!packed.packs(tensor)) {
    for (size_t n = 0; n * static_cast<size_t>(due.columns) < due.value.size(); ++n) row(n);
    return words.text();
  }
  const auto size = logical_size(e.c.problem, tensor);
  for (int64_t h = 0; h < g.size[1]; ++h) {
    for (int64_t i = 0; i < g.size[2]; ++i) {
      const std::optional<StoredRow> place = packed.owner(tensor, {0, i});
      if (place)
        row(static_cast<size_t>((place->entry * size[1] + h) * size[2] + place->row));
      else
        for (int64_t d = 0; d < g.size[3]; ++d) words.add("any");
    }
  }
  return words.text();
}

// The rows of a tensor that belong to a batch entry.
int64_t owned_rows(const Case& c, TensorId t, const Geometry& g) {
  const PackedCase packed(c.problem);
  if (!packed.packs(t) || in_pages(c.problem, t)) return g.size[2];
  return (of_queries(spec_of(t)) ? packed.borders_q() : packed.borders_k()).back();
}

TensorText tensor_text(const Export& e, TensorId t) {
  const Case& c = e.c;
  const auto g = *geometry(c, t);  // the case is legal
  TensorText text = {.spec = spec_of(t), .bytes = g.element_bytes, .size = g.size};
  const TensorLayout& layout = c.layout[static_cast<size_t>(t)];
  const auto size = stored_size(c.problem, t);
  const auto once = repeated(c, t);
  for (size_t n = 0; n < 4; ++n) {
    const bool junk = size[n] == 1 && layout.junk_unit_strides;
    text.stride[n] = junk ? kJunkStride + static_cast<int64_t>(n) : once[n] ? 0 : g.stride[n];
  }
  text.offset = g.offset_bytes / g.element_bytes;
  text.page_end = layout.placement == Placement::kPageEnd;
  const bool output = text.spec.role == Role::kOutput;
  text.surround = output ? poison(c.poison, dtype_of(c.problem, t)) : kInputRedzone;
  text.owned = owned_rows(c, t, g);
  if (!output) text.values = values_text(e, t, g);
  if (output) text.bounds = bounds_text(e, t, g);
  if (text.spec.role == Role::kState) text.bounds = cat(g.size[0] * g.size[1] * g.size[2] * g.size[3], "*0");
  return text;
}

}  // namespace

std::vector<TensorText> tensor_texts(const Export& e) {
  std::vector<TensorText> texts;
  for (const Role role : {Role::kInput, Role::kState, Role::kOutput}) {
    for (const TensorSpec& spec : kTensors) {
      if (spec.role == role && is_present(e.c, spec.id)) texts.push_back(tensor_text(e, spec.id));
    }
  }
  return texts;
}

uint32_t workspace_poison(const Case& c) {
  return c.poison == Poison::kNan ? kAllOnes : poison(c.poison, ATTN_F32);
}

namespace {

// The value of a field of attn_problem in the language's syntax.
std::string value_text(contract::Meaning meaning, auto value, Language language) {
  const std::string prefix = language == Language::kCpp ? "ATTN_" : "";
  if constexpr (std::is_floating_point_v<decltype(value)>) {
    return exact(value, language);
  } else {
    constexpr const char *kDtypes[] = {"NONE", "F16", "BF16", "F32"}, *kAligns[] = {"TOP_LEFT", "BOTTOM_RIGHT"};
    if (meaning == contract::Meaning::kDtype) return prefix + kDtypes[static_cast<size_t>(value + 1)];
    if (meaning == contract::Meaning::kAlign) return prefix + kAligns[static_cast<size_t>(value)];
    return cat(value);
  }
}

std::string feature_names(uint64_t bits) {
  constexpr std::pair<uint64_t, const char*> kNames[] = {
      {ATTN_FEATURE_F32, "ATTN_FEATURE_F32"},           {ATTN_FEATURE_MERGE, "ATTN_FEATURE_MERGE"},
      {ATTN_FEATURE_SINK, "ATTN_FEATURE_SINK"},         {ATTN_FEATURE_WIDE, "ATTN_FEATURE_WIDE"},
      {ATTN_FEATURE_LATENT, "ATTN_FEATURE_LATENT"},     {ATTN_FEATURE_ALIBI, "ATTN_FEATURE_ALIBI"},
      {ATTN_FEATURE_BACKWARD, "ATTN_FEATURE_BACKWARD"}, {ATTN_FEATURE_RAGGED, "ATTN_FEATURE_RAGGED"},
      {ATTN_FEATURE_INDEX32, "ATTN_FEATURE_INDEX32"},   {ATTN_FEATURE_PAGED, "ATTN_FEATURE_PAGED"},
      {ATTN_FEATURE_SELECTED, "ATTN_FEATURE_SELECTED"}, {ATTN_FEATURE_NSA_SELECT, "ATTN_FEATURE_NSA_SELECT"},
      {ATTN_FEATURE_APPEND, "ATTN_FEATURE_APPEND"},         {ATTN_FEATURE_COPY_PAGES, "ATTN_FEATURE_COPY_PAGES"},
      {ATTN_FEATURE_SELECTED_BACKWARD, "ATTN_FEATURE_SELECTED_BACKWARD"},
      {ATTN_FEATURE_NSA_COMPRESS, "ATTN_FEATURE_NSA_COMPRESS"}, {ATTN_FEATURE_NSA_COMBINE, "ATTN_FEATURE_NSA_COMBINE"},
      {ATTN_FEATURE_KEY_STEP, "ATTN_FEATURE_KEY_STEP"},     {ATTN_FEATURE_NSA_SCORE, "ATTN_FEATURE_NSA_SCORE"}};
  std::string text;
  for (const auto& [bit, name] : kNames) {
    if ((bits & bit) != 0) text += cat(text.empty() ? "" : " | ", name);
  }
  return text;
}

std::string remark_on(const contract::ProblemField& row, auto value) {
  if constexpr (std::is_floating_point_v<decltype(value)>) return number(value);
  if (row.meaning == contract::Meaning::kFeatures) return feature_names(static_cast<uint64_t>(value));
  return row.meaning == contract::Meaning::kNumber && row.none == static_cast<double>(value) ? "none" : "";
}

}  // namespace

std::vector<Field> problem_fields(const Case& c, Language language) {
  const attn_problem problem = problem_of(c.problem);
  std::vector<Field> fields;
  for (const contract::ProblemField& row : contract::kProblemFields) {
    if (row.meaning == contract::Meaning::kStructSize) continue;
    contract::visit(row.at, &problem, [&](auto value) {
      // The program's struct begins as zeros.
      if (row.none && value == 0) return;
      fields.push_back({row.at.name, value_text(row.meaning, value, language), remark_on(row, value)});
    });
  }
  return fields;
}

std::vector<Field> lse_fields(const Export& e) {
  constexpr uint64_t kGradients = ATTN_FEATURE_BACKWARD | ATTN_FEATURE_SELECTED_BACKWARD;
  if (!e.cap || (e.c.problem.features & kGradients) != 0) return {};
  return {{"lse_base", cat(e.cap->lse_base), ""},
          {"lse_dead", cat(e.cap->lse_dead), ""},
          {"lse_sink", cat(e.cap->lse_sink), ""}};
}

std::vector<Field> environment_fields(const Case& c) {
  return {{"sm_count", cat(c.env.sm_count), ""},
          {"compute_capability", cat(c.env.compute_capability), ""},
          {"shared_memory_limit", cat(c.env.shared_memory_limit), ""},
          {"schedule_seed", cat(c.env.schedule_seed), "the CPU executor's order of threads"},
          {"variant", cat(c.env.variant), "which of the kernel's instantiations"},
          {"arithmetic", cat(c.env.arithmetic),
           "the CPU executor's: " + std::string(arithmetic_words(c.env.arithmetic))}};
}

std::string library_arguments(const Export& e) {
  const auto known = [](const std::string& path, const char* word) {
    return path.empty() ? std::string(word) : shell_word(path);
  };
  const std::string library = known(e.places.library, "LIBRARY");
  return e.backend == ATTN_CUDA ? library : library + " " + known(e.places.executor, "[EXECUTOR]");
}

std::string library_words(const Export& e) {
  const std::string name = std::string("libattn_NAME_") + (e.backend == ATTN_CUDA ? "cuda" : "cpu") + ".so";
  std::string text = "The first argument is the kernel's library: " + name +
                     ", or another that exports attn_kernel_at() of attnfuzz's kernels/attention.h.";
  if (e.backend == ATTN_CUDA) return text;
  return text + " The second is " + kExecutorLibrary +
         ", which comes with attnfuzz: CUDA kernels compiled for the CPU run on it. It may be left out where "
         "it "
         "lies beside the first or in ../lib from there.";
}

std::string head(const Export& e, const std::vector<std::string>& commands,
                 const std::vector<std::string>& needs, const std::string& comment) {
  std::vector<std::string> lines;
  // A file's text may hold anything. It becomes one line without a backslash, which could continue a comment.
  const auto add = [&](const std::string& given) {
    std::string line = printable(given);
    std::ranges::replace(line, '\\', ' ');
    const size_t width = 98 - comment.size();
    std::string indent;
    while (line.size() + indent.size() > width) {
      const size_t at = line.rfind(' ', width - indent.size());
      if (at == line.npos || at == 0) break;
      lines.push_back(indent + line.substr(0, at));
      line.erase(0, at + 1);
      indent = "    ";
    }
    lines.push_back(indent + line);
  };
  add("A failure of the attention kernel " + e.kernel_name + ": " +
      (e.message.empty() ? "(its file has no message)" : e.message));
  if (!e.shape.empty()) add("Shape of the error: " + e.shape + ".");
  if (!e.fails) add("WHERE THIS FILE WAS MADE THE KERNEL DID NOT FAIL (ANY MORE).");
  add("");
  for (const std::string& command : commands) lines.push_back("  " + printable(command, command.size()));
  add("");
  for (const std::string& line : needs) add(line);
  if (e.backend == ATTN_CUDA && !e.is_python) {
    add("It needs a CUDA driver and no toolkit. Tensors lie in managed memory: a kernel that leaves them may "
        "be caught by the bytes around them rather than by a fault.");
  }
  add("Exit status: 1 the failure shows, 0 it does not, 2 it could not be tried.");
  add("");
  add("The case: " + describe(e.c));
  for (const std::string& need : lines_of(e.r.needs)) add("  " + need);
  if (!e.r.indifferent.empty()) add("  does not matter: " + join(e.r.indifferent, "; "));
  const std::string path(e.plan.path, strnlen(e.plan.path, sizeof e.plan.path));
  add("Bounds: for the plan " + (path.empty() ? "without a path" : "'" + path + "'") + ", tiles " +
      cat(e.plan.tile_q) + " x " + cat(e.plan.tile_k) + ", " + cat(e.plan.num_splits) + " split(s).");
  if (!e.r.build_hash.empty())
    add("Found with build " + e.r.build_hash + " of " + e.r.kernel.substr(e.r.kernel.rfind('/') + 1) + ", " +
        e.r.compiler);
  if (!e.r.device.empty()) add("Found on " + e.r.device);
  std::string text;
  for (const std::string& line : lines) {
    text += comment;
    if (!line.empty()) text += " " + line;
    text += "\n";
  }
  return text;
}

std::string literals(const std::string& text, const std::string& indent) {
  std::string out;
  size_t at = 0;
  do {
    size_t end = std::min(text.size(), at + 100 - indent.size());
    if (end < text.size()) {
      const size_t space = text.rfind(' ', end);
      if (space != text.npos && space > at) end = space + 1;
    }
    out += (at == 0 ? "" : "\n" + indent) + "\"" + in_literal(text.substr(at, end - at)) + "\"";
    at = end;
  } while (at < text.size());
  return out;
}

std::string fill_in(const std::string& text, const std::vector<std::pair<std::string, std::string>>& parts) {
  std::string out;
  size_t at = 0;
  while (at < text.size()) {
    size_t next = text.npos;
    const std::pair<std::string, std::string>* part = nullptr;
    for (const auto& candidate : parts) {
      const size_t found = text.find("@" + candidate.first + "@", at);
      if (found < next) {
        next = found;
        part = &candidate;
      }
    }
    if (!part) break;
    out += text.substr(at, next - at) + part->second;
    at = next + part->first.size() + 2;
    if (at < text.size() && text[at] == '\n' && !part->second.empty() && part->second.back() == '\n') ++at;
  }
  return out + text.substr(at);
}

}  // namespace attnfuzz::exporting
