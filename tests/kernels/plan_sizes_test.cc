// Tests sizes and grids at their limits and one beyond.
#include "tests/kernels/offer.h"

namespace attnfuzz {
namespace {

constexpr int64_t kHuge = int64_t{1} << 40;

class PlanSizes : public PlanTest {};

TEST_P(PlanSizes, SizesUpToTheirLimits) {
  const struct {
    const char* name;
    int64_t attn_problem::* size;
  } sizes[] = {{"batch", &attn_problem::batch},       {"heads_q", &attn_problem::heads_q},
               {"heads_kv", &attn_problem::heads_kv}, {"seq_q", &attn_problem::seq_q},
               {"seq_k", &attn_problem::seq_k},       {"num_splits", &attn_problem::num_splits}};
  for (const auto& size : sizes) {
    const std::string name = size.name;
    refuses(ATTN_INVALID, (name + " = -1").c_str(), [&](Offer& x) { x.problem.*size.size = -1; });
    refuses(ATTN_INVALID, (name + " = 1099511627777").c_str(),
            [&](Offer& x) { x.problem.*size.size = kHuge + 1; });
  }
  accepts("seq_k = 2^40", [](Offer& x) { x.problem.seq_k = kHuge; });
  for (int64_t attn_problem::* dim : {&attn_problem::dim_qk, &attn_problem::dim_v}) {
    for (int64_t legal : {1, 256}) accepts("dim", [&](Offer& x) { x.problem.*dim = legal, x.dense(); });
    for (int64_t illegal : {0, 257})
      refuses(ATTN_INVALID, "is outside 1..256", [&](Offer& x) { x.problem.*dim = illegal, x.dense(); });
  }
  refuses(ATTN_INVALID, "dim_qk = 257", [](Offer& x) { x.problem.dim_qk = 257; });
  refuses(ATTN_INVALID, "dim_v = 257", [](Offer& x) { x.problem.dim_v = 257; });
  for (int64_t attn_problem::* empty : {&attn_problem::batch, &attn_problem::seq_q, &attn_problem::seq_k})
    accepts("an empty problem", [&](Offer& x) { x.problem.*empty = 0, x.dense(); });
  accepts("no heads", [](Offer& x) { x.problem.heads_q = x.problem.heads_kv = 0, x.dense(); });
  accepts("no query heads",
          [](Offer& x) { x.problem.heads_q = 0, x.problem.heads_kv = 2, x.problem.seq_q = 4, x.dense(); });
  refuses(ATTN_INVALID, "heads_kv = 0 does not divide heads_q = 1", [](Offer& x) { x.problem.heads_kv = 0; });
  refuses(ATTN_INVALID, "heads_kv = 2 does not divide heads_q = 3",
          [](Offer& x) { x.problem.heads_q = 3, x.problem.heads_kv = 2, x.dense(); });
  accepts("6 heads over 3", [](Offer& x) { x.problem.heads_q = 6, x.problem.heads_kv = 3, x.dense(); });
}

TEST_P(PlanSizes, GridsUpToTheirLimits) {
  const auto one_row = [](Offer& x, int64_t batch) {
    x.problem.batch = batch, x.problem.seq_q = 1, x.problem.seq_k = 1;
    x.dense();
  };
  accepts("2^31 - 1 blocks", [&](Offer& x) { one_row(x, kGrid), x.problem.num_splits = 1; });
  refuses(ATTN_UNSUPPORTED, "2^31 - 1 blocks",
          [&](Offer& x) { one_row(x, kGrid + 1), x.problem.num_splits = 1; });
  const auto tiles = [](Offer& x, int64_t seq_q, int64_t heads) {
    x.problem.batch = 3, x.problem.heads_q = x.problem.heads_kv = heads, x.problem.seq_q = seq_q,
    x.problem.seq_k = 0;
    x.problem.num_splits = 1;
    x.dense();
  };
  if (!splits()) {
    accepts("6 * 357913941 blocks", [&](Offer& x) { tiles(x, 65, 357913941); });
    refuses(ATTN_UNSUPPORTED, "blocks", [&](Offer& x) { tiles(x, 65, 357913942); });
    accepts("3 * 715827882 blocks", [&](Offer& x) { tiles(x, 64, 715827882); });
    // With wide rows the tile has only 32 keys, but still 64 queries.
    accepts("wide rows", [&](Offer& x) { x.problem.dim_qk = 256, tiles(x, 64, 715827882); });
    return;
  }
  accepts("60 * 35791394 blocks", [&](Offer& x) { tiles(x, 65, 35791394), x.problem.num_splits = 10; });
  refuses(ATTN_UNSUPPORTED, "blocks", [&](Offer& x) { tiles(x, 65, 35791395), x.problem.num_splits = 10; });
  accepts("192 * 11184810 blocks", [&](Offer& x) { tiles(x, 64, 11184810), x.problem.num_splits = 64; });
  accepts("65535 splits", [](Offer& x) { x.problem.num_splits = 65535; });
  refuses(ATTN_UNSUPPORTED, "num_splits = 65536", [](Offer& x) { x.problem.num_splits = 65536; });
  accepts("32768 * 65535 blocks", [&](Offer& x) { one_row(x, 32768), x.problem.num_splits = 65535; });
  refuses(ATTN_UNSUPPORTED, "splits is too large",
          [&](Offer& x) { one_row(x, 32769), x.problem.num_splits = 65535; });
  refuses(ATTN_UNSUPPORTED, "splits is too large",
          [&](Offer& x) { one_row(x, 1 << 30), x.problem.num_splits = 2; });
  // Rows of the reduction, four to a block.
  const auto rows = [](Offer& x, int64_t seq_q) {
    x.problem.seq_q = seq_q, x.problem.num_splits = 1, x.problem.dim_v = 1;
    x.dense();
  };
  accepts("rows of 2^31 - 1 blocks", [&](Offer& x) { rows(x, kGrid * 4); });
  refuses(ATTN_UNSUPPORTED, "partial results", [&](Offer& x) { rows(x, kGrid * 4 + 1); });
  // 2^46 bytes of partial O.
  const auto bytes = [](Offer& x, int64_t seq_q) {
    x.problem.seq_q = seq_q, x.problem.num_splits = 65535, x.problem.dim_v = 256;
    x.dense();
  };
  accepts("2^46 bytes", [&](Offer& x) { bytes(x, (int64_t{1} << 46) / 65535 / 1024); });
  refuses(ATTN_UNSUPPORTED, "partial results",
          [&](Offer& x) { bytes(x, (int64_t{1} << 46) / 65535 / 1024 + 1); });
  // Packed heads are rows of one tile.
  const auto packed = [&](Offer& x, int64_t batch) {
    x.problem.heads_q = 4, x.problem.heads_kv = 2, x.problem.num_splits = 1;
    one_row(x, batch);
  };
  accepts("2 blocks a batch entry", [&](Offer& x) { packed(x, kGrid / 2); });
  refuses(ATTN_UNSUPPORTED, "blocks", [&](Offer& x) { packed(x, kGrid / 2 + 1); });
}

INSTANTIATE_TEST_SUITE_P(Kernels, PlanSizes, testing::Values("fa1", "splitk"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace attnfuzz
