#include "properties/explain/probe_case.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "properties/case/words.h"
#include "properties/judge/execution.h"

namespace attnfuzz {
namespace {

// The most that the search for the block may cost.
constexpr int kMostRuns = 600;
constexpr double kMostSeconds = 10;

int64_t tiles(int64_t size, int64_t tile) { return tile > 0 ? (size + tile - 1) / tile : 0; }

class Prober {
 public:
  Prober(const Case& c, Target& target) : c_(c), target_(target), run_(c, target) {}
  ~Prober() { target_.probe(std::nullopt); }

  std::string why_not() const { return run_.why_not(); }

  // Makes all calls, or those up to the first with a wrong intermediate.
  ProbedCase probe(const ProbeRequest& at) {
    ProbedCase result;
    result.plan = run_.plan;
    result.at = at;
    target_.probe(at);
    for (size_t n = 0; n < c_.calls.size(); ++n) {
      const RunReply reply = run_.run(c_.calls[n]);
      result.call = static_cast<int>(n);
      result.ended = failure(reply);
      if (!reply.probe) {
        result.why_not = result.ended.empty() ? "this target does not support probes" : result.ended;
        return result;
      }
      result.warp = read_probe(reply.probe->values, reply.probe->used);
      result.checked = check_probe(c_, run_.plan, result.warp);
      if (result.checked.first_wrong || !result.ended.empty()) break;
    }
    return result;
  }

  // Blocks and warps that may have the query, the likely ones first.
  std::vector<ProbeRequest> places(const ProbedQuery& query) const {
    const Problem& p = c_.problem;
    const int64_t q_tiles = std::max<int64_t>(tiles(p.seq_q, run_.plan.tile_q), 1),
                  tile = query.i / run_.plan.tile_q,
                  head = RowSpace(p.batch, p.heads_q, 1).of(query.b, query.h, 0);
    const int64_t blocks = q_tiles * p.heads_q * p.batch * std::max<int64_t>(run_.plan.num_splits, 1);
    std::vector<std::array<int64_t, 3>> grid = {{head * q_tiles + q_tiles - 1 - tile, 0, 0},
                                                {head * q_tiles + tile, 0, 0},
                                                {tile, query.h, query.b},
                                                {tile, head, 0},
                                                {head, tile, 0},
                                                {query.h, query.b, tile},
                                                {query.b, query.h, tile}};
    for (int64_t block = 0; block < std::min<int64_t>(blocks, kMostRuns); ++block)
      grid.push_back({block, 0, 0});
    const int64_t warps = std::clamp<int64_t>(tiles(run_.plan.tile_q, kProbedRows), 1, 32);
    const int64_t likely = query.i % run_.plan.tile_q / kProbedRows;
    std::vector<ProbeRequest> all;
    const auto add = [&](const std::array<int64_t, 3>& block, int64_t warp) {
      ProbeRequest at;
      for (size_t axis = 0; axis < 3; ++axis) at.block[axis] = static_cast<uint32_t>(block[axis]);
      at.warp = static_cast<uint32_t>(warp);
      const auto same = [&](const ProbeRequest& x) { return x.block == at.block && x.warp == at.warp; };
      if (std::ranges::none_of(all, same)) all.push_back(at);
    };
    for (const auto& block : grid) add(block, likely);
    // If heads share a tile, a query's row does not follow from its number.
    for (int64_t warp = 0; warp < warps; ++warp) {
      for (const auto& block : grid) add(block, warp);
    }
    if (all.size() > kMostRuns) all.resize(kMostRuns);
    return all;
  }

 private:
  const Case& c_;
  Target& target_;
  Execution run_;
};

bool has(const ProbedWarp& warp, const ProbedQuery& query) {
  return warp.rows && std::ranges::any_of(*warp.rows, [&](const ProbedQuery& q) {
           return q.b == query.b && q.h == query.h && q.i == query.i;
         });
}

bool recorded(const ProbedWarp& warp) { return warp.rows || !warp.tiles.empty() || !warp.notes.empty(); }

constexpr const char* kNothing =
    "nothing was recorded: the kernel records no probes, or that block and warp does not exist or sees no key";

}  // namespace

ProbedCase probe_case(const Case& c, Target& target, const std::optional<ProbeRequest>& at,
                      const std::optional<Where>& where) {
  Prober prober(c, target);
  ProbedCase result;
  result.why_not = prober.why_not();
  if (!result.why_not.empty()) return result;
  if (at) {
    result = prober.probe(*at);
    if (result.why_not.empty() && !recorded(result.warp)) result.why_not = kNothing;
    return result;
  }
  ProbedQuery query{0, 0, 0};
  if (where) query = {where->b, where->h, where->q};
  const auto start = std::chrono::steady_clock::now();
  std::optional<ProbedCase> first, any;
  for (const ProbeRequest& place : prober.places(query)) {
    result = prober.probe(place);
    if (!result.why_not.empty()) return result;
    if (recorded(result.warp) && !any) any = result;
    if (has(result.warp, query)) {
      if (!first) first = result;
      if (result.checked.first_wrong) return result;
      if (result.plan.num_splits <= 1) break;
    }
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > kMostSeconds) break;
  }
  if (first) return *first;
  if (any) {
    any->warp.notes.push_back(
        cat("no block was found that has (b=", query.b, ",h=", query.h, ",q=", query.i,
            "): this is the first that records anything; say which with --probe BLOCK,WARP"));
    return *any;
  }
  result.why_not = kNothing;
  return result;
}

}  // namespace attnfuzz
