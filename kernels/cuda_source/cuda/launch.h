// The translator (kernels/cuda_source/translate) turns kernel<<<grid, block, bytes, stream>>>(arguments) into
//
//   launch_of(kernel's address if it has one, a call of the kernel, grid, block, bytes, stream)(arguments)
//
// Arguments are converted to the kernel's parameters once, on the host. If CUDA would refuse a
// launch, nothing runs: the environment of simt::HostCall gets a report, and cudaGetLastError() returns the
// error.
#pragma once

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kernels/cuda_source/cuda/host.h"
#include "kernels/primitives/launch.h"

namespace simt {

struct Shape {
  Place here;
  dim3 grid, block;
  size_t bytes;
};

// `shared_bytes`: as in attn_report.
inline void refuse_launch(cudaError_t error, const char* why, Place here, int32_t shared_bytes = 0) {
  char message[400];
  snprintf(message, sizeof message, "%s:%d: %s", here.file, here.line, why);
  attn::report_launch(host.env, ATTN_REPORT_LAUNCH, message, shared_bytes);
  remember(error);
  HostCall::fail(ATTN_LAUNCH_FAILED);
}

// Points the dynamic shared arrays outside of functions to the block's memory. Each thread does so, and all
// store the same addresses. The kernel's source has no such store, so ThreadSanitizer must not see it.
SIMT_SLOTS inline void place_dynamic_shared(Place here) {
  for (const DynamicShared* one = DynamicShared::first(); one; one = one->next)
    *one->where = dynamic_shared(here);
}

// A block with more threads than the kernel's __launch_bounds__: CUDA refuses the launch. The translator calls
// this in kernels that have bounds.
inline void check_launch_bounds(unsigned most, Place here) {
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  if (threads > most)
    fault(ATTN_REPORT_LAUNCH, current, here, "a block of %u threads: the kernel has __launch_bounds__(%u)",
          threads, most);
}

// `named`: `kernel` is the address of the kernel, not only one in its module.
template <class Call>
void launch_shape(const Shape& shape, const void* kernel, bool named, const Call& call) {
  if (host.env == nullptr) {
    fprintf(stderr, "%s:%d: a launch outside of a call of the plug-in's run()\n", shape.here.file,
            shape.here.line);
    abort();
  }
  char reason[256];
  int32_t refused_bytes;
  if (!attn::launch_is_legal(shape.grid, shape.block, shape.bytes, host.env, reason, sizeof reason,
                             &refused_bytes)) {
    if (refused_bytes) refused_bytes += static_cast<int32_t>(static_shared(kernel));
    return refuse_launch(cudaErrorInvalidConfiguration, reason, shape.here, refused_bytes);
  }
  const size_t asked = named ? opt_in_of(kernel) : largest_opt_in();
  if (shape.bytes > 48 * 1024 && shape.bytes > asked) {
    snprintf(reason, sizeof reason,
             "%zu bytes of dynamic shared memory: a kernel must ask for more than 48 KiB with "
             "cudaFuncSetAttribute; "
             "this one may have %zu",
             shape.bytes, std::max<size_t>(asked, 48 * 1024));
    return refuse_launch(cudaErrorInvalidValue, reason, shape.here);
  }
  struct Whole {
    const Call& call;
    Place here;
  } whole{call, shape.here};
  const auto entry = [](const void* opaque) {
    const Whole& whole = *static_cast<const Whole*>(opaque);
    place_dynamic_shared(whole.here);
    whole.call();
  };
  const attn_status status = launch({{shape.grid.x, shape.grid.y, shape.grid.z},
                                     {shape.block.x, shape.block.y, shape.block.z},
                                     shape.bytes,
                                     host.env,
                                     entry,
                                     &whole,
                                     kernel,
                                     asked > 0});
  if (status == ATTN_OK) return;
  remember(cudaErrorLaunchFailure);
  HostCall::fail(status);
}

// The launch of a kernel whose address has the types of its parameters.
template <class Given, class... P>
struct PointerLaunch {
  void (*kernel)(P...);
  Given given;
  Shape shape;

  void operator()(P... arguments) const {
    const std::tuple<std::remove_const_t<P>...> all(std::move(arguments)...);
    launch_shape(shape, reinterpret_cast<const void*>(kernel), true, [&] { std::apply(kernel, all); });
  }
  // A launch without the last arguments, which have defaults.
  template <class... A>
    requires(sizeof...(A) < sizeof...(P))
  void operator()(A... arguments) const {
    launch_shape(shape, reinterpret_cast<const void*>(kernel), true, [&] {
      std::tuple<A...> own(arguments...);
      std::apply(given, own);
    });
  }
};

// The launch of a template, whose types follow from the arguments.
template <class Given>
struct DeducedLaunch {
  Given given;
  Shape shape;

  template <class... A>
  void operator()(A... arguments) const {
    launch_shape(shape, reinterpret_cast<const void*>(&anchor<A...>), false, [&] {
      std::tuple<A...> own(arguments...);
      std::apply(given, own);
    });
  }
  template <class... A>
  static void anchor() {}
};

struct PointerTo {
  template <class... P>
  auto operator()(void (*kernel)(P...)) const {
    return kernel;
  }
};

template <class Given, class... P>
PointerLaunch<Given, P...> with_pointer(void (*kernel)(P...), Given given, const Shape& shape) {
  return {kernel, given, shape};
}

template <class Use, class Given>
auto launch_of(Use use, Given given, Place here, dim3 grid, dim3 block, size_t bytes = 0,
               cudaStream_t = nullptr) {
  const Shape shape = {here, grid, block, bytes};
  if constexpr (std::is_invocable_v<Use, PointerTo>) {
    return with_pointer(use(PointerTo()), given, shape);
  } else {
    return DeducedLaunch<Given>{given, shape};
  }
}

}  // namespace simt

// The launch of a kernel by its name.
template <class... P>
inline cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void** arguments, size_t bytes,
                                    cudaStream_t = nullptr) {
  [&]<size_t... kAt>(std::index_sequence<kAt...>) {
    const auto given = [&](auto&... all) { kernel(all...); };
    simt::with_pointer(kernel, given, {simt::Place::now(), grid, block, bytes})(
        *static_cast<std::remove_const_t<P>*>(arguments[kAt])...);
  }(std::index_sequence_for<P...>());
  return simt::host.last;
}
