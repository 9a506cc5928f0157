// Compares the output of explain() with the definition of the masks.
#include "properties/explain/explain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <tuple>

#include "properties/data/recipe.h"
#include "properties/data/tiles.h"
#include "properties/explain/picture.h"
#include "properties/explain/svg.h"
#include "properties/reduce/reproducer.h"
#include "tests/properties/support/flat_reference.h"
#include "tests/properties/support/random_case.h"

namespace attnfuzz {
namespace {

attn_plan plan_of(int64_t tile_q, int64_t tile_k) {
  attn_plan plan = {};
  plan.tile_q = tile_q;
  plan.tile_k = tile_k;
  plan.num_splits = 1;
  return plan;
}

bool says(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

int characters(const std::string& line) {
  return static_cast<int>(std::ranges::count_if(line, [](char ch) { return (ch & 0xc0) != 0x80; }));
}

Case causal(int64_t seq_q, int64_t seq_k, int32_t align = ATTN_TOP_LEFT) {
  Case c;
  c.problem.seq_q = seq_q;
  c.problem.seq_k = seq_k;
  c.problem.causal = true;
  c.problem.align = align;
  return c;
}

TEST(Explain, CausalAcrossATileBorder) {
  const std::string text = explain(causal(65, 65), plan_of(64, 64), nullptr, nullptr, {.ascii = true});
  EXPECT_TRUE(says(text, "causal (top-left)")) << text;
  EXPECT_TRUE(says(text, "dead rows  none")) << text;
  EXPECT_TRUE(says(text, "query tile 0: fully masked KV tiles 1")) << text;
  EXPECT_FALSE(says(text, "query tile 1:")) << text;
}

TEST(Explain, DeadRowsOfBottomRight) {
  const std::string text =
      explain(causal(70, 60, ATTN_BOTTOM_RIGHT), plan_of(64, 64), nullptr, nullptr, {.ascii = true});
  EXPECT_TRUE(says(text, "dead rows  10: 0..9")) << text;
  EXPECT_TRUE(says(text, "query i stands at key i - 10")) << text;
  EXPECT_TRUE(says(text, "fully masked for some queries 0")) << text;
}

TEST(Explain, SmallMaskIsDrawnExactly) {
  const std::string text = explain(causal(3, 3), plan_of(2, 2), nullptr, nullptr, {.ascii = true});
  EXPECT_TRUE(says(text,
                   "     0  #.|.\n"
                   "     1  ##|.\n"
                   "        --+-\n"
                   "     2  ##|#\n"))
      << text;
}

TEST(Explain, NothingToDraw) {
  Case c;
  c.problem.seq_k = 0;
  EXPECT_TRUE(says(explain(c, plan_of(64, 64), nullptr, nullptr), "there is no key"));
  c.problem.seq_q = 0;
  EXPECT_TRUE(says(explain(c, plan_of(64, 64), nullptr, nullptr), "there is no query"));
  EXPECT_FALSE(explain(c, attn_plan{}, nullptr, nullptr).empty());
}

// In these operations no query sees keys, so there are no dead rows, masks, scales or key tiles.
TEST(Explain, SaysNothingAboutKeysInOtherOperations) {
  for (const uint64_t operation : {ATTN_FEATURE_NSA_COMPRESS, ATTN_FEATURE_NSA_COMBINE, ATTN_FEATURE_MERGE}) {
    Case c;
    c.problem.features = operation;
    c.problem.seq_q = 3, c.problem.seq_k = operation == ATTN_FEATURE_NSA_COMPRESS ? 9 : 0;
    const std::string text = explain(c, plan_of(4, 4), nullptr, nullptr, {.ascii = true});
    for (const char* of_keys :
         {"dead rows", "Visible keys", "query tiles down", "scale ", "queries,", "there is no key"})
      EXPECT_FALSE(says(text, of_keys)) << of_keys << "\n" << text;
    EXPECT_TRUE(says(text, "3 rows")) << text;
  }
  Case choice = causal(4, 4);
  choice.problem.features = ATTN_FEATURE_NSA_SELECT;
  const std::string text = explain(choice, plan_of(4, 4), nullptr, nullptr, {.ascii = true});
  EXPECT_TRUE(says(text, "dead rows  none") && says(text, "Visible keys")) << text;
}

TEST(Explain, ShowsWhereAndHowAResultIsWrong) {
  Case c = causal(130, 130);
  c.problem.heads_q = c.problem.heads_kv = 2;
  c.problem.dim_v = 16;
  const Reference reference = flat_reference(c);
  Outputs outputs;
  std::vector<float>& got = outputs[TensorId::kO];
  got.assign(reference[TensorId::kO].value.size(), 1.0f);
  for (int64_t i = 0; i < 64; ++i) {
    for (int64_t d = 0; d < 16; ++d) {
      got[static_cast<size_t>((130 + i) * 16 + d)] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  const std::string text = explain(c, plan_of(64, 64), &reference, &outputs, {.ascii = true});
  EXPECT_TRUE(says(text, "1024 of 4160 elements")) << text;
  EXPECT_TRUE(says(text, "only head 1, only query tile 0; all NaN")) << text;
  EXPECT_TRUE(says(text, "of batch entry 0, head 1")) << text;
  EXPECT_TRUE(says(text, "!!!!!!!!!!!!!!!!")) << text;
  const std::string right = explain(c, plan_of(64, 64), &reference, nullptr, {.ascii = true});
  EXPECT_FALSE(says(right, "Error of O"));
}

// Scores of blocks are by KV head: the second KV head is wrong, whose first query head is 2.
TEST(Explain, NamesTheKvHeadOfScores) {
  Case c = causal(4, 4);
  Problem& p = c.problem;
  p.features = ATTN_FEATURE_NSA_SCORE;
  p.heads_q = 4, p.heads_kv = 2, p.key_step = 1;
  p.selection = {.block = 2, .select = 1};
  Reference reference;
  reference.rows = 2 * 4;
  reference.state.assign(8, RowState::kBounded);
  reference.outputs.push_back({.tensor = TensorId::kBlockScores,
                               .columns = 2,
                               .value = std::vector<double>(16, 1.0),
                               .bound = std::vector<double>(16, 1e-3),
                               .rule = std::vector<uint8_t>(16, 0)});
  Outputs outputs;
  outputs[TensorId::kBlockScores].assign(16, 1.0f);
  outputs[TensorId::kBlockScores][(4 + 3) * 2 + 1] = 2;
  const std::string text = explain(c, plan_of(4, 4), &reference, &outputs, {.ascii = true});
  EXPECT_TRUE(
      says(text, "Error of BLOCK_SCORES of batch entry 0, KV head 1: queries down, blocks of keys across"))
      << text;
  EXPECT_TRUE(says(text, "Visible keys of batch entry 0, head 2")) << text;
  EXPECT_TRUE(says(text, "by (b,g)   (0,1) 1")) << text;
}

// dQ is right, dK has one NaN, dV is right: dK is drawn with keys down and its KV head, dV is not drawn.
TEST(Explain, DrawsEachGradientThatIsWrong) {
  Case c = causal(65, 70);
  c.problem.features = ATTN_FEATURE_BACKWARD;
  c.problem.heads_q = 4, c.problem.heads_kv = 2;
  c.problem.dim_qk = 3, c.problem.dim_v = 5;
  Reference reference;
  reference.rows = RowSpace(c.problem).count();
  reference.state.assign(static_cast<size_t>(reference.rows), RowState::kBounded);
  Outputs outputs;
  for (const auto& [tensor, rows, columns] :
       {std::tuple{TensorId::kDq, 4 * 65, 3}, std::tuple{TensorId::kDk, 2 * 70, 3},
        std::tuple{TensorId::kDv, 2 * 70, 5}}) {
    const auto elements = static_cast<size_t>(rows * columns);
    reference.outputs.push_back({.tensor = tensor,
                                 .columns = columns,
                                 .value = std::vector<double>(elements, 1.0),
                                 .bound = std::vector<double>(elements, 1e-3),
                                 .rule = std::vector<uint8_t>(elements, 0)});
    outputs[tensor].assign(elements, 1.0f);
  }
  outputs[TensorId::kDk][(70 + 66) * 3 + 1] = std::numeric_limits<float>::quiet_NaN();
  const std::string text = explain(c, plan_of(32, 64), &reference, &outputs, {.ascii = true});
  EXPECT_TRUE(says(text, "Error of DQ of batch entry 0, head 2: queries down, columns of dim_qk across"))
      << text;
  EXPECT_TRUE(says(text, "0 of 780 elements")) << text;
  EXPECT_TRUE(says(text, "Error of DK of batch entry 0, KV head 1: keys down, columns of dim_qk across"))
      << text;
  EXPECT_TRUE(says(text, "1 of 420 elements")) << text;
  EXPECT_TRUE(says(text, "(0,1,66,1): got nan")) << text;
  EXPECT_FALSE(says(text, "Error of DV")) << text;
  const std::string svg = svg_picture(c, plan_of(32, 64), &reference, &outputs);
  EXPECT_TRUE(says(svg, "Error of DK")) << svg;
  EXPECT_TRUE(says(svg, "70 keys down, 3 columns across")) << svg;
}

TEST(Explain, FactsOfAReproducer) {
  Reproducer r;
  r.message = "o(0,0,0,0) is NaN";
  r.kernel = "fa1";
  r.property = "reference";
  r.kind = "non-finite";
  r.needs = {{.part = "seq_k", .relation = Relation::kAtLeast, .value = 65, .text = "seq_k >= 65"}};
  r.indifferent = {"dtype", "batch"};
  ExplainOptions options;
  options.reproducer = &r;
  const std::string text = explain(causal(65, 65), plan_of(64, 64), nullptr, nullptr, options);
  EXPECT_TRUE(says(text, "o(0,0,0,0) is NaN"));
  EXPECT_TRUE(says(text, "needs seq_k >= 65"));
  EXPECT_TRUE(says(text, "does not matter: dtype, batch"));
}

TEST(Explain, FitsTheWidthAndAddsColourOnRequest) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Case c = random_case(seed);
    if (illegal(c)) continue;
    for (const int width : {40, 100}) {
      const std::string text = explain(c, plan_of(64, 64), nullptr, nullptr, {.width = width});
      EXPECT_FALSE(says(text, "\x1b["));
      // Lines of text may be long; lines of pictures may not.
      std::istringstream lines(text);
      for (std::string line; std::getline(lines, line);) {
        const bool picture = says(line, "\u2502") || says(line, "\u253c");
        if (picture) EXPECT_LE(characters(line), width) << line;
      }
    }
    EXPECT_TRUE(says(explain(c, plan_of(64, 64), nullptr, nullptr, {.color = true}), "\x1b["));
  }
}

TEST(Explain, LargeCasesAreSampledAndQuick) {
  Case c = causal(40'000, 60'000, ATTN_BOTTOM_RIGHT);
  c.problem.window_left = 500;
  const std::string text = explain(c, plan_of(64, 64), nullptr, nullptr, {});
  EXPECT_TRUE(says(text, "(sampled)")) << text;
  EXPECT_LT(text.size(), 60'000u);
}

TEST(Ruler, CellsNeverStraddleATile) {
  for (const int64_t size : {1, 2, 63, 64, 65, 129, 1000, 5000}) {
    for (const int64_t tile : {1, 16, 64, 100}) {
      for (const int64_t most : {1, 8, 33, 90}) {
        const Ruler ruler = make_ruler(size, tile, most);
        EXPECT_EQ(ruler.starts.front(), 0);
        EXPECT_EQ(ruler.starts.back(), size);
        EXPECT_LE(ruler.width(), std::max<int64_t>(most, 1)) << size << " " << tile << " " << most;
        for (int64_t i = 0; i < ruler.cells(); ++i) {
          const int64_t begin = ruler.starts[static_cast<size_t>(i)],
                        end = ruler.starts[static_cast<size_t>(i) + 1];
          EXPECT_LT(begin, end);
          EXPECT_TRUE(begin / tile == (end - 1) / tile || begin % tile == 0);
        }
      }
    }
  }
}

TEST(Tiles, StatesFollowFromTheMask) {
  for (uint64_t seed = 0; seed < 80; ++seed) {
    const Case c = random_case(seed);
    const Problem& p = c.problem;
    if (illegal(c) || p.seq_q * p.seq_k == 0) continue;
    const VisibilityCache visible(c, p.batch - 1, p.heads_q - 1);
    const TileMap map = tile_map(c, visible, 32, 64);
    ASSERT_FALSE(map.sampled);
    for (int64_t r = 0; r < map.rows; ++r) {
      for (int64_t t = 0; t < map.columns; ++t) {
        int64_t seen = 0, all = 0, rows = 0, rows_seen = 0;
        for (int64_t i = r * 32; i < std::min(p.seq_q, (r + 1) * 32); ++i, ++rows) {
          int64_t of_row = 0;
          for (int64_t j = t * 64; j < std::min(p.seq_k, (t + 1) * 64); ++j, ++all) {
            of_row += sees(c, p.batch - 1, p.heads_q - 1, i, j);
          }
          seen += of_row;
          rows_seen += of_row > 0;
        }
        const TileState state = map.at(r, t);
        EXPECT_EQ(state == TileState::kFull, seen == all);
        EXPECT_EQ(state == TileState::kDead || state == TileState::kSkipped, seen == 0);
        EXPECT_EQ(state == TileState::kRowDead, seen > 0 && rows_seen < rows);
        if (state == TileState::kDead) EXPECT_TRUE(p.mask || p.bias);
      }
    }
  }
}

TEST(TileMap, SkipsQueryTilesThatAPackedEntryLacks) {
  Case c;
  c.problem.batch = 2;
  c.problem.seq_q = 64, c.problem.seq_k = 16;
  c.problem.packed_q = Packing{.lengths = {64, 20}};
  const VisibilityCache first(c, 0, 0), second(c, 1, 0);
  EXPECT_EQ(tile_map(c, first, 32, 16).at(1, 0), TileState::kFull);
  const TileMap map = tile_map(c, second, 32, 16);
  EXPECT_EQ(map.at(0, 0), TileState::kFull);
  EXPECT_EQ(map.at(1, 0), TileState::kSkipped);
  EXPECT_TRUE(second(19, 0));
  EXPECT_FALSE(second(20, 0));
}

TEST(Ranges, SpellsRuns) {
  EXPECT_EQ(ranges({0, 1, 2, 5, 7, 8}), "0..2, 5, 7..8");
  EXPECT_EQ(ranges({}), "");
  EXPECT_EQ(ranges({0, 2, 4, 6}, 2), "0, 2, and 2 more");
}

}  // namespace
}  // namespace attnfuzz
