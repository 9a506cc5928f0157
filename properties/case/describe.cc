#include <algorithm>
#include <charconv>
#include <cmath>

#include "properties/case/words.h"

namespace attnfuzz {

const char* to_string(FillKind kind) {
  constexpr std::array<const char*, kFillKinds> names = {
      "zero",      "constant", "one-hot",  "small integers", "position", "same rows", "signed zeros",
      "subnormal", "uniform",  "negative", "gaussian",       "blocks",   "huge"};
  return names[static_cast<size_t>(kind)];
}

const char* to_string(BiasKind kind) {
  constexpr std::array<const char*, kBiasKinds> names = {"zero",  "row-constant",  "gaussian",
                                                         "ALiBi", "very negative", "masking"};
  return names[static_cast<size_t>(kind)];
}

const char* dtype_name(int32_t dtype) {
  return dtype == ATTN_F16 ? "f16" : dtype == ATTN_BF16 ? "bf16" : dtype == ATTN_F32 ? "f32" : "none";
}

std::string number(double x) {
  char text[32];
  const float single = static_cast<float>(x);
  const auto end = static_cast<double>(single) == x ? std::to_chars(text, text + sizeof text, single)
                                                    : std::to_chars(text, text + sizeof text, x);
  return {text, end.ptr};
}

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
  }
  if (p.seed != 0) text += cat(" (seed ", p.seed, ")");
  return text;
}

namespace {

std::string broadcast_words(const Broadcast& b) {
  std::string text;
  if (b.batch) text += " batch";
  if (b.head) text += " head";
  if (b.query) text += " query";
  return text.empty() ? text : ", broadcast over" + text;
}

std::string fill_words(const Fill& f) {
  std::string text = to_string(f.kind);
  if (f.exponent != 0) text += cat(" x 2^", f.exponent);
  if (f.seed != 0) text += cat(" (seed ", f.seed, ")");
  if (f.version != 1) text += cat(" (version ", f.version, ")");
  return text;
}

std::string window_side(const char* sign, int64_t side) {
  return side < 0 ? cat(sign, "inf") : side == 0 ? std::string("0") : cat(sign, side);
}

}  // namespace

std::string join(const std::vector<std::string>& parts, const char* separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (!text.empty()) text += separator;
    text += part;
  }
  return text;
}

std::string sizes_line(const Problem& p) {
  return cat("B=", p.batch, " H=", p.heads_q, "/", p.heads_kv, " S=", p.seq_q, "/", p.seq_k, " D=", p.dim_qk,
             "/", p.dim_v, " ", dtype_name(p.dtype));
}

std::vector<std::string> mask_words(const Problem& p) {
  std::vector<std::string> words;
  const char* align = p.align == ATTN_TOP_LEFT ? "top-left" : "bottom-right";
  if (p.causal) words.push_back(cat("causal (", align, ")"));
  if (p.window_left >= 0 || p.window_right >= 0) {
    std::string window =
        cat("window [", window_side("-", p.window_left), ", ", window_side("+", p.window_right), "]");
    if (!p.causal) window += cat(" (", align, ")");
    words.push_back(window);
  }
  if (p.key_lengths) {
    std::string lengths;
    const size_t shown = std::min<size_t>(p.key_lengths->size(), 8);
    for (size_t i = 0; i < shown; ++i) {
      lengths += (i ? "," : "") + std::to_string((*p.key_lengths)[i]);
    }
    if (shown < p.key_lengths->size()) lengths += ",...";
    words.push_back("key lengths " + lengths);
  }
  if (p.mask) words.push_back("mask: " + to_string(p.mask->visible) + broadcast_words(p.mask->broadcast));
  if (p.bias) {
    std::string bias = cat("bias ", to_string(p.bias->kind), " ", dtype_name(p.bias->dtype));
    const bool lowest = p.bias->kind == BiasKind::kMasking;
    if (p.bias->finite.kind != PatternKind::kAll)
      bias += (lowest ? ", lowest but for " : ", finite for ") + to_string(p.bias->finite);
    bias += broadcast_words(p.bias->broadcast);
    if (p.bias->seed != 0) bias += cat(" (seed ", p.bias->seed, ")");
    words.push_back(bias);
  }
  return words;
}

