#include "fuzz/check/counts/census.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <stdexcept>

#include "fuzz/check/counts/census_values.h"
#include "properties/case/codec/codec_fields.h"

namespace attnfuzz {
namespace {

constexpr double kBelow = -std::numeric_limits<double>::infinity();
constexpr double kAbove0 = std::numeric_limits<double>::min();  // a range that begins just above 0

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", x == kAbove0 ? 0 : x);
  return text;
}

// Ranges that begin at each of `starts`, ascending; the last has no end.
std::string range_name(const std::vector<double>& starts, size_t at, bool whole) {
  const double from = starts[at];
  if (at + 1 == starts.size()) return number(from) + " or more";
  const double next = starts[at + 1];
  if (from == kBelow) return "below " + number(next);
  if (next == kAbove0 || (whole && next == from + 1)) return number(from);
  return number(from) + ".." + number(whole ? next - 1 : next);
}
std::vector<std::string> range_names(const std::vector<double>& starts, bool whole) {
  std::vector<std::string> names;
  for (size_t at = 0; at < starts.size(); ++at) names.push_back(range_name(starts, at, whole));
  return names;
}

using Value = double (*)(const Case&, const attn_plan&);

CensusField in_ranges(const char* name, std::vector<double> starts, Value value, bool whole) {
  return {name, range_names(starts, whole), [=](const Case& c, const attn_plan& plan) {
            const auto above = std::ranges::upper_bound(starts, value(c, plan));
            return static_cast<size_t>(std::max<std::ptrdiff_t>(above - starts.begin() - 1, 0));
          }};
}
CensusField whole(const char* name, std::vector<double> starts, Value value) {
  return in_ranges(name, std::move(starts), value, true);
}
CensusField real(const char* name, std::vector<double> starts, Value value) {
  return in_ranges(name, std::move(starts), value, false);
}
CensusField kinds(const char* name, std::vector<std::string> names, int (*of)(const Case&, const attn_plan&)) {
  return {name, std::move(names),
          [of](const Case& c, const attn_plan& plan) { return static_cast<size_t>(of(c, plan)); }};
}

std::vector<std::string> with_none(std::span<const char* const> names) {
  std::vector<std::string> all = {"none"};
  all.insert(all.end(), names.begin(), names.end());
  return all;
}
std::vector<std::string> all_of(std::span<const char* const> names) { return {names.begin(), names.end()}; }

std::vector<double> lengths() {
  return {0, 1, 2, 5, 17, 64, 65, 128, 129, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536};
}
std::vector<double> dims() {
  return {1, 8, 9, 16, 17, 32, 33, 64, 65, 80, 81, 96, 97, 128, 129, 192, 193, 256, 257, 512, 513, 576, 577};
}
std::vector<double> few() { return {0, 1, 2, 3, 4, 5, 9, 17, 33, 65, 129}; }
std::vector<double> tiles() { return {0, 1, 2, 3, 4, 5, 6, 9, 17, 65}; }

}  // namespace

