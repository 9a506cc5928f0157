#include "properties/explain/fault_evidence.h"

#include <algorithm>
#include <cstdlib>

#include "properties/data/tiles.h"

namespace attnfuzz {
namespace {

constexpr int64_t kMostPairs = int64_t{1} << 20;  // for a look at tiles

}  // namespace

bool mentions(std::string_view text, std::string_view what) { return text.find(what) != text.npos; }

std::string_view subject(const std::string& need) {
  return std::string_view(need).substr(std::min<size_t>(6, need.size()));
}

int64_t number_in(const std::string& need) {
  const size_t at = need.find("= ");
  return at == need.npos ? 0 : std::strtoll(need.c_str() + at + 2, nullptr, 10);
}

FaultEvidence::FaultEvidence(const Case& c, const Verdict& verdict, std::span<const std::string> needs,
                             std::string_view lane)
    : needs(needs), lane(lane), c_(c), p_(c.problem), v_(verdict) {
  if (verdict.plan.tile_q > 0) tile_q = verdict.plan.tile_q;
  if (verdict.plan.tile_k > 0) tile_k = verdict.plan.tile_k;
  look_at_tiles();
}

void FaultEvidence::look_at_tiles() {
  if (p_.seq_k < 1) dead_row = p_.seq_q > 0;
  if (p_.batch < 1 || p_.seq_q < 1 || p_.seq_k < 1 || p_.seq_q > kMostPairs / p_.seq_k) return;
  const int64_t b = v_.where ? std::clamp<int64_t>(v_.where->b, 0, p_.batch - 1) : 0;
  const int64_t h = v_.where ? std::clamp<int64_t>(v_.where->h, 0, p_.heads_q - 1) : 0;
  const VisibilityCache visible(c_, b, h);
  const TileMap map = tile_map(c_, visible, tile_q, tile_k);
  for (const TileState state : map.states) {
    tile_unseen |= state == TileState::kRowDead || state == TileState::kDead;
  }
  const int64_t row = v_.where ? std::clamp<int64_t>(v_.where->q, 0, p_.seq_q - 1) : 0;
  bool any = false;
  for (int64_t j = 0; j < p_.seq_k && !any; ++j) any = visible(row, j);
  dead_row = !any;
}

double FaultEvidence::weight(bool present, std::initializer_list<std::string_view> names) const {
  for (const std::string& need : needs) {
    for (const std::string_view name : names) {
      // "needs batch other than 3": most values do, so it is not what the failure is about.
      if (subject(need).starts_with(name) && !mentions(need, " other than ")) return 1;
    }
  }
  return present && needs.empty() ? 0.5 : 0;
}

bool FaultEvidence::needed(std::string_view what) const {
  return std::ranges::any_of(needs, [&](const std::string& need) { return subject(need).starts_with(what); });
}

bool FaultEvidence::zero_matters() const {
  if (shortest() != 0) return false;
  if (needs.empty()) return true;
  return needed("seq_k = 0") || needed("seq_q = 0") || needed("batch = 0") ||
         needed("the longest key length = 0") || (needed("key lengths") && p_.seq_k > 0);
}

int64_t FaultEvidence::shortest() const {
  int64_t least = std::min(p_.seq_q, p_.seq_k);
  if (p_.key_lengths) {
    for (const int64_t length : *p_.key_lengths) least = std::min(least, std::max<int64_t>(length, 0));
  }
  return std::min(least, p_.batch);
}

bool FaultEvidence::scores_matter() const {
  const auto random = [](const Fill& f) { return f.kind >= FillKind::kOneHot; };
  return weight(false, {"values of k", "values of q"}) > 0 && (random(c_.k) || random(c_.q));
}

bool FaultEvidence::large_values() const {
  for (const auto& [fill, name] :
       {std::pair{&c_.q, "values of q"}, {&c_.k, "values of k"}, {&c_.v, "values of v"}}) {
    const bool extreme =
        fill->kind == FillKind::kHuge || fill->kind == FillKind::kSubnormal || std::abs(fill->exponent) >= 4;
    if (extreme) return true;
    for (const std::string& need : needs) {
      if (mentions(need, name) && mentions(need, "huge")) return true;
    }
  }
  return false;
}

double FaultEvidence::largest_offset() const {
  const auto product = [](auto... n) { return (static_cast<double>(n) * ...); };
  double most = 0;
  for (const TensorLayout& l : c_.layout)
    most = std::max(most, product(l.spread, std::max<int64_t>(p_.batch, 2) - 1));
  const double rows = product(p_.batch, p_.heads_q, p_.seq_q);
  most = std::max(most, product(rows, std::max(p_.dim_qk, p_.dim_v)));
  if (p_.mask || p_.bias) most = std::max(most, product(rows, p_.seq_k));
  return most;
}

}  // namespace attnfuzz
