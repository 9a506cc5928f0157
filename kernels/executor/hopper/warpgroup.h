// A warpgroup's products (executor/hopper.h) as the executor keeps them. Each thread numbers its products, and
// the number is the same in all threads: a thread's n-th product is its part of the warpgroup's n-th product.
//
// The sums of the products in flight are kept as the lanes' fragments. Products with the same accumulators form
// a chain, and the wait that covers the chain's last product writes the sums back.
#pragma once

#include <memory>
#include <vector>

#include "kernels/executor/threads/block.h"

namespace simt {

inline constexpr uint32_t kMembers = 128, kWarps = 4;
inline constexpr uint64_t kInFlight =
    128;                           // products: three batches, if threads of a warpgroup are a batch apart
inline constexpr int kChain = 16;  // the most products that are computed at once

struct Sums {
  float* d[kMembers] = {};  // each thread's accumulators; null if it has no product in flight on these sums
  uint32_t users = 0;
  uint64_t last = 0;          // the number of the last product
  std::vector<float> values;  // [thread][n / 2]
};

struct Product {
  Wgmma said;  // the arguments that the first thread passed
  Place here;
  uint32_t issued, landed;  // the number of threads that have issued it, and that have waited for it
  Sums* sums;
  const uint32_t* a[kMembers];
  uint32_t fragment[kMembers][4];  // A in registers, if operands are read early
};

struct Warpgroup {
  uint64_t first = 0;     // the first product that a thread has yet to wait for
  uint64_t begun = 0;     // products that some thread has issued
  uint64_t complete = 0;  // products that all threads have issued
  uint64_t computed = 0;
  uint64_t waited = 0;   // products that some thread has waited for
  uint64_t awaited = 0;  // the number of complete products that the waiting threads need
  uint32_t waiting[kWarps] = {};
  Product product[kInFlight];
  std::vector<std::unique_ptr<Sums>> sums;
  std::vector<float> a = std::vector<float>(kWarps * kChain * 16 * 16);  // [warp][k][16]
  std::vector<float> b = std::vector<float>(kChain * 16 * 8);
  char order_tag = 0;
  // The state of set_registers().
  uint32_t registers = 0, asked = 0, askers = 0;
  bool increases = false;
  Place asked_here{};
};

// The warpgroup of thread `me`, which has called `word`. Reports a warpgroup of less than 128 threads.
Warpgroup& warpgroup_of(Block& b, const Lane& me, const char* word, Place here);

// Reports an operand that is not aligned, or does not lie in shared memory, or was written without a proxy
// fence. `mn_extent` is the number of rows of A or of columns of B.
void check_operand(Block& b, const WgmmaOperand& o, uint32_t mn_extent, bool transposed, const char* name,
                   Place here);

// Tells the sanitizer that the running thread reads the operands in shared memory.
void read_by_lane(const Product& p);

// Computes the products before number `end`. A late chain is computed at once, with all its k side by side.
void compute_products(Block& b, Warpgroup& wg, uint64_t end);

}  // namespace simt