const std::vector<CensusField>& census_fields() {
  using namespace census;
  static const std::vector<CensusField> all = {
      kinds("dtype", all_of(codec::kDtypes), [](const Case& c, const attn_plan&) { return c.problem.dtype; }),
      whole("batch", few(), [](const Case& c, const attn_plan&) { return double(c.problem.batch); }),
      whole("KV heads", few(), [](const Case& c, const attn_plan&) { return double(c.problem.heads_kv); }),
      whole("query heads a KV head", few(), [](const Case& c, const attn_plan&) { return double(group(c)); }),
      whole("queries", lengths(), [](const Case& c, const attn_plan&) { return double(c.problem.seq_q); }),
      whole("keys", lengths(), [](const Case& c, const attn_plan&) { return double(c.problem.seq_k); }),
      whole("query tiles", tiles(),
            [](const Case& c, const attn_plan& p) { return double(tiles_of(c.problem.seq_q, p.tile_q)); }),
      whole("key tiles", tiles(),
            [](const Case& c, const attn_plan& p) { return double(tiles_of(c.problem.seq_k, p.tile_k)); }),
      whole("splits that hold keys", {0, 1, 2, 3, 4, 5, 9, 17, 65},
            [](const Case& c, const attn_plan& p) { return double(splits_that_hold_keys(c, p)); }),
      whole("dim_qk", dims(), [](const Case& c, const attn_plan&) { return double(c.problem.dim_qk); }),
      whole("dim_v", dims(), [](const Case& c, const attn_plan&) { return double(c.problem.dim_v); }),
      real("scale", {kBelow, -4, -1, 0, kAbove0, 1.0 / 64, 1.0 / 8, 0.5, 1, 1.00001, 4, 16},
           [](const Case& c, const attn_plan&) { return double(c.problem.scale); }),
      real("soft cap", {0, kAbove0, 1, 5, 15, 20, 30, 50, 100, 200},
           [](const Case& c, const attn_plan&) { return double(c.problem.softcap); }),
      kinds("causal", {"no", "top-left", "bottom-right"}, causal),
      kinds("window", {"none", "left", "right", "both"}, window),
      kinds("key lengths", {"none", "all whole", "some shorter", "one empty"}, key_lengths),
      kinds("mask", with_none(codec::kPatternNames),
            [](const Case& c, const attn_plan&) {
              return c.problem.mask ? 1 + static_cast<int>(c.problem.mask->visible.kind) : 0;
            }),
      kinds("bias", with_none(codec::kBiasNames),
            [](const Case& c, const attn_plan&) {
              return c.problem.bias ? 1 + static_cast<int>(c.problem.bias->kind) : 0;
            }),
      kinds("bias has shape", {"none", "(B,H,S,S)", "(1,H,S,S)", "(B,1,S,S)", "(1,1,S,S)", "one row"},
            bias_shape),
      real("largest finite |bias|", {0, kAbove0, 4, 8, 16, 64, 256, 10000},
           [](const Case& c, const attn_plan&) { return largest_bias(c); }),
      kinds("sinks", with_none(codec::kSinkNames),
            [](const Case& c, const attn_plan&) {
              return c.problem.sink ? 1 + static_cast<int>(c.problem.sink->kind) : 0;
            }),
      kinds("slopes", with_none(codec::kSlopeNames),
            [](const Case& c, const attn_plan&) {
              return c.problem.slopes ? 1 + static_cast<int>(c.problem.slopes->kind) : 0;
            }),
      kinds("packed entries", {"none", "queries", "keys", "both"}, packed_sides),
      kinds("packed lengths", {"none", "all empty", "some empty", "unlike", "equal"}, packed_lengths),
      whole("packed slack rows", {0, 1, 2, 4, 17, 64}, packed_slack),
      kinds("keys in pages", {"no", "yes", "the first shared"},
            [](const Case& c, const attn_plan&) {
              return !c.problem.paging ? 0 : c.problem.paging->shared > 0 && c.problem.batch > 1 ? 2 : 1;
            }),
      whole("keys of a page", {0, 1, 2, 4, 16, 17, 64, 65, 128, 129}, page_size),
      kinds("the longest ends in a page", {"of none", "of all keys but one", "of all", "of one", "of others"},
            last_page),
      kinds("page ids", {"none", "in order", "shuffled", "above 2^16"}, page_ids),
      kinds("other entries of the table", with_none(codec::kPageJunkNames),
            [](const Case& c, const attn_plan&) {
              return c.problem.paging ? 1 + static_cast<int>(c.problem.paging->junk) : 0;
            }),
      kinds("K and V in 8 bits", with_none(codec::kKvFormatNames),
            [](const Case& c, const attn_plan&) {
              return c.problem.kv8 ? 1 + static_cast<int>(c.problem.kv8->format) : 0;
            }),
      kinds("lengths and offsets", {"int64", "int32"},
            [](const Case& c, const attn_plan&) { return c.problem.index_dtype == ATTN_INDEX_32 ? 1 : 0; }),
      kinds("V is stored", {"apart", "in K"},
            [](const Case& c, const attn_plan&) { return int(c.problem.latent); }),
      kinds("Q", all_of(codec::kFillNames), [](const Case& c, const attn_plan&) { return int(c.q.kind); }),
      kinds("K", all_of(codec::kFillNames), [](const Case& c, const attn_plan&) { return int(c.k.kind); }),
      kinds("V", all_of(codec::kFillNames), [](const Case& c, const attn_plan&) { return int(c.v.kind); }),
      kinds("layout", {"dense, heads first", "dense, positions first", "other"}, layout),
      kinds("arithmetic", {"any", "of a device"},
            [](const Case& c, const attn_plan&) { return c.env.arithmetic == ATTN_ARITHMETIC_ANY ? 0 : 1; }),
  };
  return all;
}

