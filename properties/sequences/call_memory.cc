#include "properties/sequences/call_memory.h"

#include <algorithm>
#include <cstring>

#include "reference/call/tensor_spec.h"

namespace attnfuzz::sequences {

CallMemory::~CallMemory() {
  for (const auto& [t, array] : arrays_) arena_.forget(t);
}

std::byte* CallMemory::lay(TensorId t, std::span<const std::byte> content, bool changes, uint64_t align) {
  const uint64_t step = std::max(align, kRedzone);
  std::byte* const end = arena_.slot_end(t);
  auto address = reinterpret_cast<uintptr_t>(end) - kRedzone - content.size();
  address -= address % step;
  auto* const first = reinterpret_cast<std::byte*>(address);
  Array array = {first - kRedzone, {}, kRedzone, content.size(), changes};
  array.before.resize(static_cast<size_t>(end - array.zone));
  for (size_t n = 0; n < array.before.size(); ++n)
    array.before[n] = static_cast<std::byte>(kInputRedzone >> (n % 4 * 8) & 0xff);
  if (!content.empty()) std::memcpy(array.before.data() + kRedzone, content.data(), content.size());
  if (const auto old = arrays_.find(t); old != arrays_.end() && old->second.zone < array.zone) arena_.forget(t);
  std::memcpy(array.zone, array.before.data(), array.before.size());
  arrays_.insert_or_assign(t, std::move(array));
  return first;
}

void CallMemory::remove(TensorId t) {
  if (arrays_.erase(t) > 0) arena_.forget(t);
}

void CallMemory::clear() {
  for (auto at = arrays_.begin(); at != arrays_.end();) {
    const bool pool = at->first == TensorId::kCacheK || at->first == TensorId::kCacheV;
    if (!pool) arena_.forget(at->first);
    at = pool ? std::next(at) : arrays_.erase(at);
  }
}

std::span<std::byte> CallMemory::bytes(TensorId t) {
  Array& array = arrays_.at(t);
  return {array.zone + array.first, array.size};
}

std::vector<MemoryRange> CallMemory::ranges() const {
  std::vector<MemoryRange> ranges;
  for (const auto& [t, array] : arrays_) {
    const uint64_t begin = arena_.offset(array.zone);
    ranges.push_back({t, begin, begin + array.before.size()});
  }
  return ranges;
}

std::optional<std::string> CallMemory::written_beside() const {
  for (const auto& [t, array] : arrays_) {
    const std::string name = kTensorNames[static_cast<size_t>(t)];
    const size_t end = array.first + array.size;
    const auto same = [&](size_t from, size_t to) {
      return std::memcmp(array.zone + from, array.before.data() + from, to - from) == 0;
    };
    if (!same(0, array.first)) return "memory before " + name + " was written";
    if (!same(end, array.before.size())) return "memory behind " + name + " was written";
    if (!array.changes && !same(array.first, end)) return name + " was written, which is only read";
  }
  return std::nullopt;
}

}  // namespace attnfuzz::sequences
