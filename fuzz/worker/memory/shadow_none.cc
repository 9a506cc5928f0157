#include "fuzz/worker/memory/shadow.h"

namespace attnfuzz::worker {

void defined(const void*, size_t) {}
bool undefined_status() { return false; }
void before_run(const wire::Request&, std::span<const MemoryRange>, const Arena&) {}
std::optional<std::string> after_run(const wire::Request&, const Arena&) { return std::nullopt; }

}  // namespace attnfuzz::worker
