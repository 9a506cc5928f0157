#include "fuzz/host/freshness.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <vector>

#include "base/identity/identity.h"

namespace attnfuzz {

FreshnessReply freshness(const BuildInfo& build) {
  namespace fs = std::filesystem;
  if (build.hash.empty() || build.files.empty() || build.root.empty()) {
    return {Freshness::kUnknown, "the library does not say what it was built from"};
  }
  std::vector<std::string> edited, gone;
  bool tree = false;  // true if any file of the tree is on this machine
  for (const auto& [name, hash] : build.files) {
    const std::string path = is_outside(name) ? name : build.root + "/" + name;
    std::error_code error;
    if (!fs::exists(path, error)) {
      gone.push_back(name);
    } else if (file_hash(path) != hash) {
      edited.push_back(name);
    }
    tree = tree || (!is_outside(name) && fs::exists(path, error));
  }
  // A tree without any of the files is another tree, or none.
  if (!tree && std::ranges::any_of(build.files, [](const auto& file) { return !is_outside(file.first); })) {
    return {Freshness::kNoTree, "the source tree " + build.root + " is not here"};
  }
  if (edited.empty() && gone.empty()) return {Freshness::kFresh, "built from the sources in " + build.root};
  const std::string& first = edited.empty() ? gone.front() : edited.front();
  const size_t others = edited.size() + gone.size() - 1;
  std::string message = first + (edited.empty() ? " is gone" : " has changed");
  if (others > 0) message += ", and " + std::to_string(others) + " more";
  return {Freshness::kStale, message + " since it was built (build " + build.hash + "): build again"};
}

FreshnessReply freshness(const KernelInfo& kernel) {
  FreshnessReply library = freshness(kernel.build);
  if (library.freshness == Freshness::kStale) return library;
  FreshnessReply worker = freshness(kernel.worker);
  if (worker.freshness != Freshness::kStale) return library;
  return {Freshness::kStale, "of the worker, " + worker.message};
}

std::optional<std::string> built_differently(const BuildInfo& one, const BuildInfo& other) {
  const std::map<std::string, std::string> hashes(other.files.begin(), other.files.end());
  for (const auto& [name, hash] : one.files) {
    const auto found = hashes.find(name);
    if (found != hashes.end() && found->second != hash) return name;
  }
  return std::nullopt;
}

namespace {

std::optional<std::string> only_if_stale(FreshnessReply reply) {
  if (reply.freshness != Freshness::kStale) return std::nullopt;
  return std::move(reply.message);
}

}  // namespace

std::optional<std::string> stale(const BuildInfo& build) { return only_if_stale(freshness(build)); }
std::optional<std::string> stale(const KernelInfo& kernel) { return only_if_stale(freshness(kernel)); }

}  // namespace attnfuzz
