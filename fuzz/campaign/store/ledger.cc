#include "fuzz/campaign/store/ledger.h"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"
#include "properties/draw/generator.h"

namespace attnfuzz {
namespace {

// A misspelt feature would match no case, so the entry would hide nothing.
void refuse_unknown(const std::vector<std::string>& features) {
  const std::vector<std::string> there = feature_names();
  for (const std::string& feature : features) {
    if (std::ranges::find(there, feature) != there.end()) continue;
    std::string list;
    for (const std::string& one : there) list += (list.empty() ? "" : ", ") + ("'" + one + "'");
    throw std::runtime_error("there is no feature '" + printable(feature, 60) + "'; there are " + list +
                             suggestion(feature, there));
  }
}

void refuse_unknown(const char* what, const std::string& name, const std::vector<std::string>& known) {
  if (name.empty() || known.empty() || std::ranges::find(known, name) != known.end()) return;
  throw std::runtime_error(std::string("there is no ") + what + " '" + printable(name, 60) + "'" +
                           suggestion(name, known));
}

void refuse_unknown_fields(const Json& j, const std::vector<std::string>& known) {
  if (!j.is_object()) throw std::runtime_error("it is " + brief(j) + ", must be an object");
  for (const auto& [name, value] : j.items()) refuse_unknown("field", name.empty() ? " " : name, known);
}

KnownFailure read_entry(const Json& j, const std::string& folder, const LedgerNames& names) {
  refuse_unknown_fields(j, {"mode", "reason", "key", "reproducer", "kernel", "backend", "lane", "features"});
  KnownFailure known;
  const std::string mode = j.at("mode");
  if (mode != "tolerated" && mode != "quarantined")
    throw std::runtime_error("mode is '" + printable(mode, 60) + "', may be 'tolerated' or 'quarantined'");
  known.quarantined = mode == "quarantined";
  known.reason = j.value("reason", "");
  if (known.reason.empty()) throw std::runtime_error("it has no reason: add why this failure is known");
  known.key = j.value("key", "");
  known.reproducer = j.value("reproducer", "");
  known.kernel = j.value("kernel", "");
  known.backend = j.value("backend", "");
  known.build_kind = j.value("lane", "");
  known.features = j.value("features", std::vector<std::string>{});
  refuse_unknown(known.features);
  // A plug-in that is missing today may exist tomorrow.
  if (known.kernel.find('/') == known.kernel.npos) refuse_unknown("kernel", known.kernel, names.kernels);
  refuse_unknown("build", known.build_kind, names.build_kinds);
  refuse_unknown("back end", known.backend, {"cpu", "cuda"});
  // Fields of the other mode would be read and have no effect.
  const std::vector<const char*> others = known.quarantined
                                              ? std::vector{"key", "reproducer"}
                                              : std::vector{"kernel", "backend", "lane", "features"};
  for (const char* field : others) {
    if (j.contains(field))
      throw std::runtime_error("it is " + mode + ", and '" + field + "' is for a " +
                               (known.quarantined ? "tolerated" : "quarantined") + " failure: leave it out");
  }
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

// A plug-in may have moved since the entry was written.
bool is_kernel(const std::string& wanted, const std::string& given) {
  const auto file = [](const std::string& path) { return path.substr(path.rfind('/') + 1); };
  const bool plug_ins = wanted.find('/') != wanted.npos && given.find('/') != given.npos;
  return is_or_any(plug_ins ? file(wanted) : wanted, plug_ins ? file(given) : given);
}

bool quarantines(const KnownFailure& known, const std::string& kernel, const std::string& backend,
                 const std::string& build_kind) {
  return known.quarantined && is_kernel(known.kernel, kernel) && is_or_any(known.backend, backend) &&
         is_or_any(known.build_kind, build_kind);
}

}  // namespace

Ledger read_ledger(const std::string& path, const LedgerNames& names) {
  return parse_ledger(file_text(path), path, names);
}

Ledger parse_ledger(const std::string& text, const std::string& path, const LedgerNames& names) {
  const auto parsed = parse_json(text);
  if (const auto* error = std::get_if<DecodeError>(&parsed))
    throw std::runtime_error(path + " is no ledger: " + error->message);
  const Json& j = std::get<Json>(parsed);
  if (!j.is_object() || !j.contains("known") || !j.at("known").is_array())
    throw std::runtime_error(path + R"( is no ledger: it must be {"format": 1, "known": [...]})");
  try {
    refuse_unknown_fields(j, {"format", "known"});
  } catch (const std::exception& e) {
    throw std::runtime_error(path + ": " + e.what());
  }
  if (j.value("format", Json()) != 1) throw std::runtime_error(path + " has another format than 1");
  Ledger ledger;
  const std::string folder = std::filesystem::path(path).parent_path().string();
  for (const Json& entry : j.at("known")) {
    try {
      ledger.known.push_back(read_entry(entry, folder, names));
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

const KnownFailure* quarantines_some(const Ledger& ledger, const std::string& kernel,
                                     const std::string& backend, const std::string& build_kind) {
  const auto at = std::ranges::find_if(
      ledger.known, [&](const KnownFailure& known) { return quarantines(known, kernel, backend, build_kind); });
  return at == ledger.known.end() ? nullptr : &*at;
}

const KnownFailure* quarantined(const Ledger& ledger, const Case& c, const WhereRun& where) {
  std::vector<std::string> has;
  for (const KnownFailure& known : ledger.known) {
    if (!quarantines(known, where.kernel, where.backend, where.build_kind)) continue;
    if (has.empty()) has = features(c, where.tile_q, where.tile_k);
    const auto is_there = [&](const std::string& feature) {
      return std::ranges::find(has, feature) != has.end();
    };
    if (std::ranges::all_of(known.features, is_there)) return &known;
  }
  return nullptr;
}

}  // namespace attnfuzz
