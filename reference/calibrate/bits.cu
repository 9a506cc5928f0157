#include <string.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "base/random.h"
#include "kernels/primitives/barrier.h"
#include "kernels/primitives/launch.h"
#include "kernels/primitives/math.h"
#include "kernels/primitives/matrix.h"
#include "kernels/primitives/shared.h"
#include "kernels/primitives/warpgroup.h"
#include "kernels/primitives/wgmma.h"
#include "kernels/executor/arithmetic/device/products.h"
#include "reference/calibrate/bits.h"
#include "reference/calibrate/mma_kinds.h"

namespace attn {
namespace {

using simt::device::Functions;
using simt::device::Products;

__device__ inline uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
__device__ inline float with_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// A thread's findings; the host merges them.
struct Count {
  uint64_t compared, differ, first;
  uint32_t got, expected;
};

__device__ inline void compare(uint64_t number, uint32_t got, uint32_t expected, Count& count) {
  ++count.compared;
  if (got == expected || count.differ++ > 0) return;
  count.first = number, count.got = got, count.expected = expected;
}

BitFindings merge(std::string what, const std::vector<Count>& counts, size_t from, size_t step) {
  BitFindings all{std::move(what)};
  for (size_t i = from; i < counts.size(); i += step) {
    const Count& one = counts[i];
    if (one.differ > 0 && (all.differ == 0 || one.first < all.first))
      all.first = one.first, all.got = one.got, all.expected = one.expected;
    all.compared += one.compared, all.differ += one.differ;
  }
  return all;
}

// --- Functions -----------------------------------------------------------------

struct Ex2 {
  static constexpr const char* kName = "ex2";
  static constexpr uint32_t kAnswers = 1 << 23;
  __device__ static float answer(float x) { return ex2(x); }
  __device__ static uint32_t model(const Functions& f, uint32_t x) { return simt::device::ex2(f, x); }
};
struct Lg2 {
  static constexpr const char* kName = "lg2";
  static constexpr uint32_t kAnswers = 1 << 23;
  __device__ static float answer(float x) { return lg2(x); }
  __device__ static uint32_t model(const Functions& f, uint32_t x) { return simt::device::lg2(f, x); }
};
struct Rcp {
  static constexpr const char* kName = "rcp";
  static constexpr uint32_t kAnswers = 1 << 23;
  __device__ static float answer(float x) { return rcp(x); }
  __device__ static uint32_t model(const Functions& f, uint32_t x) { return simt::device::rcp(f, x); }
};
struct Rsqrt {
  static constexpr const char* kName = "rsqrt";
  static constexpr uint32_t kAnswers = 1 << 24;
  __device__ static float answer(float x) { return attn::rsqrt(x); }
  __device__ static uint32_t model(const Functions& f, uint32_t x) { return simt::device::rsqrt(f, x); }
};

// Thread t of T takes inputs t, t + T, ...
template <class F>
__global__ void compare_function(uint64_t inputs, uint32_t stride, const Functions* functions, Count* counts) {
  const uint64_t threads = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  const uint64_t thread = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  Count mine = {};
  for (uint64_t i = thread; i < inputs; i += threads) {
    const auto x = static_cast<uint32_t>(i * stride);
    compare(x, bits_of(F::answer(with_bits(x))), F::model(*functions, x), mine);
  }
  counts[thread] = mine;
}

template <class F>
__global__ void answer_all(uint32_t* answers) {
  const uint32_t threads = gridDim.x * blockDim.x;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < F::kAnswers; i += threads)
    answers[i] = bits_of(F::answer(with_bits(0x3F800000 + i)));
}

void expect_run(attn_status status) {
  if (status != ATTN_OK) throw std::runtime_error("a comparison of bits could not be launched, or was stopped");
}

template <class F>
BitFindings of_function(const Device& device, uint32_t stride) {
  const uint64_t inputs = ((uint64_t{1} << 32) + stride - 1) / stride;
  DeviceArray<Functions> functions(std::vector<Functions>{simt::device::h200_functions()});
  DeviceArray<Count> counts(static_cast<size_t>(device.sweep_blocks) * device.sweep_threads);
  expect_run(launch(compare_function<F>, dim3(device.sweep_blocks), dim3(device.sweep_threads), 0, &device.env,
                    inputs, stride, static_cast<const Functions*>(functions.data()), counts.data()));
  return merge(F::kName, counts.read(), 0, 1);
}

template <class F>
Answers answers_of(const Device& device) {
  DeviceArray<uint32_t> answers(F::kAnswers);
  expect_run(launch(answer_all<F>, dim3(device.sweep_blocks), dim3(device.sweep_threads), 0, &device.env,
                    answers.data()));
  return {F::kName, answers.read()};
}

// --- Products ------------------------------------------------------------------

constexpr int kSize = 64;  // rows, columns and factors of an item

// Element k of row or column `line` of operand `which` of an item.
template <class T>
__device__ uint16_t factor(MmaKind kind, uint64_t item, int which, int line, int k) {
  const auto drawn = [&](int at) {
    return attnfuzz::hash64(item * 3 + static_cast<uint64_t>(which) + (static_cast<uint64_t>(line * kSize + at) << 40));
  };
  if (kind != MmaKind::kCancelling || k % 2 == 0) return draw_factor<T>(kind, drawn(k));
  // The second of a pair cancels the first, except for the last bit now and then.
  const uint16_t first = draw_factor<T>(kind, drawn(k - 1));
  const auto change = static_cast<uint16_t>(drawn(k) % 8 == 0);
  return static_cast<uint16_t>((which == 0 ? first ^ 0x8000 : first) ^ change);
}

// The model's result for one sum.
template <class T>
__device__ uint32_t model_sum(const Products& p, SharedTile<T, kSize> a, SharedTile<T, kSize> b, int row,
                              int column, uint32_t start) {
  const int least = Layout16<T>::kExponent == 5 ? p.least_f16 : p.least_bf16;
  uint32_t sum = start;
  for (int block = 0; block < kSize; block += p.block) {
    uint32_t x[16], y[16];
    for (int k = 0; k < p.block; ++k) {
      const int at = block + k;
      x[k] = bits_of(to_float(*a.at(row, at)));
      y[k] = bits_of(to_float(*b.at(column, at)));
    }
    sum = simt::device::add_block(p, least, x, y, 1, sum, p.block);
  }
  return sum;
}

// counts: of mma.sync and of wgmma, by thread. Items blockIdx.x, blockIdx.x + gridDim.x, ...
template <class T>
__global__ void __launch_bounds__(128)
    compare_products(MmaKind kind, uint64_t items, Products p, bool of_warpgroups, Count* counts) {
  SharedArena arena;
  const SharedTile<T, kSize> a{arena.template carve<T>(kSize * kSize, 1024)},
      b{arena.template carve<T>(kSize * kSize, 1024)};
  Count mine[2] = {};
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16, lane = lane_id();
  for (uint64_t item = blockIdx.x; item < items; item += gridDim.x) {
    cta_sync();
    for (int i = static_cast<int>(threadIdx.x); i < kSize * kSize; i += 128) {
      a.at(i / kSize, i % kSize)->bits = factor<T>(kind, item, 0, i / kSize, i % kSize);
      b.at(i / kSize, i % kSize)->bits = factor<T>(kind, item, 1, i / kSize, i % kSize);
    }
    if constexpr (kHasWarpgroups) fence_proxy_async();
    cta_sync();
    const auto number = [&](int n, int e) {
      const int row = warp_row + lane / 4 + e / 2 * 8, column = 8 * n + lane % 4 * 2 + e % 2;
      return item * kSize * kSize + static_cast<uint64_t>(row * kSize + column);
    };
    const auto start = [&](int n, int e) { return draw_start(kind, attnfuzz::hash64(number(n, e) * 3 + 2)); };
    float c[kSize / 8][4], d[kSize / 8][4];
    for (int n = 0; n < kSize / 8; ++n) {
      for (int e = 0; e < 4; ++e) c[n][e] = d[n][e] = with_bits(start(n, e));
    }
    mma_abt<kSize>(c, a, warp_row, b, kSize);
    if constexpr (kHasWarpgroups) {
      if (of_warpgroups) {
        const WgmmaOperand first_a = WgmmaOperand::of(a.base, 16, 1024),
                           first_b = WgmmaOperand::of(b.base, 16, 1024);
        wgmma_pin(d);
        wgmma_fence();
#pragma unroll
        for (uint32_t k = 0; k < kSize; k += 16) wgmma_ss<T>(d, first_a.plus(2 * k), first_b.plus(2 * k), true);
        wgmma_commit();
        wgmma_wait<0>();
        wgmma_pin(d);
      }
    }
    for (int n = 0; n < kSize / 8; ++n) {
      for (int e = 0; e < 4; ++e) {
        const uint64_t sum = number(n, e);
        const uint32_t expected = model_sum(p, a, b, static_cast<int>(sum / kSize % kSize),
                                            static_cast<int>(sum % kSize), start(n, e));
        compare(sum, bits_of(c[n][e]), expected, mine[0]);
        if (of_warpgroups) compare(sum, bits_of(d[n][e]), expected, mine[1]);
      }
    }
  }
  const size_t thread = static_cast<size_t>(blockIdx.x) * 128 + threadIdx.x;
  counts[2 * thread] = mine[0], counts[2 * thread + 1] = mine[1];
}

template <class T>
void of_products(const Device& device, const Products& model, uint64_t products, const char* format,
                 std::vector<BitFindings>& all) {
  constexpr uint64_t kBlocks = kSize * kSize * kSize / 16;  // blocks in an item
  const uint64_t items = (products + kBlocks - 1) / kBlocks;
  const auto blocks = static_cast<unsigned>(std::min<uint64_t>(items, device.sweep_blocks));
  const size_t shared = 2 * shared_bytes<T>(kSize * kSize, 1024);
  for (int kind = 0; kind < static_cast<int>(std::size(kMmaKinds)); ++kind) {
    DeviceArray<Count> counts(size_t{blocks} * 128 * 2);
    expect_run(launch(compare_products<T>, dim3(blocks), dim3(128), shared, &device.env,
                      static_cast<MmaKind>(kind), items, model, device.has_warpgroups, counts.data()));
    const std::vector<Count> read = counts.read();
    const std::string numbers = std::string(format) + ", " + kMmaKinds[kind];
    all.push_back(merge("mma.sync " + numbers, read, 0, 2));
    if (device.has_warpgroups) all.push_back(merge("wgmma " + numbers, read, 1, 2));
  }
}

}  // namespace

std::vector<BitFindings> compare_bits(const Device& device, uint32_t stride, uint64_t products,
                                      int32_t arithmetic) {
  const bool ampere = arithmetic == ATTN_ARITHMETIC_A100 || arithmetic == ATTN_ARITHMETIC_L40S;
  const Products& model = ampere ? simt::device::kAmpereProducts : simt::device::kHopperProducts;
  std::vector<BitFindings> all = {of_function<Ex2>(device, stride), of_function<Lg2>(device, stride),
                                  of_function<Rcp>(device, stride), of_function<Rsqrt>(device, stride)};
  of_products<F16>(device, model, products, "f16", all);
  of_products<BF16>(device, model, products, "bf16", all);
  return all;
}

std::vector<Answers> all_answers(const Device& device) {
  return {answers_of<Ex2>(device), answers_of<Lg2>(device), answers_of<Rcp>(device), answers_of<Rsqrt>(device)};
}

}  // namespace attn
