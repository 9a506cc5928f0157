// Makes each shape of error on values that are otherwise as irregular as a kernel's. The
// shape must be named, and no other one.
#include "properties/judge/shape/shape.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace attnfuzz {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Picture {
  int64_t batch = 2, heads = 4, seq_q = 130, dim_v = 64, tile_q = 64;
  std::vector<double> expected;
  std::vector<float> got;
  std::vector<uint8_t> bad, dead;

  // The expected values are irregular and not near 0.
  Picture(int64_t b = 2, int64_t h = 4, int64_t s = 130, int64_t d = 64)
      : batch(b), heads(h), seq_q(s), dim_v(d) {
    uint64_t state = 12345;
    for (int64_t e = 0; e < b * h * s * d; ++e) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const double u = static_cast<double>(state >> 40) / (1 << 24);
      expected.push_back((state >> 20 & 1 ? 1 : -1) * (0.2 + u));
      got.push_back(static_cast<float>(expected.back()));
      bad.push_back(0);
    }
  }
  using Index = std::function<bool(int64_t b, int64_t h, int64_t i, int64_t c)>;
  using Value = std::function<double(double expected, int64_t b, int64_t h, int64_t i, int64_t c)>;
  std::string shape(const Index& where, const Value& value) {
    for (int64_t e = 0; e < static_cast<int64_t>(got.size()); ++e) {
      const int64_t c = e % dim_v, i = e / dim_v % seq_q, h = e / dim_v / seq_q % heads,
                    b = e / dim_v / seq_q / heads;
      if (!where(b, h, i, c)) continue;
      got[static_cast<size_t>(e)] = static_cast<float>(value(expected[static_cast<size_t>(e)], b, h, i, c));
      bad[static_cast<size_t>(e)] = 1;
    }
    return text_of(error_shape(input()));
  }
  ShapeInput input() const {
    return {.batch = batch,
            .heads = heads,
            .seq_q = seq_q,
            .dim_v = dim_v,
            .tile_q = tile_q,
            .got = got,
            .expected = expected,
            .bad = bad,
            .dead = dead};
  }
};

bool everywhere(int64_t, int64_t, int64_t, int64_t) { return true; }
double nan(double, int64_t, int64_t, int64_t, int64_t) { return kNan; }
// An error without any shape.
double noise(double x, int64_t b, int64_t h, int64_t i, int64_t c) {
  const int64_t mixed = (b * 7 + h * 31 + i * 101 + c * 59) * 2654435761 % 1000;
  return x + 0.3 + static_cast<double>(mixed) / 300;
}

TEST(Shape, NothingBadHasNone) { EXPECT_TRUE(error_shape(Picture().input()).empty()); }

TEST(Shape, Contradictory) {
  Picture p;
  p.bad[0] = 1;
  ShapeInput input = p.input();
  input.seq_q = 7;
  EXPECT_TRUE(error_shape(input).empty());
}

TEST(Shape, Irregular) { EXPECT_EQ(Picture().shape(everywhere, noise), ""); }

TEST(Shape, Tiles) {
  EXPECT_EQ(Picture().shape([](auto, auto, auto i, auto) { return i < 64; }, nan),
            "only query tile 0; all NaN");
  EXPECT_EQ(Picture().shape([](auto, auto, auto i, auto) { return i >= 64; }, noise),
            "rows below the first tile border");
  EXPECT_EQ(Picture().shape([](auto, auto, auto i, auto) { return i >= 128; }, noise), "only query tile 2");
  EXPECT_EQ(Picture().shape([](auto, auto, auto i, auto) { return i > 70 && i < 80; }, noise),
            "only query tile 1, rows 71..79");
  EXPECT_EQ(Picture().shape([](auto, auto, auto i, auto) { return i % 64 == 0; }, noise),
            "first row of each tile");
}

