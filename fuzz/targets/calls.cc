// Fuzzes sequences of calls on a paged cache: each call is judged, and the whole cache after it (properties/sequences).
//
// A unit that begins with '{' is the file of a sequence (.calls.json). The bytes of any other unit are the choices of a
// draw. Mutated units are files, so that `attnfuzz sequence --replay` runs what libFuzzer keeps. A failure is written
// beside libFuzzer's artifact, with the sequences that it needs before it in the same process.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "base/files.h"
#include "base/printable.h"
#include "fuzz/targets/counters.h"
#include "fuzz/targets/flags.h"
#include "fuzz/targets/open.h"
#include "properties/judge/property.h"
#include "properties/sequences/reduce/chain.h"
#include "properties/sequences/draw/choices.h"
#include "properties/sequences/session/codec.h"
#include "properties/sequences/draw/draw.h"
#include "properties/sequences/draw/mutate.h"
#include "properties/sequences/run/relations.h"

namespace attnfuzz::sequences {
namespace {

constexpr size_t kOfProcess = 50;  // units that run in one process of each library

// The state of a fuzzer's process; libFuzzer's entry points are free functions.
struct Process {
  Flags flags;
  std::vector<std::unique_ptr<Target>> opened;
  SessionTargets targets;
  uint64_t features = 0;
  std::vector<Session> before;  // that already ran in the libraries' processes
};
Process& process() {
  static Process the_process;
  return the_process;
}

// The sequences of a unit; nothing if it is the text of something else.
std::optional<Chain> chain_of(std::string_view unit) {
  if (!unit.starts_with('{')) {
    BytesRng choices(unit);
    return Chain{draw_session(choices, process().features), {}};
  }
  auto read = decode_session(unit);
  if (auto* file = std::get_if<SessionFile>(&read)) return std::move(file->chain);
  return std::nullopt;
}

[[noreturn]] void fail(const Chain& chain, const SessionResult& failed) {
  const SessionTargets& targets = process().targets;
  const ReducedChain found = reduce_chain(
      chain, failed, [&](const Chain& c) { return check_chain(c, targets); }, 0);
  const Verdict& verdict = found.result.verdict;
  const std::string path =
      process().flags.out + "calls-" + found.result.call + "-" + to_string(verdict.kind) + ".calls.json";
  std::fprintf(stderr, "%s of %s: %s: %s%s\n", found.result.call.c_str(), found.result.kernel.c_str(),
               to_string(verdict.kind), printable(verdict.message).c_str(),
               found.again ? "" : " (it did not fail again in a new process)");
  try {
    std::vector<std::string> kernels;
    for (const auto& target : process().opened) kernels.push_back(target->info().name);
    write_file(path, encode(found.chain, {kernels, to_string(verdict.kind), verdict.message}));
    std::fprintf(stderr, "  sequence: %s\n", path.c_str());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "  no file was written: %s\n", e.what());
  }
  std::abort();
}

// Copies a text to a unit of at most `most` bytes, or leaves the unit.
size_t put(const std::string& text, uint8_t* data, size_t size, size_t most) {
  if (text.size() > most) return size;
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

}  // namespace
}  // namespace attnfuzz::sequences

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace attnfuzz;
  using namespace attnfuzz::sequences;
  Process& p = process();
  p.flags = parse_flags(*argc, *argv);
  if (!p.flags.property.empty()) bad_use("fuzz_calls judges sequences of calls, and has no properties");
  p.opened = open_kernels("fuzz_calls", {"cache", "splitk", "merge"}, p.flags);
  std::vector<SessionTarget> all;
  for (const auto& target : p.opened) all.push_back({target.get(), executor()});
  p.targets = SessionTargets(all);
  if (p.targets.empty()) bad_use("none of these kernels has a call on pages");
  p.features = common_features(p.targets);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attnfuzz;
  using namespace attnfuzz::sequences;
  Process& p = process();
  const auto chain = chain_of({reinterpret_cast<const char*>(data), size});
  if (!chain) return -1;
  if (!chain->before.empty() || p.before.size() >= kOfProcess) {
    p.targets.renew();
    p.before.clear();
  }
  uint64_t calls = 0;
  const auto judge = [&](const Session& session) {
    const SessionResult result = check_session(session, p.targets);
    for (size_t n = 0; n < p.opened.size(); ++n) count_edges(n, p.opened[n]->coverage());
    if (result.verdict.outcome == Outcome::kFail) fail({session, p.before}, result);
    p.before.push_back(session);
    calls += result.calls;
  };
  for (const Session& session : chain->before) judge(session);
  judge(chain->last);
  return calls > 0 ? 0 : -1;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  using namespace attnfuzz::sequences;
  const auto chain = chain_of({reinterpret_cast<const char*>(data), size});
  SeededRng choices(seed);
  const uint64_t features = process().features;
  const Session next = chain ? mutate_session(chain->last, choices, features) : draw_session(choices, features);
  return put(encode({next, {}}), data, size, max_size);
}