std::vector<std::string> data_words(const Case& c) {
  std::vector<std::string> words;
  if (c.q == c.k && c.k == c.v) {
    words.push_back("Q, K, V " + fill_words(c.q));
  } else if (c.q == c.k) {
    words.push_back("Q, K " + fill_words(c.q));
    words.push_back("V " + fill_words(c.v));
  } else {
    words.push_back("Q " + fill_words(c.q));
    if (c.k == c.v) {
      words.push_back("K, V " + fill_words(c.k));
    } else {
      words.push_back("K " + fill_words(c.k));
      words.push_back("V " + fill_words(c.v));
    }
  }
  for (size_t i = 0; i < c.planted.size() && i < 3; ++i) {
    const Planted& x = c.planted[i];
    words.push_back(cat(kTensorNames[static_cast<size_t>(x.tensor)], "(", x.b, ",", x.h, ",", x.s, ",", x.d,
                        ") = 0x", hex(x.bits)));
  }
  if (c.planted.size() > 3) words.push_back(cat(c.planted.size() - 3, " more planted values"));
  if (c.nan_beyond_lengths) words.push_back("NaN beyond the key lengths");
  return words;
}

std::vector<std::string> surroundings_words(const Case& c) {
  std::vector<std::string> words;
  const TensorLayout usual;
  for (int t = 0; t < kTensorCount; ++t) {
    const TensorLayout& l = c.layout[static_cast<size_t>(t)];
    if (l == usual) continue;
    std::string text = kTensorNames[static_cast<size_t>(t)];
    if (l.order != usual.order) {
      text += " ordered ";
      for (const uint8_t axis : l.order) text += "bhs"[axis % 3];
    }
    if (l.offset != 0) text += cat(" offset ", l.offset);
    if (l.row_gap != 0) text += cat(" row gap ", l.row_gap);
    if (l.spread != 0) text += cat(" spread ", l.spread);
    if (l.junk_unit_strides) text += " junk unit strides";
    if (l.placement == Placement::kPageEnd) text += " at a page's end";
    words.push_back(text);
  }
  const Environment env;
  if (c.env.variant != env.variant) words.push_back(cat("variant ", c.env.variant));
  if (c.env.sm_count != env.sm_count) words.push_back(cat(c.env.sm_count, " SMs"));
  if (c.env.compute_capability != env.compute_capability) {
    words.push_back(cat("sm_", c.env.compute_capability));
  }
  if (c.env.shared_memory_limit != env.shared_memory_limit) {
    words.push_back(cat(c.env.shared_memory_limit, " bytes of shared memory"));
  }
  if (c.env.schedule_seed != 0) words.push_back(cat("schedule ", c.env.schedule_seed));
  if (c.prefill == Prefill::kHuge) words.push_back("outputs prefilled with 2^100");
  if (!c.want_lse) words.push_back("no LSE wanted");
  if (c.lane != "plain") words.push_back("lane " + c.lane);
  return words;
}

std::string calls_words(const Case& c) {
  std::string text = c.calls.size() == 1 ? "1 call" : cat(c.calls.size(), " calls");
  int dirty = 0;
  bool second_stream = false;
  for (const Call& call : c.calls) {
    dirty += call.dirty_workspace;
    second_stream |= call.stream != 0;
  }
  if (dirty > 0)
    text += c.calls.size() == 1 ? " on a dirty workspace" : cat(", ", dirty, " on a dirty workspace");
  if (second_stream) text += ", two streams";
  return text;
}

std::string describe(const Case& c) {
  std::string line = sizes_line(c.problem);
  for (const std::string& w : mask_words(c.problem)) line += " " + w + ",";
  if (c.problem.num_splits != 0)
    line += cat(" ", c.problem.num_splits, c.problem.num_splits == 1 ? " split," : " splits,");
  if (c.problem.softcap != 0) line += " softcap " + number(c.problem.softcap) + ",";
  if (c.problem.scale != 1) line += " scale " + number(c.problem.scale) + ",";
  if (line.back() == ',') line.pop_back();
  std::vector<std::string> parts = {line, join(data_words(c), ", ")};
  for (const std::string& w : surroundings_words(c)) parts.push_back(w);
  parts.push_back(calls_words(c));
  return join(parts, "; ");
}

}  // namespace attnfuzz
