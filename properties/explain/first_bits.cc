#include "properties/explain/first_bits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <optional>

#include "properties/case/words.h"
#include "properties/explain/probe_case.h"
#include "properties/judge/target/peer.h"

namespace attnfuzz {
namespace {

constexpr uint32_t kMostBlocks = 128;  // blocks of one query: its splits

// A number that both builds recorded, with different bits.
struct Parting {
  attn_probe_tag tag;
  int64_t tile;
  int row;         // of the warp
  int64_t column;  // of the tile; for O: of V
  float here, there;
};

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

std::string hex(float x) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%08x", std::bit_cast<uint32_t>(x));
  return text;
}

class Comparison {
 public:
  Comparison(const ProbedWarp& here, const ProbedWarp& there) : here_(here), there_(there) {}

  std::optional<Parting> first(bool descending) const {
    std::vector<const ProbedTile*> order;
    for (const ProbedTile& tile : here_.tiles) order.push_back(&tile);
    if (descending) std::ranges::reverse(order);
    for (const ProbedTile* tile : order) {
      const auto other = std::ranges::find(there_.tiles, tile->tile, &ProbedTile::tile);
      if (other == there_.tiles.end()) continue;
      if (auto parting = of_tile(*tile, *other)) return parting;
    }
    return std::nullopt;
  }

 private:
  bool live(int row) const { return !here_.rows || (*here_.rows)[static_cast<size_t>(row)].i >= 0; }

  std::optional<Parting> matrix(attn_probe_tag tag, int64_t tile, const ProbedMatrix& a,
                                const ProbedMatrix& b) const {
    if (a.columns != b.columns) return std::nullopt;
    for (int row = 0; row < kProbedRows; ++row) {
      for (int64_t column = 0; live(row) && column < a.columns; ++column) {
        if (!same(a.at(row, column), b.at(row, column)))
          return Parting{tag, tile, row, column, a.at(row, column), b.at(row, column)};
      }
    }
    return std::nullopt;
  }

  template <class Rows>
  std::optional<Parting> rows(attn_probe_tag tag, int64_t tile, const Rows& a, const Rows& b) const {
    for (int row = 0; a && b && row < kProbedRows; ++row) {
      const auto at = static_cast<size_t>(row);
      if (live(row) && !same((*a)[at], (*b)[at])) return Parting{tag, tile, row, 0, (*a)[at], (*b)[at]};
    }
    return std::nullopt;
  }

  std::optional<Parting> of_tile(const ProbedTile& a, const ProbedTile& b) const {
    auto parting = matrix(ATTN_PROBE_S, a.tile, a.s, b.s);
    if (!parting) parting = rows(ATTN_PROBE_ROW_MAX, a.tile, a.row_max, b.row_max);
    if (!parting) parting = rows(ATTN_PROBE_SCALE, a.tile, a.scale, b.scale);
    if (!parting) parting = matrix(ATTN_PROBE_P, a.tile, a.p, b.p);
    if (!parting) parting = matrix(ATTN_PROBE_O, a.tile, a.o, b.o);
    return parting;
  }

  const ProbedWarp &here_, &there_;
};

std::string words_of(const Parting& p, const ProbedCase& probed) {
  std::string text = cat("first in ", to_string(p.tag), " of tile ", p.tile);
  if (probed.warp.rows) {
    const ProbedQuery& q = (*probed.warp.rows)[static_cast<size_t>(p.row)];
    text += cat(" at (b=", q.b, ",h=", q.h, ",q=", q.i, ")");
  }
  if (p.tag == ATTN_PROBE_S || p.tag == ATTN_PROBE_P)
    text += cat(", key ", p.tile * probed.plan.tile_k + p.column);
  if (p.tag == ATTN_PROBE_O) text += cat(", column ", p.column);
  // The lane that holds this element in a fragment of mma.m16n8k16 (attention.h). Four lanes hold a number of a
  // row; this is the first of them.
  const int64_t lane = p.row % 8 * 4 + p.column % 8 / 2;
  const auto& at = probed.at;
  return text + ": " + hex(p.here) + ", of the peer build " + hex(p.there) +
         cat("; block (", at.block[0], ",", at.block[1], ",", at.block[2], "), warp ", at.warp, ", lane ",
             lane);
}

bool has(const ProbedWarp& warp, const Where& where) {
  return warp.rows && std::ranges::any_of(*warp.rows, [&](const ProbedQuery& q) {
           return q.b == where.b && q.h == where.h && q.i == where.q;
         });
}

}  // namespace

std::string first_bits(const Case& c, Target& target, const Verdict& verdict) {
  Target* const peer = target.peer ? target.peer->get() : nullptr;
  if (verdict.kind != Kind::kBits || !peer || !verdict.where) return "";
  const Where& where = *verdict.where;
  const Case there = case_of_peer(c, target.info(), peer->info());
  ProbedCase probed = probe_case(c, target, std::nullopt, where);
  if (!probed.why_not.empty()) return "where it begins is not known: " + probed.why_not;
  if (!has(probed.warp, where))
    return "where it begins is not known: no block was found that records anything of that query";
  const bool descending = probed.plan.key_order == ATTN_KEYS_DESCENDING;
  bool compared = false;
  const auto parting = [&](const ProbedCase& here) {
    const ProbedCase other = probe_case(there, *peer, here.at, std::nullopt);
    std::optional<Parting> found;
    if (!other.why_not.empty()) return found;
    compared = true;
    return Comparison(here.warp, other.warp).first(descending);
  };
  if (const auto found = parting(probed)) return words_of(*found, probed);
  // The other splits of the query.
  ProbeRequest at = probed.at;
  const uint32_t first = at.block[0];
  int64_t left = probed.plan.num_splits - 1;
  for (uint32_t block = 0; left > 0 && block < kMostBlocks; ++block) {
    at.block[0] = block;
    if (block == first) continue;
    const ProbedCase here = probe_case(c, target, at, std::nullopt);
    if (!here.why_not.empty() || !has(here.warp, where)) continue;
    --left;
    if (const auto found = parting(here)) return words_of(*found, here);
  }
  if (!compared) return "where it begins is not known: the peer build records nothing";
  return "all that is recorded of its S, row maxima, P and O is the same: a later step differs, the division "
         "by the row sum, the LSE, a merge or the store";
}

void tell_first_bits(const Case& c, Target& target, Verdict& verdict) {
  const std::string words = first_bits(c, target, verdict);
  // A verdict that the reducer could not simplify may have the words already.
  if (!words.empty() && verdict.message.find(words) == std::string::npos) verdict.message += "; " + words;
}

}  // namespace attnfuzz