TEST(Shape, Rows) {
  EXPECT_EQ(Picture().shape([](auto, auto, auto i, auto) { return i % 2 == 0; }, noise),
            "every other row, from 0");
  EXPECT_EQ(Picture().shape([](auto, auto, auto i, auto) { return i == 129; }, noise),
            "only the last row, 129");
  EXPECT_EQ(Picture().shape([](auto, auto, auto i, auto) { return i == 3; }, noise), "only row 3");
  EXPECT_EQ(Picture().shape([](auto, auto, auto i, auto) { return i % 16 >= 8; }, noise),
            "rows with i mod 16 in 8..15");
  EXPECT_EQ(Picture().shape([](auto, auto, auto i, auto) { return i >= 33; }, noise), "rows >= 33 only");
}

TEST(Shape, RowsOfSeveralTiles) {
  const auto rows = [](auto test) { return [test](auto, auto, auto i, auto) { return test(i); }; };
  EXPECT_EQ(Picture().shape(rows([](int64_t i) { return i < 128; }), noise), "query tiles <= 1 only");
  EXPECT_EQ(Picture(1, 1, 260).shape(rows([](int64_t i) { return i >= 128; }), noise), "query tiles >= 2 only");
  EXPECT_EQ(Picture().shape(rows([](int64_t i) { return i == 70 || i == 71 || i == 128; }), noise),
            "rows below the first tile border, not all of them");
  EXPECT_EQ(Picture().shape(rows([](int64_t i) { return i == 3 || i == 71 || i == 128; }), noise), "");
  EXPECT_EQ(Picture().shape(rows([](int64_t i) { return i < 100; }), noise), "rows <= 99 only");
  EXPECT_EQ(Picture().shape(rows([](int64_t i) { return i > 2 && i < 100; }), noise), "only rows 3..99");
  EXPECT_EQ(Picture().shape(rows([](int64_t i) { return i > 2 && i < 128; }), noise), "only rows 3..127");
  EXPECT_EQ(Picture(1, 1, 128).shape(rows([](int64_t i) { return i % 64 == 0; }), noise),
            "first row of each tile");
  EXPECT_EQ(Picture(1, 1, 128).shape(rows([](int64_t i) { return i % 64 == 63; }), noise),
            "last row of each tile");
  EXPECT_EQ(Picture(1, 1, 192).shape(rows([](int64_t i) { return i % 64 == 5; }), noise),
            "every 64th row, from 5");
}

TEST(Shape, HeadsAndBatch) {
  EXPECT_EQ(Picture().shape([](auto, auto h, auto, auto) { return h < 2; }, noise), "heads <= 1 only");
  EXPECT_EQ(Picture().shape([](auto, auto h, auto, auto) { return h >= 2; }, noise), "heads >= 2 only");
  EXPECT_EQ(Picture().shape([](auto, auto h, auto, auto) { return h == 1 || h == 2; }, noise),
            "only heads 1..2");
  EXPECT_EQ(Picture().shape([](auto, auto h, auto, auto) { return h == 3; }, noise), "only head 3");
  EXPECT_EQ(Picture().shape([](auto b, auto, auto, auto) { return b == 1; }, nan),
            "only batch entry 1; all NaN");
  EXPECT_EQ(Picture().shape([](auto, auto h, auto, auto) { return h > 0; }, noise), "every head but 0");
  EXPECT_EQ(Picture(2, 8).shape([](auto, auto h, auto, auto) { return h % 2 == 1; }, noise),
            "every other head, from 1");
}

TEST(Shape, Columns) {
  EXPECT_EQ(Picture(1, 1, 16, 128).shape([](auto, auto, auto, auto c) { return c >= 64; }, noise),
            "columns >= 64 only");
  EXPECT_EQ(Picture(1, 1, 16, 128).shape([](auto, auto, auto, auto c) { return c == 127; }, noise),
            "only the last column, 127");
  EXPECT_EQ(
      Picture(1, 2, 130).shape([](auto, auto h, auto i, auto c) { return h == 1 && i < 64 && c < 8; }, nan),
      "only head 1, only query tile 0, columns <= 7 only; all NaN");
}