const std::vector<CensusSort>& census_sorts() {
  using namespace census;
  static const std::vector<CensusSort> all = {
      {"1,024 keys or more", [](const Case& c, const attn_plan&) { return is_long(c); }},
      {"and D >= 64", [](const Case& c, const attn_plan&) { return is_long(c) && dim(c) >= 64; }},
      {"and D = 128", [](const Case& c, const attn_plan&) { return is_long(c) && dim(c) == 128; }},
      {"and D = 256", [](const Case& c, const attn_plan&) { return is_long(c) && dim(c) == 256; }},
      {"and D >= 64, grouped heads",
       [](const Case& c, const attn_plan&) { return is_long(c) && dim(c) >= 64 && group(c) > 1; }},
      {"and D >= 64, nothing hidden",
       [](const Case& c, const attn_plan&) { return is_long(c) && dim(c) >= 64 && hides_nothing(c); }},
      {"and D >= 64, 4,096 keys or more",
       [](const Case& c, const attn_plan&) { return c.problem.seq_k >= 4096 && dim(c) >= 64; }},
      {"and D >= 64, 16,384 keys or more",
       [](const Case& c, const attn_plan&) { return c.problem.seq_k >= 16384 && dim(c) >= 64; }},
      {"launches in splits", [](const Case&, const attn_plan& p) { return p.num_splits > 1; }},
      {"and more than 8 hold keys",
       [](const Case& c, const attn_plan& p) { return splits_that_hold_keys(c, p) > 8; }},
      {"and more than 64 hold keys",
       [](const Case& c, const attn_plan& p) { return splits_that_hold_keys(c, p) > 64; }},
  };
  return all;
}

namespace {

// For each field the index of its first range in the whole table; the last element is the size of the table.
const std::vector<size_t>& firsts() {
  static const std::vector<size_t> all = [] {
    std::vector<size_t> first = {0};
    for (const CensusField& field : census_fields()) first.push_back(first.back() + field.ranges.size());
    return first;
  }();
  return all;
}
size_t table_size() { return firsts().back(); }

struct Missing {
  double expected;  // calls, if the two ranges were independent
  std::string name;
};

std::vector<Missing> missing_pairs(const Census& census) {
  std::vector<Missing> missing;
  const auto& fields = census_fields();
  for (size_t a = 0; a < fields.size(); ++a) {
    for (size_t b = a + 1; b < fields.size(); ++b) {
      for (size_t x = 0; x < fields[a].ranges.size(); ++x) {
        for (size_t y = 0; y < fields[b].ranges.size(); ++y) {
          if (census.count(a, x, b, y) > 0) continue;
          const double expected = static_cast<double>(census.count(a, x)) *
                                  static_cast<double>(census.count(b, y)) /
                                  static_cast<double>(std::max<uint64_t>(census.calls(), 1));
          if (expected <= 0) continue;
          missing.push_back({expected, fields[a].name + " " + fields[a].ranges[x] + " with " + fields[b].name +
                                           " " + fields[b].ranges[y]});
        }
      }
    }
  }
  std::ranges::sort(missing, [](const Missing& a, const Missing& b) {
    return a.expected != b.expected ? a.expected > b.expected : a.name < b.name;
  });
  return missing;
}

}  // namespace

Census::Census() : sorts_(census_sorts().size()), pairs_(table_size() * table_size()) {}

void Census::add(const Case& c, const attn_plan& plan) {
  ++calls_;
  std::vector<size_t> is;
  for (size_t field = 0; field < census_fields().size(); ++field) {
    is.push_back(firsts()[field] + census_fields()[field].of(c, plan));
    for (const size_t before : is) ++pairs_[before * table_size() + is.back()];
  }
  for (size_t n = 0; n < sorts_.size(); ++n) sorts_[n] += census_sorts()[n].is(c, plan);
}

