#include "fuzz/check/key_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "properties/case/case.h"
#include "properties/case/features/domain.h"
#include "properties/case/words.h"
#include "properties/judge/execution.h"
#include "reference/numbers/formats.h"

namespace attnfuzz {
namespace {

// Borders are looked for near these keys, counted back from the last key or forward from the first. The
// distances are irregular, so that hardly two of the keys have the same position in their tiles.
constexpr int64_t kPlaces[] = {0, 71, 150, 233, 322};
constexpr size_t kFewestBorders = 3;

class Experiment {
 public:
  explicit Experiment(Execution& e) : e_(e), p_(e.c.problem) {
    const double score = 20.5;
    const auto root = static_cast<float>(std::sqrt(score / static_cast<double>(std::abs(p_.scale))));
    peak_ = p_.scale < 0 ? -root : root;
    put(e_.laid.tensors().q, p_.seq_q - 1, 0, root);
  }

  // The border between tiles that lies nearest to key `at`, before it (step -1) or behind it (1), if one is
  // seen.
  std::optional<int64_t> border(int64_t at, int64_t step) {
    const attn_tensors& t = e_.laid.tensors();
    put(t.k, at, 0, peak_);
    for (int64_t c = 0; c < p_.dim_v; ++c) put(t.v, at + step * (1 + c), c, 60000);
    const RunReply reply = e_.run(Call{});
    const Outputs outputs = e_.outputs();
    put(t.k, at, 0, 0);
    for (int64_t c = 0; c < p_.dim_v; ++c) put(t.v, at + step * (1 + c), c, 0);
    broken_ = failure(reply);
    if (!ended_well()) return std::nullopt;
    const std::vector<float>& o = outputs[e_.operation.main()];
    const auto last = o.end() - p_.dim_v;
    const auto seen = std::find_if(last, o.end(), [](float x) { return x != 0; });
    // If a key lies in an earlier tile, so do all keys further away.
    if (seen == o.end() || std::find(seen, o.end(), 0.0f) != o.end()) return std::nullopt;
    const int64_t first = seen - last;
    return step < 0 ? at - first : at + 1 + first;
  }
  bool ended_well() const { return broken_.empty(); }
  const std::string& broken() const { return broken_; }

 private:
  void put(const attn_tensor& tensor, int64_t row, int64_t column, float value) {
    const uint16_t bits = encode16(ATTN_F16, value);
    std::memcpy(static_cast<std::byte*>(tensor.data) + 2 * (row * tensor.stride[2] + column * tensor.stride[3]),
                &bits, sizeof bits);
  }

  Execution& e_;
  const Problem& p_;
  float peak_ = 0;
  std::string broken_;
};

// The greatest common divisor of all borders; 0 if too few are seen.
int64_t common_tile(Experiment& experiment, const Problem& p, int64_t step) {
  std::vector<int64_t> borders;
  for (const int64_t place : kPlaces) {
    const int64_t at = step < 0 ? p.seq_k - 1 - place : place, furthest = at + step * p.dim_v;
    if (furthest < 0 || furthest >= p.seq_k) continue;
    if (const auto border = experiment.border(at, step)) borders.push_back(*border);
    if (!experiment.ended_well()) return 0;
  }
  if (borders.size() < kFewestBorders) return 0;
  return std::accumulate(borders.begin(), borders.end(), int64_t{0}, std::gcd<int64_t, int64_t>);
}

}  // namespace

KeyTiles show_key_tiles(Target& target, const std::optional<attn_domain>& domain) {
  Case c;
  Problem& p = c.problem;
  p.dtype = ATTN_F16;
  p.batch = p.heads_q = p.heads_kv = p.seq_q = 1;
  p.seq_k = 600;
  p.dim_qk = p.dim_v = 128;
  p.scale = 1;
  p.num_splits = 1;
  c.env.variant = target.info().variants.empty() ? 0 : 1;
  c.q = c.k = c.v = Fill{.kind = FillKind::kZero};
  if (domain) fit(*domain, c);
  // If lengths must be equal, many keys mean many queries, which is slow. 300 keys suffice then.
  if (p.seq_q > 16) p.seq_k = 300, fit(*domain, c);
  KeyTiles tiles;
  tiles.sizes = cat("seq_q=", p.seq_q, " seq_k=", p.seq_k, " dim_qk=", p.dim_qk, " dim_v=", p.dim_v);
  if (const auto why = illegal(c)) return (tiles.refusal = *why, tiles);
  Execution e(c, target);
  if (const std::string why = e.why_not(); !why.empty()) {
    const bool broken = e.planned.crash || e.planned.timed_out || e.planned.bad_plan;
    (broken ? tiles.broken : tiles.refusal) = why;
    return tiles;
  }
  tiles.queries = e.plan.tile_q, tiles.keys = e.plan.tile_k;
  const bool all_seen =
      !e.c.problem.causal || e.c.problem.align == ATTN_BOTTOM_RIGHT || e.c.problem.seq_q >= e.c.problem.seq_k;
  const bool one_row = e.c.problem.batch == 1 && e.c.problem.heads_q == 1;
  if (e.c.problem.dtype != ATTN_F16 || e.c.problem.scale == 0 || e.plan.num_splits > 1 || !all_seen || !one_row)
    return tiles;
  Experiment experiment(e);
  const int64_t ascending = common_tile(experiment, e.c.problem, -1);
  const int64_t descending = experiment.ended_well() ? common_tile(experiment, e.c.problem, 1) : 0;
  tiles.broken = experiment.broken();
  // If borders appear in both directions, every key is left, so the kernel does not round P to
  // fp16.
  if (tiles.broken.empty() && (ascending == 0) != (descending == 0)) tiles.shown = ascending + descending;
  return tiles;
}

std::string words(const KeyTiles& tiles) {
  if (!tiles.broken.empty()) return "tiles: asked for them by a simple case, " + tiles.broken;
  if (tiles.keys <= 0)
    return "tiles: as plan() says for each case, believed: there is none for a simple one (" + tiles.refusal +
           ")";
  const std::string said = "tiles: " + std::to_string(tiles.queries) + " queries and " +
                           std::to_string(tiles.keys) + " keys by plan()";
  if (tiles.contradicted())
    return said + "; WRONG of the keys: its output changes at multiples of " + std::to_string(tiles.shown) +
           ", and cases are aimed at the borders that plan() names: correct plan()";
  if (tiles.shown > 0) return said + "; its output confirms the keys, the queries are not checked";
  return said + ", believed: its output does not show them";
}

}  // namespace attnfuzz
