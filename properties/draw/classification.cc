#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "properties/case/features/domain.h"
#include "properties/case/features/feature.h"
#include "properties/draw/draw.h"
#include "properties/draw/generator.h"
#include "properties/draw/rapidcheck_rng.h"

namespace attnfuzz {

void Classification::add(const Case& c, int64_t tile_q, int64_t tile_k) {
  ++cases;
  for (const std::string& name : features(c, tile_q, tile_k)) ++counts[name];
}

void Classification::merge(const Classification& other) {
  cases += other.cases;
  rejected += other.rejected;
  uninformative += other.uninformative;
  for (const auto& [name, n] : other.counts) counts[name] += n;
}

namespace {

struct Floor {
  const char* name;
  double percent;
};
constexpr Floor kFloors[] = {{"kv tiles >= 3", 25}, {"gqa", 10}, {"dead rows", 15}};

bool is_refused(const Refused& refused, const char* floor) {
  return std::ranges::any_of(refused.those, [&](const Refusal* refusal) {
    return refusal->floor && std::string_view(refusal->floor) == floor;
  });
}

double share_due(const Classification& c, const char* floor) {
  const auto reach = c.reach.find(floor);
  return reach == c.reach.end() ? 1 : reach->second;
}

}  // namespace

std::vector<std::string> Classification::broken_floors(const Refused& refused, double deviations) const {
  std::vector<std::string> broken;
  if (cases < 500) return broken;
  char text[128];
  const auto share = [&](uint64_t n) { return 100.0 * static_cast<double>(n) / static_cast<double>(cases); };
  const auto slack = [&](double floor) {
    return deviations * std::sqrt(floor * (100 - floor) / static_cast<double>(cases));
  };
  const auto at_most = [&](const char* name, uint64_t n, double ceiling) {
    if (share(n) <= ceiling + slack(ceiling)) return;
    std::snprintf(text, sizeof text, "%s: %.1f %%, at most %.0f %% are allowed", name, share(n), ceiling);
    broken.emplace_back(text);
  };
  for (const auto& [name, percent] : kFloors) {
    const double floor = percent * share_due(*this, name);
    const auto it = counts.find(name);
    const double there = share(it == counts.end() ? 0 : it->second);
    if (is_refused(refused, name) || there >= floor - slack(floor)) continue;
    std::snprintf(text, sizeof text, "%s: %.1f %%, at least %.*f %% are due", name, there,
                  floor == percent ? 0 : 1, floor);
    broken.emplace_back(text);
  }
  at_most("refused", rejected, 5);
  at_most("not judged", uninformative, 5);
  return broken;
}

std::vector<std::string> Classification::eased_floors(const Refused& refused) const {
  std::vector<std::string> eased;
  for (const auto& [name, percent] : kFloors) {
    const double due = share_due(*this, name);
    char text[128];
    if (due <= 0) {
      std::snprintf(text, sizeof text, "%s: not reachable in this domain", name);
    } else if (is_refused(refused, name)) {
      std::snprintf(text, sizeof text, "%s: no floor: the kernel refuses what most such cases need", name);
    } else if (due < 1) {
      std::snprintf(text, sizeof text, "%s: %.1f %% in this domain, %.0f %% without it", name, percent * due,
                    percent);
    } else {
      continue;
    }
    eased.emplace_back(text);
  }
  return eased;
}

std::map<std::string, double> reach_in_domain(const GeneratorConfig& config) {
  constexpr uint64_t kCases = 600;
  const std::optional<GeneratorConfig> spared = spared_sizes(config);
  const std::optional<attn_domain>& domain = spared ? spared->domain : config.domain;
  if (!domain) return {};
  GeneratorConfig anywhere = config;
  anywhere.domain.reset();
  anywhere.refused = {};
  anywhere.covering = nullptr;
  RapidcheckRng rng{rc::Random(rc::Random::Key{})};
  Classification free, inside;
  for (uint64_t i = 0; i < kCases; ++i) {
    Case c = draw(anywhere, 0, i);
    free.add(c, tiling_of(config, c).q, tiling_of(config, c).k);
    draw_said(*domain, rng, c.problem);
    draw_within(*domain, rng, c);
    inside.add(c, tiling_of(config, c).q, tiling_of(config, c).k);
  }
  std::map<std::string, double> reach;
  for (const auto& [name, percent] : kFloors) {
    const double had = static_cast<double>(free.counts[name]);
    if (had > 0) reach[name] = std::min(static_cast<double>(inside.counts[name]) / had, 1.0);
  }
  return reach;
}

std::map<std::string, double> no_floor_within_reach() {
  std::map<std::string, double> reach;
  for (const Floor& floor : kFloors) reach[floor.name] = 0;
  return reach;
}

std::string Classification::table() const {
  std::string text = "  drawn:";
  size_t column = text.size();
  const auto put = [&](const std::string& name, uint64_t n) {
    char item[96];
    std::snprintf(item, sizeof item, " %s %.1f %%;", name.c_str(),
                  cases == 0 ? 0.0 : 100.0 * static_cast<double>(n) / static_cast<double>(cases));
    if (column + std::char_traits<char>::length(item) > 80) {
      text += "\n        ";
      column = 9;
    }
    text += item;
    column += std::char_traits<char>::length(item);
  };
  for (const auto& [name, n] : counts) put(name, n);
  put("refused", rejected);
  put("not judged", uninformative);
  text.back() = '\n';
  return text;
}

}  // namespace attnfuzz
