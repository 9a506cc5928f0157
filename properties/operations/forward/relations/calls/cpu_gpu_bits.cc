// The same source on a GPU and on the executor, in that GPU's arithmetic, must give the same bits. A difference
// is caused by a race, a missing wait, a compiler bug, a primitive whose two bodies differ, a fault of the
// device, or an error of the arithmetic model (docs/checks.md). A mistake that both sides share is not seen.
#include <cstring>

#include "properties/case/features/shrink_toggles.h"
#include "properties/judge/judge.h"
#include "properties/judge/target/peer.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::relations {
namespace {

constexpr int kReruns = 2;

bool adapt_cpu_gpu_bits(Case& c, const KernelInfo&, std::string*) {
  c.calls = {Call{}};  // each call is compared with the first
  return true;
}

// A plan's path without its sizes.
std::string path_name(const attn_plan& plan) {
  const std::string path(plan.path, strnlen(plan.path, sizeof plan.path));
  std::string words;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find(' ', at), path.size());
    const std::string word = path.substr(at, end - at);
    if (word.find_first_of("0123456789") == std::string::npos) words += (words.empty() ? "" : " ") + word;
    at = end + 1;
  }
  return words.empty() ? path : words;
}

bool same_path(const attn_plan& a, const attn_plan& b) {
  return std::strncmp(a.path, b.path, sizeof a.path) == 0 && a.tile_q == b.tile_q && a.tile_k == b.tile_k &&
         a.num_splits == b.num_splits;
}

// The peer build's outputs for the case; nothing: the trial has ended.
std::optional<Outputs> outputs_there(Trial& trial, const Run& run, Target& peer) {
  const Case c = case_of_peer(run.c, trial.target().info(), peer.info());
  Execution e(c, peer);
  const std::string where = peer.info().backend == ATTN_CPU ? "on the executor" : "of the peer build";
  if (const std::string why = e.why_not(); !why.empty()) {
    trial.reject(where + ": " + why);
  } else if (!same_path(e.plan, run.plan)) {
    trial.reject("another path " + where + ": '" + path_name(e.plan) + "' for '" + path_name(run.plan) + "'" +
                 (path_name(e.plan) == path_name(run.plan) ? ", in other sizes" : ""));
  } else {
    const RunReply reply = e.run(c.calls[0]);
    const std::string why = failure(reply);
    if (why.empty()) return e.outputs();
    if (reply.timed_out)
      trial.reject(where + ": " + why);
    else
      trial.fail(reply.crash ? Kind::kCrash : Kind::kFault, where + " alone: " + why);
  }
  return std::nullopt;
}

void check_cpu_gpu_bits(Trial& trial) {
  const Run* run = trial.run(trial.base());
  if (!run) return;
  Target* const peer = trial.target().peer ? trial.target().peer->get() : nullptr;
  if (!peer) return trial.reject("there is no peer to compare its bits with");
  const std::string why =
      cannot_be_compared(trial.target().info(), peer->info(), trial.target().peer->calibrated());
  if (!why.empty()) return trial.reject(why);
  if (!run->plan.deterministic) return trial.reject("its plan does not promise the same bits each time");
  const std::optional<Outputs> there = outputs_there(trial, *run, *peer);
  if (!there) return;
  Verdict differ;
  const char* whose = peer->info().backend == trial.target().info().backend
                          ? "not the bits of its peer build ('was')"
                          : "not the bits that the executor computes in the device's arithmetic ('was')";
  if (judge_same(*there, run->calls[0], run->c.problem, run->plan, Kind::kBits, whose, differ)) return;
  // If the kernel's own reruns differ, a comparison with the other side proves nothing.
  const bool again = !has_many_heads(run->c.problem);
  for (int n = 0; again && n < kReruns; ++n) {
    const Run* rerun = trial.run(trial.base(), "the same once more, for its bits are not its peer build's");
    if (!rerun) return;
    if (!judge_same(
            run->calls[0], rerun->calls[0], run->c.problem, run->plan, Kind::kDirty,
            "its bits are not its peer build's, and it does not agree with itself: a race, or a fault of the "
            "device",
            trial.verdict()))
      return;
  }
  trial.fail(differ.kind, differ.message + (again ? "; it repeats itself" : ""));
  trial.verdict().where = differ.where;
}

}  // namespace

extern const Property cpu_gpu_bits = {
    .name = "cpu_gpu_bits",
    .statement =
        "O and LSE have the bits that the same source has on the executor, in the arithmetic of this GPU",
    .adapt = adapt_cpu_gpu_bits,
    .check = check_cpu_gpu_bits,
    .asks_target = true};

}  // namespace attnfuzz::relations