void Census::merge(const Census& other) {
  calls_ += other.calls_;
  for (size_t n = 0; n < sorts_.size(); ++n) sorts_[n] += other.sorts_[n];
  for (size_t n = 0; n < pairs_.size(); ++n) pairs_[n] += other.pairs_[n];
}

uint64_t Census::count(size_t field, size_t range) const {
  const size_t at = firsts()[field] + range;
  return pairs_[at * table_size() + at];
}

uint64_t Census::count(size_t field_a, size_t range_a, size_t field_b, size_t range_b) const {
  if (field_a > field_b) return count(field_b, range_b, field_a, range_a);
  return pairs_[(firsts()[field_a] + range_a) * table_size() + firsts()[field_b] + range_b];
}

std::string Census::bytes() const {
  std::string bytes(reinterpret_cast<const char*>(&calls_), sizeof calls_);
  bytes.append(reinterpret_cast<const char*>(sorts_.data()), sorts_.size() * sizeof sorts_[0]);
  return bytes.append(reinterpret_cast<const char*>(pairs_.data()), pairs_.size() * sizeof pairs_[0]);
}

Census Census::of_bytes(const std::string& bytes) {
  Census census;
  const size_t sorts = census.sorts_.size() * sizeof census.sorts_[0],
               pairs = census.pairs_.size() * sizeof census.pairs_[0];
  if (bytes.size() != sizeof census.calls_ + sorts + pairs)
    throw std::runtime_error("a census of another table of fields");
  const char* at = bytes.data();
  std::memcpy(&census.calls_, at, sizeof census.calls_);
  std::memcpy(census.sorts_.data(), at += sizeof census.calls_, sorts);
  std::memcpy(census.pairs_.data(), at + sorts, pairs);
  return census;
}

int64_t splits_that_hold_keys(const Case& c, const attn_plan& plan) {
  return std::min<int64_t>(census::splits_with_tiles(c, plan), std::max<int64_t>(plan.num_splits, 0));
}

std::string text(const Census& census) {
  std::string text = "census of " + std::to_string(census.calls()) + " calls of the kernel\n";
  char line[160];
  for (size_t n = 0; n < census_sorts().size(); ++n) {
    std::snprintf(line, sizeof line, "  %-36s %8llu\n", census_sorts()[n].name,
                  static_cast<unsigned long long>(census.sort(n)));
    text += line;
  }
  for (size_t field = 0; field < census_fields().size(); ++field) {
    const CensusField& of = census_fields()[field];
    std::string row = "  " + of.name + ":";
    for (size_t range = 0; range < of.ranges.size(); ++range) {
      const std::string item = " " + of.ranges[range] + " = " + std::to_string(census.count(field, range)) +
                               (range + 1 < of.ranges.size() ? ";" : "");
      if (row.size() + item.size() > 100) {
        text += row + "\n";
        row = "     ";
      }
      row += item;
    }
    text += row + "\n";
  }
  constexpr size_t kNamedPairs = 20;
  const std::vector<Missing> missing = missing_pairs(census);
  text +=
      "  pairs of values that were met one by one and never together: " + std::to_string(missing.size()) + "\n";
  for (size_t n = 0; n < missing.size() && n < kNamedPairs; ++n) text += "    " + missing[n].name + "\n";
  return text;
}

void to_json(Json& j, const Census& census) {
  const auto& fields = census_fields();
  j = {{"calls", census.calls()}};
  for (size_t n = 0; n < census_sorts().size(); ++n) j["sorts"][census_sorts()[n].name] = census.sort(n);
  for (size_t a = 0; a < fields.size(); ++a) {
    for (size_t x = 0; x < fields[a].ranges.size(); ++x)
      j["fields"][fields[a].name][fields[a].ranges[x]] = census.count(a, x);
    for (size_t b = a + 1; b < fields.size(); ++b) {
      Json& rows = j["pairs"][fields[a].name + " x " + fields[b].name] = Json::array();
      for (size_t x = 0; x < fields[a].ranges.size(); ++x) {
        Json row = Json::array();
        for (size_t y = 0; y < fields[b].ranges.size(); ++y) row.push_back(census.count(a, x, b, y));
        rows.push_back(std::move(row));
      }
    }
  }
}

}  // namespace attnfuzz
