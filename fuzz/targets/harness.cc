// libFuzzer's entry points, for a target over cases: see target.h.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "fuzz/check/check.h"
#include "fuzz/targets/flags.h"
#include "fuzz/targets/open.h"
#include "fuzz/targets/target.h"
#include "fuzz/targets/unit.h"
#include "properties/case/codec/codec.h"
#include "properties/case/words.h"
#include "properties/draw/mutate.h"
#include "properties/reduce/reproducer.h"

namespace attnfuzz {
namespace {

// The state of a fuzzer's process; libFuzzer's entry points are free functions.
struct Process {
  Flags flags;
  std::unique_ptr<Bench> bench;
  bool said = false;  // true if an unreadable unit was reported
};
Process& process() {
  static Process the_process;
  return the_process;
}

// Writes a failure to a file that replays without libFuzzer, then ends this process, so that libFuzzer
// keeps the unit.
[[noreturn]] void fail(Judged judged) {
  Bench& bench = *process().bench;
  const std::string history = needs_history(bench, judged);
  if (!history.empty()) judged.verdict.message += " (" + history + ")";
  Target& target = bench.target(judged.kernel);
  const Reproducer r = reproducer_of(judged.c, judged.verdict, target.info(), target);
  const std::string path = process().flags.out + reproducer_name(r) + ".attn.json";
  std::fprintf(stderr, "%s: %s: %s\n  %s\n", target.info().name.c_str(), to_string(judged.verdict.kind),
               judged.verdict.message.c_str(), describe(judged.c).c_str());
  try {
    write_file(path, encode(r, path));
    std::fprintf(stderr, "  reproducer: %s\n", path.c_str());
  } catch (const std::exception& e) {
    std::fprintf(stderr, "  no reproducer was written: %s\n", e.what());
  }
  std::abort();
}

}  // namespace
}  // namespace attnfuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace attnfuzz;
  Process& p = process();
  p.flags = parse_flags(*argc, *argv);
  p.bench = std::make_unique<Bench>(open_kernels(kFuzzTarget.name, kFuzzTarget.kernels, p.flags));
  p.bench->wanted_property = p.flags.property;
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attnfuzz;
  Bench& bench = *process().bench;
  std::string why;
  const auto c = case_of({reinterpret_cast<const char*>(data), size}, &why);
  // Arbitrary bytes are refused silently. A file of another version belongs to somebody's corpus, so it is
  // reported.
  if (!c && size > 0 && data[0] == '{' && !process().said) {
    std::fprintf(stderr, "attnfuzz: a unit of the corpus is refused (later ones are not reported): %s\n",
                 why.c_str());
    process().said = true;
  }
  if (!c || illegal(*c) || !affordable(*c, bench.most())) return -1;
  Judged judged = kFuzzTarget.judge(bench, *c);
  if (judged.verdict.outcome == Outcome::kFail) fail(std::move(judged));
  return judged.verdict.outcome == Outcome::kRefused ? -1 : 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  using namespace attnfuzz;
  const std::string_view unit(reinterpret_cast<const char*>(data), size);
  const std::string next = mutated(unit, process().bench->config(), seed, max_size);
  if (next.empty()) return size;
  std::memcpy(data, next.data(), next.size());
  return next.size();
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t* a, size_t a_size, const uint8_t* b, size_t b_size,
                                            uint8_t* out, size_t max_size, unsigned int seed) {
  using namespace attnfuzz;
  const std::string_view mother(reinterpret_cast<const char*>(a), a_size);
  const std::string_view father(reinterpret_cast<const char*>(b), b_size);
  const std::string child = crossed(mother, father, process().bench->config(), seed, max_size);
  std::memcpy(out, child.data(), child.size());
  return child.size();
}
