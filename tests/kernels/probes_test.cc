// Compares the probe records of the fast paths in each tile with values computed from the call: the rows of a
// warp, their scores, maxima, factors, probabilities and accumulators. tests/properties/explain tests how
// explain uses them.
#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "tests/kernels/call.h"

namespace attnfuzz {
namespace {

class Probes : public OfKernel {};

constexpr int kColumns = 16, kTileKeys = 64;  // columns of the problem; keys of a tile
constexpr double kLog2e = 1.4426950408889634;

// The records of 16 rows, by tag and tile, row and column.
struct Records {
  std::map<int, std::array<double, 3>> rows;
  std::map<std::pair<int, int>, std::map<std::pair<int, int>, double>> values;
  bool twice = false;

  explicit Records(const std::vector<float>& from, uint64_t used) {
    for (uint64_t at = 0; at < used;) {
      const int tag = static_cast<int>(from[at]), tile = static_cast<int>(from[at + 1]);
      const int lane = static_cast<int>(from[at + 2]), count = static_cast<int>(from[at + 3]);
      const float* value = &from[at + 4];
      for (int i = 0; i < count; ++i) {
        if (tag == ATTN_PROBE_ROWS) {
          rows[lane / 4 + 8 * (i / 3)][i % 3] = value[i];
          continue;
        }
        const bool of_row = tag == ATTN_PROBE_ROW_MAX || tag == ATTN_PROBE_SCALE;  // else a fragment
        const std::pair place =
            of_row ? std::pair{lane / 4 + 8 * i, lane % 4}
                   : std::pair{lane / 4 + 8 * (i % 4 / 2), 8 * (i / 4) + 2 * (lane % 4) + i % 2};
        twice |= !values[{tag, tile}].emplace(place, value[i]).second;
      }
      at += 4 + count;
    }
  }
};

// Compares the records of a row, query (b, h, i), with the call. `seen` says whether the query may see a key.
void hold_row(const Call& call, Records& told, int row, const Index& query,
              const std::function<bool(int64_t)>& seen) {
  const auto [b, h, i, unused] = query;
  const attn_problem& p = call.problem;
  const int64_t kv = h / (p.heads_q / p.heads_kv);
  const bool scored = p.bias_dtype != ATTN_NONE;
  const double sigma = scored ? 1 : p.scale * kLog2e;
  std::vector<int> tiles;  // in the order of the walk
  for (const auto& [key, values] : told.values)
    if (key.first == ATTN_PROBE_O) tiles.push_back(key.second);
  if (call.plan.key_order == ATTN_KEYS_DESCENDING) std::ranges::reverse(tiles);
  double mu = -INFINITY, sum = 0;
  std::array<double, kColumns> acc = {};
  for (int t : tiles) {
    SCOPED_TRACE("tile " + std::to_string(t));
    const auto of = [&](attn_probe_tag tag, int column) {
      const auto& values = told.values[{tag, t}];
      const auto found = values.find({row, column});
      return found == values.end() ? NAN : found->second;
    };
    const double next = of(ATTN_PROBE_ROW_MAX, 0), alpha = of(ATTN_PROBE_SCALE, 0);
    for (int lane = 1; lane < 4; ++lane) {
      EXPECT_EQ(of(ATTN_PROBE_ROW_MAX, lane), next);
      EXPECT_EQ(of(ATTN_PROBE_SCALE, lane), alpha);
    }
    if (mu != -INFINITY) EXPECT_NEAR(alpha, std::exp2(mu - next), 1e-5);
    for (double& a : acc) a *= mu == -INFINITY ? 0 : alpha;
    sum *= mu == -INFINITY ? 0 : alpha;
    mu = next;
    for (int c = 0; c < kTileKeys; ++c) {
      const int64_t j = int64_t{t} * kTileKeys + c;
      double score = -INFINITY;
      if (seen(j)) {
        score = 0;
        for (int d = 0; d < kColumns; ++d) score += call.q.get({b, h, i, d}) * call.k.get({b, kv, j, d});
        if (scored) score = (score * p.scale + call.bias.get({b, h, i, j})) * kLog2e;
      }
      const double told_score = of(ATTN_PROBE_S, c), weight = of(ATTN_PROBE_P, c);
      if (score == -INFINITY) {
        EXPECT_EQ(told_score, score);
      } else {
        EXPECT_NEAR(told_score, score, 1e-4 * (1 + std::fabs(score)));
      }
      if (mu == -INFINITY) continue;
      EXPECT_NEAR(weight, std::exp2(told_score * sigma - mu), 1e-5);
      sum += weight;
      for (int d = 0; d < kColumns && seen(j); ++d) acc[d] += weight * call.v.get({b, kv, j, d});
    }
    for (int d = 0; d < kColumns; ++d) EXPECT_NEAR(of(ATTN_PROBE_O, d), acc[d], 2e-3 * (1 + sum));
  }
  if (mu == -INFINITY) return;
  EXPECT_NEAR(call.lse.get({b, h, i, 0}), (mu + std::log2(sum)) / kLog2e, 1e-4);
  for (int d = 0; d < kColumns; ++d) EXPECT_NEAR(call.o.get({b, h, i, d}), acc[d] / sum, 4e-3);
}

TEST_P(Probes, RecordTheComputedValues) {
  const bool decode = GetParam() == "splitkh";
  for (int which = 0; which < 3; ++which) {
    attn_problem p = square(decode ? 11 : which == 1 ? 150 : 40, kColumns);
    p.batch = which == 1 ? 1 : 2, p.heads_q = decode ? 4 : which == 2 ? 1 : 2, p.heads_kv = decode ? 2 : 1;
    p.seq_k = 150;
    p.causal = which == 1;
    p.align = ATTN_BOTTOM_RIGHT;
    p.bias_dtype = which == 2 ? ATTN_F16 : ATTN_NONE;
    p.num_splits = 1;
    Call call(p);
    std::vector<float> values(1 << 16);
    const size_t all = static_cast<size_t>(p.batch * p.heads_q * p.seq_q);
    std::set<std::array<double, 3>> rows;
    for (uint32_t block = 0; block < 8 && rows.size() < all; ++block) {
      for (uint32_t warp = 0; warp < 8 && rows.size() < all; ++warp) {
        SCOPED_TRACE("problem " + std::to_string(which) + ", block " + std::to_string(block) + ", warp " +
                     std::to_string(warp));
        unsigned long long used = 0;
        attn_probe probe = {sizeof probe, {block, 0, 0}, warp, 0, values.data(), values.size(), &used};
        call.env.probe = &probe;
        call.env.schedule_seed = block + warp;
        holds(call);
        ASSERT_NE(std::string(call.plan.path).find("mma"), std::string::npos) << call.plan.path;
        ASSERT_LE(used, values.size());
        Records told(values, used);
        EXPECT_FALSE(told.twice);
        for (const auto& [row, place] : told.rows) {
          if (place[2] < 0) continue;
          EXPECT_TRUE(rows.insert(place).second) << "a row is recorded twice";
          if (row % 3 != static_cast<int>(block + warp) % 3)
            continue;  // checks a third of the rows, at all places
          const Index query = {static_cast<int64_t>(place[0]), static_cast<int64_t>(place[1]),
                               static_cast<int64_t>(place[2]), 0};
          SCOPED_TRACE("query " + testing::PrintToString(query));
          hold_row(call, told, row, query, [&](int64_t j) {
            return j < p.seq_k && (p.causal == 0 || j <= query[2] + p.seq_k - p.seq_q);
          });
        }
      }
    }
    EXPECT_EQ(rows.size(), all) << "some rows are recorded by no block";
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, Probes, testing::Values("fa1a", "fa1h", "splitkh"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace attnfuzz
