#include "reference/calibrate/mma_probe.h"

#include <algorithm>
#include <cmath>

#include "reference/calibrate/format16.h"
#include "reference/calibrate/mma_random.h"
#include "reference/calibrate/mma_run.h"

namespace attn {
namespace {

// c + sum a[k] b[k].
struct Sum {
  float c = 0;
  double a[16] = {}, b[16] = {};

  // The product `sign` * mantissa * 2^exponent at position k, with factors as equal as possible.
  Sum& put(int k, double mantissa, int exponent) {
    const int half = exponent / 2;
    a[k] = std::ldexp(mantissa, exponent - half);
    b[k] = std::ldexp(1.0, half);
    return *this;
  }
};

class Prober {
 public:
  Prober(Format16 format, const attn_env& env) : format_(format), env_(env) {}

  // Each sum fills all rows and columns of an mma of its own, so that all must agree.
  std::vector<float> operator()(const std::vector<Sum>& sums) {
    MmaBatch batch;
    for (const Sum& sum : sums) {
      uint16_t a[16], b[16];
      for (int k = 0; k < 16; ++k) a[k] = format_.encode(sum.a[k]), b[k] = format_.encode(sum.b[k]);
      for (int row = 0; row < 16; ++row) batch.a.insert(batch.a.end(), a, a + 16);
      for (int column = 0; column < 8; ++column) batch.b.insert(batch.b.end(), b, b + 16);
      batch.c.insert(batch.c.end(), 128, sum.c);
    }
    const std::vector<float> all = run_mma(batch, format_.bf16, env_);
    std::vector<float> results;
    for (size_t n = 0; n < sums.size(); ++n) {
      const float first = all[n * 128];
      for (int i = 1; i < 128; ++i) {
        const float other = all[n * 128 + i];
        uniform_ &= other == first || (std::isnan(other) && std::isnan(first));
      }
      results.push_back(first);
    }
    return results;
  }
  float operator()(const Sum& sum) { return (*this)(std::vector<Sum>{sum})[0]; }

  bool uniform() const { return uniform_; }

 private:
  Format16 format_;
  const attn_env& env_;
  bool uniform_ = true;
};

constexpr float kUlp = 0x1p-23f;  // of 1

std::string rounding_of(Prober& probe) {
  Sum up, down;
  up.c = 1;
  up.put(0, 1.5, -24);
  down.c = -1;
  down.put(0, -1.5, -24);
  const float above = probe(up), below = probe(down);
  if (above == 1 && below == -1) return "zero";
  if (above == 1 + kUlp && below == -1 - kUlp) return "nearest";
  if (above == 1 + kUlp && below == -1) return "up";
  if (above == 1 && below == -1 - kUlp) return "down";
  return "none of the known ones";
}

// together[i][j]: the products at i and j are added before anything is rounded.
using Together = bool[16][16];

void find_joined(Prober& probe, Together& together) {
  std::vector<Sum> sums;
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) {
      Sum sum;
      sum.c = 1;
      sum.put(i, 1, -24).put(j, i == j ? 2 : 1, -24);
      sums.push_back(sum);
    }
  }
  const std::vector<float> results = probe(sums);
  for (int n = 0; n < 256; ++n) together[n / 16][n % 16] = results[n] == 1 + kUlp;
}

// For hardware that truncates terms at fp32's last place, where the sums above show nothing: 2^30 at i and
// -2^30 beside it swallow the 1 at k if and only if k is in their block or was added before them.
void find_swallowed(Prober& probe, Together& together) {
  std::vector<Sum> sums;
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k) {
      Sum sum;
      sum.put(i, 1, 30).put(i ^ 1, -1, 30);
      if (k / 2 != i / 2) sum.put(k, 1, 0);
      sums.push_back(sum);
    }
  }
  const std::vector<float> results = probe(sums);
  for (int i = 0; i < 16; ++i) {
    for (int k = 0; k < 16; ++k) together[i][k] = results[i * 16 + k] == 0 && results[k * 16 + i] == 0;
  }
}

// The size of the smallest block. Sets *regular to true if all blocks have the same size.
int block_of(const Together& together, bool* regular) {
  int least = 16, most = 1;
  *regular = true;
  for (int i = 0; i < 16; ++i) {
    int size = 0;
    for (int j = 0; j < 16; ++j) {
      size += together[i][j];
      for (int k = 0; k < 16; ++k) *regular &= !together[i][j] || together[i][k] == together[j][k];
    }
    least = std::min(least, size);
    most = std::max(most, size);
  }
  *regular &= least == most;
  return std::max(least, 1);
}

int alignment_bits_of(Prober& probe) {
  int bits = 0;
  for (int e = 1; e <= MmaFindings::kMostBits; ++e) {
    Sum sum;
    sum.c = 1;
    sum.put(0, -1, 0).put(1, 1, -(23 + e));
    if (probe(sum) != std::ldexp(1.0f, -(23 + e))) break;
    bits = e;
  }
  return bits;
}

bool nominal_subnormals(Prober& probe) {
  Sum sum;
  sum.a[0] = 0x1p-24, sum.b[0] = 0x1p15;
  sum.a[1] = sum.b[1] = 0x1p-14;
  return probe(sum) != 0x1p-9f + 0x1p-28f;
}

bool propagates_nan(Prober& probe) {
  Sum nan, times_zero, difference;
  nan.a[5] = NAN;
  times_zero.a[5] = INFINITY;
  difference.a[5] = INFINITY, difference.b[5] = 1;
  difference.a[12] = -INFINITY, difference.b[12] = 1;
  return std::isnan(probe(nan)) && std::isnan(probe(times_zero)) && std::isnan(probe(difference));
}

MmaFindings probe_one(Format16 format, const attn_env& env, int random) {
  Prober probe(format, env);
  MmaFindings f = {};
  f.format = format.bf16 ? "bf16" : "f16";
  f.rounding_seed = env.schedule_seed;
  f.rounding = rounding_of(probe);
  f.alignment_bits = alignment_bits_of(probe);
  Together together;
  find_joined(probe, together);
  f.block = block_of(together, &f.regular);
  if (f.block == 1 && f.alignment_bits == 0) {
    find_swallowed(probe, together);
    f.block = block_of(together, &f.regular);
  }
  f.propagates_nan = propagates_nan(probe);
  f.nominal_subnormals = !format.bf16 && nominal_subnormals(probe);
  f.regular &= probe.uniform();
  compare_random(format, env, random, f);
  return f;
}

}  // namespace

std::vector<MmaFindings> probe_mma(const Device& device, int random) {
  std::vector<MmaFindings> all;
  for (const uint64_t seed : device.roundings) {
    for (const bool bf16 : {false, true}) {
      attn_env env = device.env;
      env.schedule_seed = seed;
      all.push_back(probe_one({bf16}, env, random));
    }
  }
  return all;
}

}  // namespace attn
