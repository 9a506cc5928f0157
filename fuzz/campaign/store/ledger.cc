#include "fuzz/campaign/store/ledger.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "properties/case/files.h"
#include "properties/draw/generator.h"

namespace attnfuzz {
namespace {

using Json = nlohmann::json;

// Misspelt, a feature would be one that no case has, and the entry hide nothing.
void refuse_unknown(const std::vector<std::string>& features) {
  const std::vector<std::string> there = feature_names();
  for (const std::string& feature : features) {
    if (std::ranges::find(there, feature) != there.end()) continue;
    std::string list;
    for (const std::string& one : there) list += (list.empty() ? "" : ", ") + ("'" + one + "'");
    throw std::runtime_error("there is no feature '" + feature + "'; there are " + list);
  }
}

KnownFailure read_entry(const Json& j, const std::string& folder) {
  static const std::set<std::string> kFields = {"mode",   "reason",  "key",  "reproducer",
                                                "kernel", "backend", "lane", "features"};
  for (const auto& [name, value] : j.items()) {
    if (!kFields.contains(name)) throw std::runtime_error("there is no field '" + name + "'");
  }
  KnownFailure known;
  const std::string mode = j.at("mode");
  if (mode != "tolerated" && mode != "quarantined")
    throw std::runtime_error("mode is '" + mode + "', may be 'tolerated' or 'quarantined'");
  known.quarantined = mode == "quarantined";
  known.reason = j.value("reason", "");
  if (known.reason.empty()) throw std::runtime_error("it has no reason: say why this failure is known");
  known.key = j.value("key", "");
  known.reproducer = j.value("reproducer", "");
  known.kernel = j.value("kernel", "");
  known.backend = j.value("backend", "");
  known.lane = j.value("lane", "");
  known.features = j.value("features", std::vector<std::string>{});
  refuse_unknown(known.features);
  if (known.quarantined ? known.features.empty() && known.kernel.empty() : known.key.empty()) {
    throw std::runtime_error(known.quarantined
                                 ? "it has neither features nor a kernel, and would hide everything"
                                 : "it has no key");
  }
  if (!known.reproducer.empty()) known.reproducer = (std::filesystem::path(folder) / known.reproducer).string();
  return known;
}

bool is_or_any(const std::string& wanted, const std::string& given) {
  return wanted.empty() || wanted == given;
}

}  // namespace

Ledger read_ledger(const std::string& path) {
  const Json j = Json::parse(file_text(path), nullptr, false);
  if (!j.is_object() || !j.contains("known") || !j["known"].is_array())
    throw std::runtime_error(path + R"( is no ledger: {"format": 1, "known": [...]} is due)");
  if (j.value("format", Json()) != 1) throw std::runtime_error(path + " is of another format than 1");
  Ledger ledger;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  for (const Json& entry : j["known"]) {
    try {
      ledger.known.push_back(read_entry(entry, folder));
    } catch (const std::exception& e) {
      throw std::runtime_error(path + ", entry " + std::to_string(ledger.known.size() + 1) + ": " + e.what());
    }
  }
  return ledger;
}

const KnownFailure* tolerated(const Ledger& ledger, const std::string& key, const std::string& name) {
  for (const KnownFailure& known : ledger.known) {
    if (!known.quarantined && (known.key == key || known.key == name)) return &known;
  }
  return nullptr;
}

const KnownFailure* quarantined(const Ledger& ledger, const Case& c, const WhereRun& where) {
  std::vector<std::string> has;
  for (const KnownFailure& known : ledger.known) {
    if (!known.quarantined || !is_or_any(known.kernel, where.kernel) ||
        !is_or_any(known.backend, where.backend) || !is_or_any(known.lane, where.lane))
      continue;
    if (has.empty()) has = features(c, where.tile_q, where.tile_k);
    const auto is_there = [&](const std::string& feature) {
      return std::ranges::find(has, feature) != has.end();
    };
    if (std::ranges::all_of(known.features, is_there)) return &known;
  }
  return nullptr;
}

}  // namespace attnfuzz
