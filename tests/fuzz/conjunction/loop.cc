// Mutation and crossover guided by coverage and situations, without libFuzzer. Cases that
// show something new are kept. To choose the next parent, the loop draws a few of them and
// takes the one with the rarest feature. For comparison; see conjunction.py.
//
//   fuzz_conjunction_loop SEED MOST --kernel=LIBRARY      prints the number of cases
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <unordered_map>

#include "fuzz/host/kernel_registry.h"
#include "fuzz/targets/flags.h"
#include "fuzz/targets/target.h"
#include "properties/data/fills.h"
#include "properties/draw/mutate.h"
#include "properties/judge/situations.h"

namespace attnfuzz {
namespace {

class Corpus {
 public:
  bool empty() const { return entries_.empty(); }

  void see(const Case& c, const std::vector<uint32_t>& features) {
    bool fresh = false;
    for (const uint32_t feature : features) fresh |= times_[feature]++ == 0;
    if (fresh) entries_.push_back({c, features});
  }

  const Case& pick(uint64_t random) const {
    constexpr uint64_t kAsked = 4;
    const Entry* rarest = nullptr;
    uint64_t fewest = 0;
    for (uint64_t i = 0; i < kAsked; ++i) {
      const Entry& entry = entries_[mix(random, i, 0, 0, 0) % entries_.size()];
      uint64_t times = ~uint64_t{0};
      for (const uint32_t feature : entry.features) times = std::min(times, times_.at(feature));
      if (rarest != nullptr && times >= fewest) continue;
      rarest = &entry;
      fewest = times;
    }
    return rarest->c;
  }

 private:
  struct Entry {
    Case c;
    std::vector<uint32_t> features;
  };
  std::vector<Entry> entries_;
  std::unordered_map<uint32_t, uint64_t> times_;  // how often each feature was seen
};

Case next(const Corpus& corpus, const GeneratorConfig& config, uint64_t seed, uint64_t i) {
  const uint64_t random = mix(seed, i, 1, 0, 0), own = mix(seed, i, 2, 0, 0);
  if (corpus.empty() || random % 5 == 0) return draw(config, seed, i);
  const Case& a = corpus.pick(mix(seed, i, 3, 0, 0));
  if (random / 5 % 5 == 0) return cross(a, corpus.pick(mix(seed, i, 4, 0, 0)), config, own);
  return mutate(a, config, own);
}

}  // namespace
}  // namespace attnfuzz

int main(int argc, char** argv) {
  using namespace attnfuzz;
  const Flags flags = parse_flags(argc, argv);
  if (argc < 3 || flags.kernels.size() != 1)
    bad_use("a seed, a number of cases and one --kernel=LIBRARY are needed");
  const uint64_t seed = std::strtoull(argv[1], nullptr, 10), most = std::strtoull(argv[2], nullptr, 10);
  std::string error;
  const auto library = find_kernel(flags.kernels[0], {ATTN_CPU, flags.build_kind}, &error);
  if (!library) bad_use(error);
  std::vector<std::unique_ptr<Target>> targets;
  targets.push_back(open_target(worker_options(*library), &error));
  if (targets[0] == nullptr) bad_use(error);
  Bench bench(std::move(targets));
  Corpus corpus;
  for (uint64_t i = 0; i < most; ++i) {
    const Judged judged = bench.judge(0, next(corpus, bench.config(), seed, i), "reference");
    if (judged.verdict.outcome == Outcome::kFail) {
      std::printf("%s\ncases: %llu\n", judged.verdict.message.c_str(), static_cast<unsigned long long>(i + 1));
      return 1;
    }
    std::vector<uint32_t> features;
    for (const uint16_t id : situations(judged.c, judged.verdict)) features.push_back(id);
    const auto edges = bench.target(0).coverage();
    for (size_t edge = 0; edge < edges.size(); ++edge) {
      if (edges[edge] != 0) features.push_back(static_cast<uint32_t>(kSituations + edge));
    }
    corpus.see(judged.c, features);
  }
  std::printf("nothing in %llu cases\n", static_cast<unsigned long long>(most));
  return 0;
}
