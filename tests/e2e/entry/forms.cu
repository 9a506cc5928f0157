// A right kernel in forms that nvcc takes and a host compiler may refuse: an #include of a macro; a hint to the
// optimiser; an int2 made from unsigned numbers; a launch in a lambda that uses a constant of its surroundings.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <utility>

#define DEVICE __device__ __forceinline__
#define HOST_DEVICE __host__ __device__ inline
#define FORMS_ROWS "forms.cuh"
#include FORMS_ROWS

#define BOOL_SWITCH(condition, NAME, ...)  \
  [&] {                                    \
    if (condition) {                       \
      constexpr static bool NAME = true;   \
      return __VA_ARGS__();                \
    } else {                               \
      constexpr static bool NAME = false;  \
      return __VA_ARGS__();                \
    }                                      \
  }()

void launch(const half* q, const half* k, const half* v, half* o, int heads, int sq, int sk, int d, float scale,
            bool causal) {
  const Rows rows{.q = q, .k = k, .v = v, .o = o, .sq = sq, .sk = sk, .d = d, .scale = scale};
  BOOL_SWITCH(causal, kCausal, [&] {
    constexpr int kWarps = 4;
    const auto [grid, threads] = std::pair(dim3((sq + kWarps - 1) / kWarps, heads), 32 * kWarps);
    auto kernel = &attend<kWarps, kCausal>;
    kernel<<<grid, threads>>>(rows);
  });
}
