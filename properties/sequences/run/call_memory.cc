#include "properties/sequences/run/call_memory.h"

#include <algorithm>
#include <cstring>

#include "reference/call/tensor_spec.h"

namespace attnfuzz::sequences {

namespace {

// Fills with whole words of poison, because arrays and slots begin and end at multiples of kRedzone.
void poison(std::span<std::byte> bytes) {
  for (size_t n = 0; n < bytes.size(); n += sizeof kInputRedzone)
    std::memcpy(&bytes[n], &kInputRedzone, sizeof kInputRedzone);
}

}  // namespace

CallMemory::~CallMemory() {
  for (const auto& [t, used] : used_) arena_.forget(t);
}

std::byte* CallMemory::lay(TensorId t, std::span<const std::byte> content, bool changes, uint64_t align) {
  const uint64_t step = std::max(align, kRedzone);
  std::byte* const end = arena_.slot_end(t);
  auto address = reinterpret_cast<uintptr_t>(end) - kRedzone - content.size();
  address -= address % step;
  auto* const first = reinterpret_cast<std::byte*>(address);
  Used& used = used_.try_emplace(t, Used{end, {}, 0, 0, false, false}).first->second;
  used.begin = std::min(used.begin, first - kRedzone);
  used.before.resize(static_cast<size_t>(end - used.begin));
  used.first = static_cast<size_t>(first - used.begin), used.size = content.size();
  used.changes = changes, used.there = true;
  poison(used.before);
  if (!content.empty()) std::memcpy(used.before.data() + used.first, content.data(), content.size());
  std::memcpy(used.begin, used.before.data(), used.before.size());
  return first;
}

void CallMemory::clear() {
  for (auto at = used_.begin(); at != used_.end();) {
    auto& [t, used] = *at;
    const bool pool = t == TensorId::kCacheK || t == TensorId::kCacheV;
    if (!pool && used.before.size() > kMostKept) {
      arena_.forget(t);
      at = used_.erase(at);
      continue;
    }
    if (!pool && used.there) {
      poison(used.before);
      std::memcpy(used.begin, used.before.data(), used.before.size());
      used.there = false;
    }
    ++at;
  }
}

std::span<std::byte> CallMemory::bytes(TensorId t) {
  Used& used = used_.at(t);
  return {used.begin + used.first, used.size};
}

std::vector<MemoryRange> CallMemory::ranges() const {
  std::vector<MemoryRange> ranges;
  for (const auto& [t, used] : used_) {
    if (!used.there) continue;
    const uint64_t begin = arena_.offset(used.begin + used.first - kRedzone);
    ranges.push_back({t, begin, arena_.offset(used.begin) + used.before.size()});
  }
  return ranges;
}

std::optional<std::string> CallMemory::written_beside() const {
  for (const auto& [t, used] : used_) {
    const std::string name = kTensorNames[static_cast<size_t>(t)];
    const size_t behind = used.first + used.size, all = used.before.size();
    const auto same = [&](size_t from, size_t to) {
      return std::memcmp(used.begin + from, used.before.data() + from, to - from) == 0;
    };
    if (!used.there) {
      if (!same(0, all)) return "memory of " + name + ", an array of an earlier call, was written";
      continue;
    }
    if (!same(0, used.first)) return "memory before " + name + " was written";
    if (!same(behind, all)) return "memory behind " + name + " was written";
    if (!used.changes && !same(used.first, behind)) return name + " was written, which is only read";
  }
  return std::nullopt;
}

}  // namespace attnfuzz::sequences