TEST(Shape, ColumnsHaveTheirKind) {
  EXPECT_EQ(Picture(1, 1, 16).shape([](auto, auto, auto, auto c) { return c % 2 == 1; }, noise),
            "every other column, from 1");
  EXPECT_EQ(Picture(1, 1, 16).shape([](auto, auto, auto, auto c) { return c == 0; }, noise), "only column 0");
  const auto kind = [](int64_t first, int64_t last) {
    Picture p(1, 1, 16);
    p.shape([&](auto, auto, auto, auto c) { return c >= first && c <= last; }, noise);
    return error_shape(p.input()).at(0).kind;
  };
  EXPECT_EQ(kind(40, 63), ShapeKind::kColumnsFrom);
  EXPECT_EQ(kind(63, 63), ShapeKind::kOther);
  EXPECT_EQ(kind(40, 62), ShapeKind::kOther);
}

TEST(Shape, OneElement) {
  EXPECT_EQ(Picture().shape([](auto b, auto h, auto i, auto c) { return b == 1 && h == 2 && i == 5 && c == 7; },
                            noise),
            "one element, (1,2,5,7)");
}

TEST(Shape, Values) {
  const auto scaled = [](double by) { return [by](double x, auto, auto, auto, auto) { return x * by; }; };
  EXPECT_EQ(Picture().shape(everywhere, nan), "all NaN");
  EXPECT_EQ(Picture().shape(everywhere, scaled(0)), "all zero");
  EXPECT_EQ(Picture().shape(everywhere, scaled(1.48)), "constant ratio 1.48");
  EXPECT_EQ(Picture().shape(everywhere, scaled(1 / 1.48)), "constant ratio 0.676");
  EXPECT_EQ(Picture().shape(everywhere, scaled(-1)), "the sign is flipped");
  EXPECT_EQ(Picture().shape(everywhere, [](auto, auto, auto, auto, auto) { return INFINITY; }), "all infinite");
  EXPECT_EQ(Picture().shape(everywhere, [](auto, auto, auto, auto, auto) { return 3.5; }), "all 3.5");
}

TEST(Shape, RatiosAndTheirKinds) {
  const auto kind = [](double ratio) {
    Picture p(1, 1, 16);
    p.shape(everywhere, [=](double x, auto, auto, auto, auto) { return x * ratio; });
    return error_shape(p.input()).at(0).kind;
  };
  EXPECT_EQ(kind(std::log(2.0)), ShapeKind::kLogBase);
  EXPECT_EQ(kind(1 / std::log(2.0)), ShapeKind::kLogBase);
  for (const double ratio : {0.5, 1.2, 1.48}) EXPECT_EQ(kind(ratio), ShapeKind::kOther) << ratio;
  EXPECT_EQ(Picture(1, 1, 16).shape(everywhere, [](double x, auto, auto, auto, auto) { return x * 1.01; }), "");
  // The median of three ratios.
  EXPECT_EQ(Picture(1, 1, 3, 1)
                .shape(everywhere, [](double x, auto, auto, auto i, auto) { return x * (1.46 + 0.01 * i); }),
            "constant ratio 1.47");
  // Small ratios that are far from each other.
  EXPECT_EQ(Picture(1, 1, 16).shape(everywhere, [](double x, auto b, auto h, auto i,
                                                   auto c) { return x * noise(0, b, h, i, c) / 400; }),
            "");
  EXPECT_EQ(Picture(1, 1, 16).shape(everywhere,
                                    [](double x, auto, auto, auto, auto) { return x < 0 ? kNan : INFINITY; }),
            "NaN and infinities");
  EXPECT_EQ(Picture(1, 1, 16).shape(everywhere, [](double x, auto, auto, auto i,
                                                   auto c) { return i + c == 0 ? INFINITY : x * 1.5; }),
            "");
  Picture due(1, 1, 16);
  for (double& x : due.expected) x = kNan;
  EXPECT_EQ(due.shape(everywhere, [](auto, auto b, auto h, auto i, auto c) { return noise(0, b, h, i, c); }),
            "a number where NaN is due");
}

