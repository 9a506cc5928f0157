#include "fuzz/worker/coverage.h"

#include <algorithm>
#include <cstring>

namespace attnfuzz::worker {
namespace {

// The counters of one loaded library: two arrays with one byte per edge.
struct Counters {
  uint8_t *counts, *counts_end;  // how often, modulo 256
  bool *taken, *taken_end;       // whether at all
  uint32_t size() const { return static_cast<uint32_t>(counts_end - counts); }
  bool has_flags() const { return taken_end - taken == counts_end - counts; }
};

constexpr int kMaxLibraries = 16;
// A global, because constructors of kernel libraries fill it in and take no arguments.
Counters libraries[kMaxLibraries];
int library_count = 0;

// The two halves of a library's counters are announced one after the other; which
// comes first is the compiler's choice.
Counters* half_announced(bool counts) {
  if (library_count > 0) {
    Counters& last = libraries[library_count - 1];
    if (counts ? !last.counts && last.taken : !last.taken && last.counts) return &last;
  }
  return library_count < kMaxLibraries ? &libraries[library_count++] : nullptr;
}

}  // namespace

void clear_coverage() {
  for (int i = 0; i < library_count; ++i) {
    const Counters& c = libraries[i];
    std::fill(c.counts, c.counts_end, uint8_t{0});
    std::fill(c.taken, c.taken_end, false);
  }
}

uint32_t read_coverage(uint8_t* counters, uint32_t capacity) {
  uint32_t used = 0;
  for (int i = 0; i < library_count; ++i) {
    const Counters& c = libraries[i];
    const uint32_t n = std::min(c.size(), capacity - used);
    if (n == 0) continue;
    std::memcpy(counters + used, c.counts, n);
    if (c.has_flags()) {
      for (uint32_t k = 0; k < n; ++k) {
        if (c.taken[k] && counters[used + k] == 0) counters[used + k] = 255;
      }
    }
    used += n;
  }
  return used;
}

namespace {

// Every object file of a library announces the library's counters, so they are announced several times.
template <class T>
bool known(T* Counters::* begin, const T* start) {
  for (int i = 0; i < library_count; ++i) {
    if (libraries[i].*begin == start) return true;
  }
  return false;
}

}  // namespace
}  // namespace attnfuzz::worker

// Code that the compiler adds to an instrumented library calls these. A sanitizer's runtime has weak functions
// of these names, which do nothing; these replace them.
extern "C" {

__attribute__((visibility("default"))) void __sanitizer_cov_8bit_counters_init(uint8_t* start, uint8_t* stop) {
  using namespace attnfuzz::worker;
  if (start == stop || known(&Counters::counts, start)) return;
  if (Counters* c = half_announced(true)) c->counts = start, c->counts_end = stop;
}

__attribute__((visibility("default"))) void __sanitizer_cov_bool_flag_init(bool* start, bool* stop) {
  using namespace attnfuzz::worker;
  if (start == stop || known(&Counters::taken, start)) return;
  if (Counters* c = half_announced(false)) c->taken = start, c->taken_end = stop;
}
}
