#include "fuzz/host/site.h"

#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "fuzz/host/worker_description.h"

namespace attnfuzz {
namespace {

// On a busy machine the worker may wait for a processor before it can answer.
constexpr int kWaits = 5000, kWaitMicroseconds = 200, kPauseMicroseconds = 700;

// "libmine.so+0x1a2f"; empty for none.
std::string place_in(const wire::Site& site, uint64_t offset) {
  std::string module(site.module, strnlen(site.module, sizeof site.module));
  for (char& c : module) c = c > ' ' && c < 0x7f && c != '/' ? c : '?';
  char text[32];
  std::snprintf(text, sizeof text, "+0x%llx", static_cast<unsigned long long>(offset));
  return module.empty() ? "" : module + text;
}

}  // namespace

std::string site_of_exit(const wire::Wire& wire) {
  const wire::Crash crash = wire.crash;
  const char* name = crash.signal > 0 && crash.signal < 65 ? sigabbrev_np(crash.signal) : nullptr;
  const std::string place = place_in(crash.site, crash.site.offset);
  return name == nullptr || place.empty() ? "" : std::string("SIG") + name + " at " + place;
}

std::string site_of_hang(WorkerProcess& process) {
  const wire::Samples& samples = process.wire().samples;
  std::map<std::string, int> functions;
  for (uint32_t n = 0; n < wire::kMostSamples; ++n) {
    if (!process.ask_where()) break;
    int waits = 0;
    while (samples.taken.load(std::memory_order_acquire) <= n && ++waits < kWaits) usleep(kWaitMicroseconds);
    if (waits == kWaits) break;
    const wire::Site site = samples.site[n];
    ++functions[place_in(site, site.function)];
    usleep(kPauseMicroseconds);
  }
  functions.erase("");
  const auto most = std::ranges::max_element(functions, {}, [](const auto& one) { return one.second; });
  return "stuck in " + (most != functions.end() ? most->first : call_in_words(process.wire().doing));
}

}  // namespace attnfuzz