TEST(Shape, OneRatioARow) {
  const auto of = [](int64_t rows, std::function<double(int64_t)> ratio) {
    return Picture(1, 1, rows).shape(everywhere, [=](double x, auto, auto, auto i, auto) {
      return x * ratio(i);
    });
  };
  EXPECT_EQ(of(3, [](int64_t i) { return 1.5 + 0.5 * static_cast<double>(i); }),
            "one ratio a row, growing with the row: 1.5 to 2.5");
  EXPECT_EQ(of(2, [](int64_t i) { return 1.5 + 0.5 * static_cast<double>(i); }), "");
  EXPECT_EQ(of(16, [](int64_t i) { return 4 - 0.1 * static_cast<double>(i); }),
            "one ratio a row, falling with the row: 2.5 to 4");
  EXPECT_EQ(of(16, [](int64_t i) { return i % 3 + 2.0; }), "one ratio a row, 2 to 4");
}

TEST(Shape, Growth) {
  EXPECT_EQ(Picture(1, 1, 16).shape(everywhere,
                                    [](double x, auto b, auto h, auto i, auto c) {
                                      return x + (noise(0, b, h, i, c) - 2) * static_cast<double>(c + 1) * 0.01;
                                    }),
            "grows with the column");
  EXPECT_EQ(Picture(1, 1, 16).shape(everywhere,
                                    [](double x, auto b, auto h, auto i, auto c) {
                                      return x +
                                             (noise(0, b, h, i, c) - 2) * static_cast<double>(64 - c) * 0.01;
                                    }),
            "falls with the column");
  EXPECT_EQ(Picture(1, 1).shape(everywhere,
                                [](double x, auto, auto, auto i, auto) { return x * (1 + 0.01 * (5.0 + i)); }),
            "one ratio a row, growing with the row: 1.05 to 2.34");
  EXPECT_EQ(Picture(1, 1).shape(everywhere,
                                [](double x, auto b, auto h, auto i, auto c) {
                                  return x + (noise(0, b, h, i, c) - 2) * static_cast<double>(i + 1) * 0.01;
                                }),
            "grows with the row");
}

TEST(Shape, Offset) {
  EXPECT_EQ(Picture(1, 4, 65, 1)
                .shape(everywhere, [](double x, auto, auto, auto, auto) { return x + std::log(2.0); }),
            "off by + ln 2");
  EXPECT_EQ(Picture(1, 4, 65, 1).shape(everywhere, [](double x, auto, auto, auto, auto) { return x - 5; }),
            "off by -5");
  EXPECT_EQ(Picture(1, 4, 65, 1)
                .shape(everywhere, [](double x, auto, auto, auto, auto) { return x - std::log(2.0); }),
            "off by - ln 2");
}

TEST(Shape, Displaced) {
  Picture p;
  const Picture right;
  const auto at = [&](int64_t b, int64_t h, int64_t i, int64_t c) {
    return right.expected[static_cast<size_t>(((b * 4 + h) * 130 + i) * 64 + c)];
  };
  EXPECT_EQ(Picture().shape([](auto, auto, auto i, auto) { return i < 129; },
                            [&](double, auto b, auto h, auto i, auto c) { return at(b, h, i + 1, c); }),
            "rows <= 128 only; row i holds the result of row i + 1");
  EXPECT_EQ(Picture().shape([](auto, auto h, auto, auto) { return h > 0; },
                            [&](double, auto b, auto, auto i, auto c) { return at(b, 0, i, c); }),
            "every head but 0; holds the result of head 0");
  EXPECT_EQ(Picture().shape([](auto, auto, auto i, auto) { return i >= 64; },
                            [&](double, auto b, auto h, auto i, auto c) { return at(b, h, i % 64, c); }),
            "rows below the first tile border; each tile holds the result of tile 0");
  EXPECT_EQ(Picture().shape([](auto b, auto, auto, auto) { return b > 0; },
                            [&](double, auto, auto h, auto i, auto c) { return at(0, h, i, c); }),
            "only batch entry 1; holds the result of batch entry 0");
  const Picture three(3, 2, 16, 8);
  EXPECT_EQ(Picture(3, 2, 16, 8)
                .shape([](auto b, auto, auto, auto) { return b < 2; },
                       [&](double, auto, auto h, auto i, auto c) {
                         return three.expected[static_cast<size_t>(((4 + h) * 16 + i) * 8 + c)];
                       }),
            "every batch entry but 2; holds the result of batch entry 2");
}

