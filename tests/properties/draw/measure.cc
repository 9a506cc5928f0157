// Measures the coverage of the draw without running a kernel:
//
//   draw_measure LIBRARY CASES [SEEDS]
//
// It prints how CASES cases of seed 1 cover the table of axes, as `attnfuzz check` does, but
// without refusals, and with the tiles of the kernel's first plan. It prints the number of cases
// drawn a second. For each bug of bugs_of_three.h it prints the number of seeds that show it
// within 20,000 cases, and the median of the first case that does.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "fuzz/check/check.h"
#include "fuzz/host/kernel_registry.h"
#include "properties/axes/axis.h"
#include "properties/draw/coverage.h"
#include "tests/properties/draw/bugs_of_three.h"

int main(int argc, char** argv) {
  using namespace attnfuzz;
  using Clock = std::chrono::steady_clock;
  if (argc < 3) {
    std::fprintf(
        stderr,
        "draw_measure LIBRARY CASES [SEEDS]: a kernel of the plain build, how many cases, of how many seeds\n");
    return 2;
  }
  const uint64_t cases = std::strtoull(argv[2], nullptr, 10);
  const uint64_t seeds = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 10;
  std::string error;
  const auto library = find_kernel(argv[1], {ATTN_CPU, "plain"}, &error);
  const auto target = library ? open_target(worker_options(*library), &error) : nullptr;
  if (target == nullptr) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return 2;
  }
  const GeneratorConfig config = config_for(*target, {});

  Coverage met;
  std::vector<Case> drawn;
  auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  for (uint64_t i = 0; i < cases; ++i) drawn.push_back(draw(config, 1, i));
  std::printf("%.0f cases drawn a second, ", static_cast<double>(cases) / seconds());
  start = Clock::now();
  for (const Case& c : drawn)
    met.add({c, c.problem, config.tiles_q.front(), config.tiles_k.front(), c.problem.num_splits});
  std::printf("%.0f counted, ", static_cast<double>(cases) / seconds());
  start = Clock::now();
  const Covered covered = measure(met, config);
  std::printf("the rest tried in %.1f s\n%s", seconds(), text(covered).c_str());

  constexpr uint64_t kMost = 20'000;
  constexpr size_t kBugs = std::size(kBugsOfThree);
  std::vector<std::vector<uint64_t>> found(kBugs);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    std::vector<uint64_t> first(kBugs, kMost);
    for (uint64_t i = 0; i < kMost; ++i) {
      const Case c = draw(config, seed, i);
      if (c.problem.batch == 0 || c.problem.seq_q == 0) continue;  // without output nothing can be wrong
      for (size_t bug = 0; bug < kBugs; ++bug) {
        if (first[bug] == kMost && kBugsOfThree[bug].shows(c, c.problem)) first[bug] = i;
      }
    }
    for (size_t bug = 0; bug < kBugs; ++bug) found[bug].push_back(first[bug]);
  }
  for (size_t bug = 0; bug < kBugs && seeds > 0; ++bug) {
    std::vector<uint64_t>& all = found[bug];
    std::ranges::sort(all);
    std::printf("%-62s %2lld of %llu seeds, median %llu\n", kBugsOfThree[bug].name,
                static_cast<long long>(std::ranges::count_if(all, [](uint64_t n) { return n < kMost; })),
                static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(all[all.size() / 2]));
  }
  return 0;
}
