// On the CPU the arena is the kernel's memory: nothing is copied.
#include <algorithm>
#include <vector>

#include "fuzz/worker/memory/memory.h"

namespace attnfuzz::worker {
namespace {

class CpuMemory final : public Memory {
 public:
  explicit CpuMemory(Arena& arena) : arena_(arena) {}
  attn_backend backend() const override { return ATTN_CPU; }
  std::string device() const override { return ""; }
  void limit(attn_env&) const override {}
  void* address(uint64_t offset) override { return arena_.at(offset); }
  Failure fits(std::span<const MemoryRange>) override { return std::nullopt; }
  Failure to_kernel(std::span<const MemoryRange>, int) override { return std::nullopt; }
  void* stream(int) override { return nullptr; }
  Failure finish(int) override { return std::nullopt; }
  Failure from_kernel(std::span<const MemoryRange>, int) override { return std::nullopt; }
  Failure open_probe(uint64_t capacity, attn_probe& probe) override {
    probed_.assign(capacity, 0);
    probe_used_ = 0;
    probe.values = probed_.data();
    probe.capacity = capacity;
    probe.used = &probe_used_;
    return std::nullopt;
  }
  Failure read_probe(const attn_probe&, float* values, uint64_t* used) override {
    *used = probe_used_;
    std::copy_n(probed_.begin(), std::min<uint64_t>(*used, probed_.size()), values);
    return std::nullopt;
  }

 private:
  Arena& arena_;
  std::vector<float> probed_;
  unsigned long long probe_used_ = 0;
};

}  // namespace

std::unique_ptr<Memory> open_memory(Arena& arena, std::string*) { return std::make_unique<CpuMemory>(arena); }

}  // namespace attnfuzz::worker