TEST(Shape, OneKey) {
  constexpr int64_t kKeys = 5, kDim = 16, kRows = 10;
  std::vector<double> value;
  for (int64_t e = 0; e < kKeys * kDim; ++e)
    value.push_back(std::sin(1.7 * static_cast<double>(e * e + 3 * e)));
  const auto v = [&](int64_t j, int64_t c) { return value[static_cast<size_t>(j * kDim + c)]; };
  const auto weight = [](int64_t i, int64_t j) {
    return 1 + std::fabs(std::sin(static_cast<double>(3 * i + 7 * j)));
  };
  const auto attend = [&](int64_t i, int64_t c, int64_t first, int64_t last) {
    double sum = 0, o = 0;
    for (int64_t j = first; j < last; ++j) sum += weight(i, j), o += weight(i, j) * v(j, c);
    return o / sum;
  };
  // `odd`: only one element of the first row is wrong, by another error.
  const auto shape = [&](int64_t first, int64_t last, bool odd = false) {
    Picture p(1, 2, kRows, kDim);
    for (int64_t e = 0; e < 2 * kRows * kDim; ++e)
      p.expected[static_cast<size_t>(e)] = attend(e / kDim % kRows, e % kDim, 0, kKeys);
    for (size_t e = 0; e < p.got.size(); ++e) {
      p.got[e] = static_cast<float>(
          attend(static_cast<int64_t>(e) / kDim % kRows, static_cast<int64_t>(e) % kDim, first, last));
      p.bad[e] = 1;
    }
    for (size_t e = 0; odd && e < kDim; ++e) {
      p.got[e] = static_cast<float>(p.expected[e]) + (e == 0 ? 5.0f : 0.0f);
      p.bad[e] = e == 0;
    }
    ShapeInput input = p.input();
    input.heads_kv = 1;
    input.seq_k = kKeys;
    input.value = value;
    return text_of(error_shape(input));
  };
  EXPECT_EQ(shape(kKeys - 1, kKeys), "only the last key's contribution");
  EXPECT_EQ(shape(0, 1), "only the first key's contribution");
  EXPECT_EQ(shape(0, kKeys - 1), "the last key's contribution is missing");
  EXPECT_EQ(shape(1, kKeys), "the first key's contribution is missing");
  EXPECT_EQ(shape(1, kKeys - 1), "");
  EXPECT_EQ(shape(0, kKeys - 1, true), "");
  for (double& x : value) x /= 64;
  EXPECT_EQ(shape(0, kKeys - 1), "the last key's contribution is missing");
}

TEST(Shape, DeadRows) {
  Picture p(1, 1, 70, 8);
  for (int64_t e = 0; e < 10 * 8; ++e) p.expected[static_cast<size_t>(e)] = 0;
  const auto dead_ones = [](auto, auto, auto i, auto) { return i < 10; };
  // An expected 0 by itself does not make a row dead.
  EXPECT_EQ(p.shape(dead_ones, noise), "only query tile 0, rows 0..9");
  p.dead.resize(70);
  std::fill_n(p.dead.begin(), 10, 1);
  EXPECT_EQ(p.shape(dead_ones, noise), "only query tile 0, rows 0..9; values where nothing is visible");
  Picture alive(1, 1, 70, 8);
  alive.dead.assign(70, 0);
  std::fill_n(alive.dead.begin() + 20, 10, 1);
  EXPECT_EQ(alive.shape(dead_ones, noise), "only query tile 0, rows 0..9");
  Picture heads(2, 2, 16, 4);
  heads.dead.assign(64, 1);
  EXPECT_EQ(heads.shape(everywhere, noise), "values where nothing is visible");
}

}  // namespace
}  // namespace attnfuzz
