#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "properties/case/features/feature.h"
#include "properties/draw/generator.h"

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

std::vector<std::string> Classification::broken_floors(const Refused& refused, double deviations) const {
  std::vector<std::string> broken;
  if (cases < 500) return broken;
  char text[128];
  const auto share = [&](uint64_t n) { return 100.0 * static_cast<double>(n) / static_cast<double>(cases); };
  const auto slack = [&](double floor) {
    return deviations * std::sqrt(floor * (100 - floor) / static_cast<double>(cases));
  };
  const auto at_least = [&](const char* name, double floor) {
    if (std::ranges::any_of(refused.those, [&](const Refusal* refusal) {
          return refusal->floor && std::string_view(refusal->floor) == name;
        }))
      return;
    const auto it = counts.find(name);
    const double percent = share(it == counts.end() ? 0 : it->second);
    if (percent >= floor - slack(floor)) return;
    std::snprintf(text, sizeof text, "%s: %.1f %%, at least %.0f %% are due", name, percent, floor);
    broken.emplace_back(text);
  };
  const auto at_most = [&](const char* name, uint64_t n, double ceiling) {
    if (share(n) <= ceiling + slack(ceiling)) return;
    std::snprintf(text, sizeof text, "%s: %.1f %%, at most %.0f %% are allowed", name, share(n), ceiling);
    broken.emplace_back(text);
  };
  at_least("kv tiles >= 3", 25);
  at_least("gqa", 10);
  at_least("dead rows", 15);
  at_most("rejected", rejected, 5);
  at_most("uninformative", uninformative, 5);
  return broken;
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
  put("rejected", rejected);
  put("uninformative", uninformative);
  text.back() = '\n';
  return text;
}

}  // namespace attnfuzz
