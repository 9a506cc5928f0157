#include "fuzz/campaign/store/finding_list.h"

#include <algorithm>

namespace attnfuzz {
namespace {

void add_new(std::vector<std::string>& to, const std::vector<std::string>& from) {
  for (const std::string& text : from) {
    if (std::ranges::find(to, text) == to.end()) to.push_back(text);
  }
}

}  // namespace

void count_together(Finding& known, const Finding& other) {
  known.count += other.count;
  known.t = std::min(known.t, other.t);
  known.crashes.insert(known.crashes.end(), other.crashes.begin(), other.crashes.end());
  add_new(known.sites, other.sites);
  std::vector<std::string> also = other.also;
  also.push_back(other.target + ": " + other.kind);
  std::erase(also, known.target + ": " + known.kind);
  add_new(known.also, also);
}

Finding* found_at(std::vector<Finding>& list, const Crash& crash) {
  if (crash.site.empty()) return nullptr;
  const auto at = std::ranges::find_if(list, [&](const Finding& f) {
    return f.target == crash.target && f.kind == crash.kind &&
           std::ranges::find(f.sites, crash.site) != f.sites.end();
  });
  return at == list.end() ? nullptr : &*at;
}

bool enter(std::vector<Finding>& list, Finding& finding) {
  const auto same = std::ranges::find(list, finding.key, &Finding::key);
  if (same == list.end()) {
    list.push_back(finding);
    return true;
  }
  if (same->reduced || !finding.reduced) {
    count_together(*same, finding);
    return false;
  }
  count_together(finding, *same);
  *same = finding;
  return true;
}

void absorb(std::vector<Finding>& list, const std::string& key, const std::vector<std::string>& names) {
  std::vector<Finding> old;
  for (const std::string& name : names) {
    const auto it = std::ranges::find(list, name, &Finding::name);
    if (it == list.end() || it->key == key) continue;
    old.push_back(std::move(*it));
    list.erase(it);
  }
  const auto mine = std::ranges::find(list, key, &Finding::key);
  for (const Finding& f : old) count_together(*mine, f);
}

}  // namespace attnfuzz
