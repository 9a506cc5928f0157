#include "fuzz/worker/describe.h"

#include <cstring>

#include "kernels/identity.h"

namespace attnfuzz::worker {
namespace {

class Text {
 public:
  explicit Text(wire::Description& d) : d_(d) { d_.text_bytes = 0; }
  bool add(const char* s) {
    const size_t length = s ? std::strlen(s) : 0;
    // Keeps a byte for the NUL of each string that becomes empty.
    if (d_.text_bytes + length + 1 > sizeof d_.text - 64) return add_empty(), false;
    std::memcpy(d_.text + d_.text_bytes, s ? s : "", length + 1);
    d_.text_bytes += static_cast<uint32_t>(length + 1);
    return true;
  }

 private:
  void add_empty() {
    if (d_.text_bytes < sizeof d_.text) d_.text[d_.text_bytes++] = '\0';
  }
  wire::Description& d_;
};

}  // namespace

void describe(const Library& library, const std::string& device, const Arena& arena, wire::Description& out) {
  const attn_kernel& k = *library.kernel;
  out.backend = k.backend;
  out.features = k.features;
  out.cache = library.cache;
  out.has_domain = attn_read(&out.domain, sizeof out.domain, k.domain, sizeof(uint32_t));
  out.has_stages = k.partials != nullptr;
  out.has_build = k.build != nullptr;
  out.arena_base = reinterpret_cast<uint64_t>(arena.base());
  out.library_begin = library.begin;
  out.library_end = library.end;

  Text text(out);
  text.add(k.name);
  text.add(k.description);
  text.add(k.build ? k.build->hash : nullptr);
  text.add(k.build ? k.build->compiler : nullptr);
  text.add(k.build ? k.build->flags : nullptr);
  text.add(k.build ? k.build->root : nullptr);
  text.add(device.c_str());
  text.add(library.note.c_str());
  out.kernel_count = out.variant_count = out.file_count = 0;
  for (const attn_kernel& other : library.all) {
    if (!text.add(other.name) || !text.add(other.backend == ATTN_CUDA ? "cuda" : "cpu")) break;
    ++out.kernel_count;
  }
  for (uint32_t i = 0; i < k.variant_count; ++i) {
    if (!text.add(k.variants[i])) return;
    ++out.variant_count;
  }
  const bool files = k.build && k.build->files && k.build->file_hashes;
  for (uint32_t i = 0; files && i < k.build->file_count; ++i) {
    if (!text.add(k.build->files[i]) || !text.add(k.build->file_hashes[i])) return;
    ++out.file_count;
  }
  // Adds the worker's own sources, because results depend on the executor as much as on the kernel.
  out.worker_file_count = 0;
  text.add(attn_build_identity.hash);
  text.add(attn_build_identity.root);
  for (uint32_t i = 0; i < attn_build_identity.file_count; ++i) {
    if (!text.add(attn_build_identity.files[i]) || !text.add(attn_build_identity.file_hashes[i])) return;
    ++out.worker_file_count;
  }
}

}  // namespace attnfuzz::worker
