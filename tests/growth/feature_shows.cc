// Checks that all code that walks over features finds a feature which is one file. Compiled in a tree to which
// feature.patch has been applied.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "properties/case/codec/codec.h"
#include "properties/case/features/feature.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/case/words.h"

namespace {

using namespace attnfuzz;

void hold(bool what, const char* claim) {
  if (what) return;
  std::fprintf(stderr, "it does not hold that %s\n", claim);
  std::exit(1);
}

std::vector<int64_t> cost(const Case& c) {
  Cost cost;
  for (const Feature* feature : all_features()) feature->cost(c, cost);
  return cost.take();
}

}  // namespace

int main() {
  Case c;
  c.problem.has_dropout = true;
  const auto again = decode(encode(c));
  hold(std::holds_alternative<Case>(again) && std::get<Case>(again) == c, "it is written and read");
  hold(encode(Case{}).find("has_dropout") == std::string::npos, "cases without it are written as before");
  hold(describe(c).find("dropout") != std::string::npos, "describe() names it");
  hold(cost(Case{}) < cost(c), "a case without it is simpler");
  const auto off = std::ranges::find_if(shrink_toggles(), [&](const ShrinkToggle& s) { return s.present(c); });
  hold(off != shrink_toggles().end() && std::string_view(off->name) == "dropout", "the reducer can turn it off");
  Case without = c;
  off->remove(without);
  hold(without == Case{}, "turning it off leaves the default case");
  hold(off->add(without, c, 0) && without == c, "the reducer can add it");
  bool taken = false, tagged = false, asked = false;
  for (const Feature* feature : all_features()) {
    for (const CrossoverGroup& group : feature->crossover_groups) {
      Case to;
      group.take(to, c);
      taken |= to == c;
    }
    for (const Tag& tag : feature->tags)
      tagged |= std::string_view(tag.name) == "dropout" && tag.there({c, c.problem, 64, 64, 1});
    for (const Refusal& refusal : feature->refusals) {
      Case alone;
      refusal.ask(alone.problem);
      asked |= alone == c;
    }
  }
  hold(taken, "a crossover takes it");
  hold(tagged, "draws are classified by it");
  hold(asked, "a kernel is asked for only this feature");
}
