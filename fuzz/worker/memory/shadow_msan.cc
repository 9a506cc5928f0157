#include <sanitizer/msan_interface.h>

#include <array>
#include <cstring>
#include <string>

#include "fuzz/worker/memory/owned_rows.h"
#include "fuzz/worker/memory/shadow.h"
#include "fuzz/worker/memory/shadow_rows.h"

extern "C" __attribute__((tls_model("initial-exec"))) thread_local char __msan_param_tls[800];
extern "C" __attribute__((tls_model("initial-exec"))) thread_local char __msan_retval_tls[800];

namespace attnfuzz::worker {
namespace {

bool is_output(TensorId tensor, Stage stage) {
  const Role role = spec_of(tensor).role;
  return role == Role::kOutput || (role == Role::kScratch && stage != Stage::kReduce);
}

}  // namespace

void defined(const void* data, size_t bytes) {
  std::memset(__msan_param_tls, 0, sizeof __msan_param_tls);
  // Code without instrumentation does not report whether its return value is defined.
  std::memset(__msan_retval_tls, 0, sizeof __msan_retval_tls);
  if (data) __msan_unpoison(data, bytes);
}

bool undefined_status() {
  uint32_t shadow;
  std::memcpy(&shadow, __msan_retval_tls, sizeof shadow);
  return shadow != 0;
}

void before_run(const wire::Request& request, std::span<const MemoryRange> ranges, const Arena& arena) {
  for (const MemoryRange& range : ranges) __msan_poison(arena.base() + range.begin, range.end - range.begin);
  for (int t = 0; t < kTensorCount; ++t) {
    const auto tensor = static_cast<TensorId>(t);
    if (is_output(tensor, request.stage)) continue;
    const bool all = for_each_row(request, tensor, [&](uint64_t offset, uint64_t bytes, const auto&) {
      __msan_unpoison(arena.base() + offset, bytes);
    });
    if (all) continue;
    // There are too many rows to mark. The NaN pattern in the redzones must suffice.
    // An input may lie where an output does.
    const auto offset = [&](TensorId id) { return request.tensors[static_cast<size_t>(id)].offset; };
    for (const MemoryRange& range : ranges) {
      if (offset(range.tensor) == offset(tensor))
        __msan_unpoison(arena.base() + range.begin, range.end - range.begin);
    }
  }
}

std::optional<std::string> after_run(const wire::Request& request, const Arena& arena) {
  if (request.stage == Stage::kPartial) return std::nullopt;
  std::optional<std::string> wrong;
  for (const TensorSpec& spec : kTensors) {
    const TensorId tensor = spec.id;
    if (!is_written(spec)) continue;
    if (request.tensors[static_cast<size_t>(tensor)].offset == Arena::kNowhere) continue;
    const bool packed = is_packed(request.problem, tensor);
    const int64_t rows = packed ? owned_rows(request, arena, tensor) : shape_of(request, tensor).size[2];
    for_each_row(request, tensor, [&](uint64_t offset, uint64_t bytes, const std::array<int64_t, 4>& index) {
      if (wrong || index[2] >= rows) return;
      const auto at = __msan_test_shadow(arena.base() + offset, bytes);
      if (at < 0) return;
      std::array<int64_t, 4> found = index;
      found[3] += static_cast<int64_t>(at) / shape_of(request, tensor).element;
      wrong = name_of(tensor);
      for (size_t n = 0; n < 4; ++n)
        *wrong += std::string(n == 0 ? "(" : ",") + index_names(spec)[n] + "=" + std::to_string(found[n]);
      *wrong += ") depends on memory or registers that nothing defined";
    });
  }
  return wrong;
}

}  // namespace attnfuzz::worker
