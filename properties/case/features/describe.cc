#include <algorithm>
#include <charconv>

#include "base/printable.h"
#include "properties/case/features/feature.h"
#include "properties/case/words.h"

namespace attnfuzz {

const char* to_string(FillKind kind) {
  constexpr std::array names = {"zero",      "constant",     "one-hot",   "small integers", "position",
                                "same rows", "signed zeros", "subnormal", "uniform",        "negative",
                                "gaussian",  "blocks",       "huge",      "intervals",      "levels"};
  static_assert(names.size() == kFillKinds);
  return names[static_cast<size_t>(kind)];
}

const char* to_string(BiasKind kind) {
  constexpr std::array names = {"zero",          "row-constant", "gaussian", "ALiBi",
                                "very negative", "masking",      "wide",     "far below"};
  static_assert(names.size() == kBiasKinds);
  return names[static_cast<size_t>(kind)];
}

const char* align_name(int32_t align) { return align == ATTN_TOP_LEFT ? "top-left" : "bottom-right"; }

const char* dtype_name(int32_t dtype) {
  return dtype == ATTN_F16 ? "f16" : dtype == ATTN_BF16 ? "bf16" : dtype == ATTN_F32 ? "f32"
         : dtype == ATTN_E4M3                                      ? "e4m3"
         : dtype == ATTN_E5M2                                      ? "e5m2"
                                                                   : "none";
}

std::string number(double x) {
  char text[32];
  const float single = static_cast<float>(x);
  const auto end = static_cast<double>(single) == x ? std::to_chars(text, text + sizeof text, single)
                                                    : std::to_chars(text, text + sizeof text, x);
  return {text, end.ptr};
}

std::string several(uint64_t n, const char* what) { return cat(n, " ", what, n == 1 ? "" : "s"); }

std::string hex(uint64_t x) {
  char text[17];
  return {text, std::to_chars(text, text + sizeof text, x, 16).ptr};
}

std::string to_string(const Pattern& p) {
  std::string text;
  switch (p.kind) {
    case PatternKind::kAll:
      return "all keys";
    case PatternKind::kNothing:
      return "no key at all";
    case PatternKind::kFirstKey:
      return "only the first key";
    case PatternKind::kLastKey:
      return "only the last key";
    case PatternKind::kPrefix:
      text = cat("a prefix of ", p.parameter, ", or j <= i");
      break;
    case PatternKind::kDocuments:
      text = cat("documents of ", p.parameter);
      break;
    case PatternKind::kDeadRows:
      text = cat("all but each ", p.parameter, "th row, which is dead");
      break;
    case PatternKind::kDeadTiles:
      text = cat("half of all runs of ", p.parameter, " keys");
      break;
    case PatternKind::kStripes:
      text = cat("keys not divisible by ", p.parameter);
      break;
    case PatternKind::kRandom:
      text = cat("pairs at random, ", p.parameter, "/16 hidden");
      break;
    case PatternKind::kTree:
      text = cat("a draft tree, parents at most ", p.parameter, " before");
      break;
    case PatternKind::kSinkWindow:
      return cat("the first ", p.seed, " keys and the last ", p.parameter);
    case PatternKind::kBlockwise:
      text = cat("half of all blocks of ", block_queries(p), "x", block_keys(p));
      break;
  }
  if (p.seed != 0) text += cat(" (seed ", p.seed, ")");
  return text;
}

std::string join(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

namespace {

// "merge ": the operation of a problem, unless it is the forward pass.
std::string operation_word(const Problem& p) {
  for (const OperationBit& operation : kOperationBits) {
    if ((p.features & operation.feature) != 0) return cat(operation.name, " ");
  }
  return "";
}

// True if a tensor of the problem's operation has this size.
bool has_size(const Problem& p, Size size) {
  return std::ranges::any_of(kTensors, [&](const TensorSpec& spec) {
    return in_problem(spec, p.features) && std::ranges::find(spec.shape, size) != spec.shape.end();
  });
}

}  // namespace

std::string sizes_line(const Problem& p) {
  const bool keys = has_size(p, Size::kSeqK);
  std::string text = cat(operation_word(p), "B=", p.batch, " H=", p.heads_q);
  if (keys) text += cat("/", p.heads_kv);
  text += cat(" S=", p.seq_q);
  if (keys) text += cat("/", p.seq_k);
  text += " D=";
  if (has_size(p, Size::kDimQk)) text += cat(p.dim_qk, "/");
  return text + cat(p.dim_v, " ", dtype_name(p.dtype));
}

namespace {

std::vector<std::string> words_in(const Case& c, Section where) {
  static const auto all = gather(&Feature::words, &Words::order);
  std::vector<std::string> words;
  for (const Words& some : all) {
    if (some.where == where) some.say(c, words);
  }
  return words;
}

}  // namespace

std::vector<std::string> mask_words(const Problem& p) {
  Case c;
  c.problem = p;
  return words_in(c, Section::kMask);
}

std::vector<std::string> data_words(const Case& c) { return words_in(c, Section::kData); }

std::vector<std::string> surroundings_words(const Case& c) {
  std::vector<std::string> words = words_in(c, Section::kSurroundings);
  if (c.build_kind != "plain") words.push_back("build " + printable(c.build_kind, 60));
  return words;
}

std::string calls_words(const Case& c) { return join(words_in(c, Section::kCalls), ", "); }

std::vector<std::string> all_words(const Case& c) {
  std::vector<std::string> words;
  for (const Section where :
       {Section::kMask, Section::kNumber, Section::kData, Section::kSurroundings, Section::kCalls})
    std::ranges::copy(words_in(c, where), std::back_inserter(words));
  return words;
}

std::string describe(const Case& c) {
  std::string line = sizes_line(c.problem);
  for (const std::string& w : words_in(c, Section::kMask)) line += " " + w + ",";
  for (const std::string& w : words_in(c, Section::kNumber)) line += " " + w + ",";
  if (line.back() == ',') line.pop_back();
  std::vector<std::string> parts = {line, join(data_words(c), ", ")};
  for (const std::string& w : surroundings_words(c)) parts.push_back(w);
  parts.push_back(calls_words(c));
  return join(parts, "; ");
}

}  // namespace attnfuzz
