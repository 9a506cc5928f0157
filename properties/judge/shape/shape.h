// The shape of an error: what a person sees at once in a picture of it.
//
// "only query tile 0; all NaN" or "one ratio 0.675 everywhere" suggests the bug before anyone has read the
// kernel. A shape is reported only if its pattern holds for every bad element.
//
//   text_of(error_shape({.batch = 1, .heads = 1, .seq_q = 65, .dim_v = 64, .tile_q = 64,
//                        .got = o, .expected = reference.o, .bad = bad}));
//     -> "only query tile 0; all NaN"
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace attnfuzz {

// Shapes that hint at the class of a fault (explain/fault_rules.cc).
enum class ShapeKind : uint8_t {
  kOther,
  kAllZero,
  kDeadRows,  // values where nothing is visible
  kOtherRow,  // rows or tiles hold the results of others
  kOtherHead,
  kOtherBatch,
  kLastKeyMissing,
  kLogBase,      // ln 2, or a ratio of log2 e
  kColumnsFrom,  // columns from a border on
};
struct Shape {
  std::string text;
  ShapeKind kind = ShapeKind::kOther;
  Shape() = default;
  Shape(std::string text, ShapeKind kind = ShapeKind::kOther) : text(std::move(text)), kind(kind) {}
  Shape(const char* text, ShapeKind kind = ShapeKind::kOther) : text(text), kind(kind) {}
  bool empty() const { return text.empty(); }
};

// Dense arrays; element = ((b * heads + h) * seq_q + i) * dim_v + c. For an LSE, dim_v is 1. For dK
// and dV, rows, heads and tiles are those of keys. Rows that were not judged have no bad element.
struct ShapeInput {
  int64_t batch = 1, heads = 1, seq_q = 0, dim_v = 1;
  int64_t tile_q = 64;
  const char* tile_name = "query tile";
  std::span<const float> got;
  std::span<const double> expected;
  std::span<const uint8_t> bad;
  std::span<const uint8_t> dead = {};  // for each row: it sees no key; empty: not known
  // V, if available: element = ((b * heads_kv + g) * seq_k + j) * dim_v + c. With it, an error can be traced to
  // single keys.
  int64_t heads_kv = 0, seq_k = 0;
  std::span<const double> value = {};
};

// The places of the bad elements, followed by their values. Empty if nothing is bad or no shape is
// recognised.
std::vector<Shape> error_shape(const ShapeInput& input);
std::string text_of(const std::vector<Shape>& shapes);  // separated by "; "

}  // namespace attnfuzz
