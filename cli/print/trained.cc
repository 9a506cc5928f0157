#include "cli/print/trained.h"

#include <fmt/format.h>

#include <set>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "properties/case/words.h"

namespace attnfuzz {
namespace {

// "dense at S = 512, 2048 only, of 13 lengths", "packed at each of 13 lengths", "packed at S = 64"
std::string at_lengths(bool packed, const std::vector<std::string>& those, size_t tried) {
  return fmt::format("{} at {}", packed ? "packed" : "dense",
                     those.size() < tried ? fmt::format("S = {} only, of {} lengths", join(those, ", "), tried)
                     : tried > 1          ? fmt::format("each of {} lengths", tried)
                                          : "S = " + those.front());
}

}  // namespace

FailureClass class_of(const train::StepFailure& failure, const train::Batch& batch) {
  return {failure.pass, batch.packed, kind_class(failure.verdict.kind)};
}

std::string where_it_fails(const FailureClass& which, std::span<const train::Batch> batches,
                           TrainedBatches trained) {
  std::vector<std::string> failing;
  size_t tried = 0;
  for (size_t n = 0; n < batches.size(); ++n) {
    if (!trained[n] || !trained[n]->refused.empty() || batches[n].packed != which.packed) continue;
    ++tried;
    const auto& failure = trained[n]->failure;
    if (failure && class_of(*failure, batches[n]) == which)
      failing.push_back(std::to_string(batches[n].length));
  }
  return "it fails so " + at_lengths(which.packed, failing, tried);
}

std::string left_out_lines(std::span<const train::Batch> batches, TrainedBatches trained) {
  std::string lines;
  std::set<std::pair<bool, std::string>> said;
  for (size_t first = 0; first < batches.size(); ++first) {
    if (!trained[first] || trained[first]->refused.empty()) continue;
    const bool packed = batches[first].packed;
    const std::string& why = trained[first]->refused;
    if (!said.emplace(packed, why).second) continue;
    std::vector<std::string> those;
    size_t tried = 0;
    for (size_t n = 0; n < batches.size(); ++n) {
      if (!trained[n] || batches[n].packed != packed) continue;
      ++tried;
      if (trained[n]->refused == why) those.push_back(std::to_string(batches[n].length));
    }
    lines += fmt::format("  left out: {}: {}\n", at_lengths(packed, those, tried), printable(why));
  }
  return lines;
}

std::string loss_lines(std::span<const train::Batch> batches, TrainedBatches trained) {
  std::string lines;
  for (size_t n = 0; n < batches.size(); ++n) {
    if (!trained[n]) continue;
    const train::Trained& one = *trained[n];
    const std::string due =
        one.due.empty() ? "" : fmt::format(" (by the oracle's O: {:.6g})", fmt::join(one.due, ", "));
    lines += fmt::format("  {}: loss {:.6g}{}\n", describe(batches[n]), fmt::join(one.losses, ", "), due);
  }
  return lines;
}

}  // namespace attnfuzz
