// A library with a kernel for each threshold. Each wraps a kernel that is built already: if the problem meets
// the threshold, the inner kernel gets a changed problem. So nothing is compiled for CUDA. The last two
// kernels, fa1-as-it-is and splitk-as-it-is, pass every problem on unchanged: a check must find nothing in
// them.
#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "tests/bugs/thresholds/thresholds.h"

namespace attnfuzz::thresholds {
namespace {

constexpr uint32_t kAll = kCount + 2;
constexpr const char* kWhole[] = {"fa1", "splitk"};

const char* kernel_of(uint32_t n) { return n < kCount ? kThresholds[n].kernel : kWhole[n - kCount]; }

// The kernel of this name and of the same back end, from the folder ../lib of this library.
const attn_kernel* inner_named(const std::string& name) {
  Dl_info own = {};
  if (dladdr(reinterpret_cast<const void*>(&kernel_of), &own) == 0) return nullptr;
  std::string path = own.dli_fname;
  const size_t slash = path.rfind('/');
  path = (slash == std::string::npos ? "." : path.substr(0, slash)) + "/../lib/libattn_" + name +
         ATTN_SUFFIX ".so";
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "thresholds: %s\n", dlerror());
    return nullptr;
  }
  const auto at = reinterpret_cast<decltype(&attn_kernel_at)>(dlsym(library, "attn_kernel_at"));
  return at != nullptr ? at(0) : nullptr;
}

const attn_kernel* inner(uint32_t n) {
  static const std::array<const attn_kernel*, 2> all = {inner_named(kWhole[0]), inner_named(kWhole[1])};
  return all[std::string(kernel_of(n)) == kWhole[1] ? 1 : 0];
}

attn_problem computed(uint32_t n, const attn_problem& asked) {
  attn_problem p = asked;
  if (n < kCount && kThresholds[n].there(p)) kThresholds[n].wrong(p);
  return p;
}

template <uint32_t kNumber>
attn_status run(const attn_problem* p, const attn_tensors* t, const attn_plan* plan, const attn_env* env) {
  const attn_problem instead = computed(kNumber, *p);
  return inner(kNumber)->run(&instead, t, plan, env);
}

template <uint32_t... kNumbers>
std::array<attn_kernel, kAll> kernels(std::integer_sequence<uint32_t, kNumbers...>) {
  static const std::string names[] = {"fa1-as-it-is", "splitk-as-it-is"};
  std::array<attn_kernel, kAll> made = {};
  const auto make = [&]<uint32_t kNumber>(std::integral_constant<uint32_t, kNumber>) {
    const attn_kernel* from = inner(kNumber);
    if (from == nullptr) return;
    attn_kernel& to = made[kNumber];
    to = *from;
    to.size = sizeof to;
    to.name = kNumber < kCount ? kThresholds[kNumber % kCount].name
                               : names[kNumber >= kCount ? kNumber - kCount : 0].c_str();
    to.description = kNumber < kCount ? kThresholds[kNumber % kCount].says : "handed on unchanged";
    to.run = run<kNumber>;  // the stages of a kernel with splits stay right
  };
  (make(std::integral_constant<uint32_t, kNumbers>()), ...);
  return made;
}

}  // namespace
}  // namespace attnfuzz::thresholds

extern "C" __attribute__((visibility("default"))) const attn_kernel* attn_kernel_at(uint32_t index) {
  using namespace attnfuzz::thresholds;
  static const auto all = kernels(std::make_integer_sequence<uint32_t, kAll>());
  return index < kAll && all[index].name != nullptr ? &all[index] : nullptr;
}
