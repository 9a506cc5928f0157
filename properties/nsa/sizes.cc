#include "properties/nsa/sizes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <numbers>

#include "base/random.h"
#include "properties/case/words.h"
#include "reference/numbers/formats.h"

namespace attnfuzz::nsa {
namespace {

int64_t pick(SplitMix64& random, std::initializer_list<int64_t> all) {
  return all.begin()[random.below(static_cast<int64_t>(all.size()))];
}

// A number of tokens at or beside a border of a block or of the window, or any number.
int64_t draw_tokens(SplitMix64& random, const Sizes& s, int64_t most) {
  const int64_t any = 1 + random.below(most), i = random.below(8);
  const int64_t border =
      pick(random, {i * s.key_step + s.block_length, i * s.block, s.window, s.select * s.block, any, any});
  return std::clamp<int64_t>(border + random.below(3) - 1, 1, most);
}

// Two to four sequences, cut at or beside borders of blocks, or anywhere. Some are empty.
std::vector<int64_t> draw_packed(SplitMix64& random, const Sizes& s) {
  std::vector<int64_t> lengths;
  int64_t left = s.tokens;
  for (int64_t n = random.below(3); n >= 0; --n) {
    const int64_t any = random.below(left + 1), i = random.below(4);
    const int64_t border = pick(random, {i * s.key_step + s.block_length, i * s.block, any, any, 0});
    lengths.push_back(std::clamp<int64_t>(border + random.below(3) - 1, 0, left));
    left -= lengths.back();
  }
  lengths.push_back(left);
  return lengths;
}

float rounded(int32_t dtype, double x) {
  const uint16_t bits = encode16(dtype, static_cast<float>(x));
  return static_cast<float>(decode(dtype, &bits, 0));
}

std::vector<float> gaussian(SplitMix64& random, int32_t dtype, int64_t count) {
  const auto uniform = [&] { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; };
  std::vector<float> all(static_cast<size_t>(count));
  for (float& x : all)
    x = rounded(dtype, std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()));
  return all;
}

}  // namespace

Sizes draw_sizes(uint64_t seed, int64_t most_tokens, std::optional<Blocks> given) {
  SplitMix64 random{hash64(seed) ^ 0x5a1};
  constexpr Blocks kBlocks[] = {{4, 8, 8}, {4, 8, 16}, {2, 4, 8}, {16, 32, 64}, {8, 8, 8},
                                {1, 1, 1}, {1, 4, 4},  {3, 5, 7}, {5, 3, 10},   {8, 16, 32}};
  Sizes s;
  s.dtype = random.below(2) == 0 ? ATTN_F16 : ATTN_BF16;
  s.heads_kv = 1 + random.below(2);
  s.heads_q = s.heads_kv * pick(random, {1, 2, 4});
  s.dim = pick(random, {16, 32, 64, 24});
  const Blocks drawn = kBlocks[random.below(std::size(kBlocks))], blocks = given.value_or(drawn);
  s.key_step = blocks.step, s.block_length = blocks.length, s.block = blocks.chosen;
  s.select_first = random.below(2), s.select_last = random.below(3);
  s.select = std::max<int64_t>(s.select_first + s.select_last + random.below(4), 1);
  if (random.below(6) == 0)
    s.select = 1 + s.select_first + s.select_last + most_tokens / s.block;  // all of them
  s.window = 1 + random.below(random.below(2) == 0 ? 8 : 40);
  s.tokens = draw_tokens(random, s, most_tokens);
  if (random.below(2) == 0) s.packed = draw_packed(random, s);
  return s;
}

std::string describe(const Sizes& s) {
  std::string packed;
  for (const int64_t length : s.packed)
    packed += (packed.empty() ? "; packed as " : ", ") + std::to_string(length);
  return cat("S = ", s.tokens, ", H = ", s.heads_q, "/", s.heads_kv, ", D = ", s.dim, ", ", dtype_name(s.dtype),
             ", compressed blocks of ", s.block_length, " keys ", s.key_step, " apart, ", s.select,
             " chosen blocks of ", s.block, " keys (", s.select_first, " first, ", s.select_last,
             " last), window ", s.window, packed);
}

Inputs draw_inputs(const Sizes& s, uint64_t seed) {
  SplitMix64 random{hash64(seed) ^ 0x1a9};
  Inputs in;
  in.q = gaussian(random, s.dtype, s.heads_q * s.tokens * s.dim);
  in.k = gaussian(random, s.dtype, s.heads_kv * s.tokens * s.dim);
  in.v = gaussian(random, s.dtype, s.heads_kv * s.tokens * s.dim);
  for (int64_t row = 0; row < s.heads_q * s.tokens; ++row) {
    std::array<double, 3> gates;
    for (double& gate : gates) gate = static_cast<double>(random.below(6)) / 5;
    if (const int64_t alone = random.below(12); alone < 3) gates = {}, gates[static_cast<size_t>(alone)] = 1;
    const double sum = std::max(gates[0] + gates[1] + gates[2], 1.0);
    for (const double gate : gates) in.gates.push_back(rounded(s.dtype, gate / sum));
  }
  return in;
}

}  // namespace attnfuzz::nsa
