#include "fuzz/check/takes/tried.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "base/printable.h"
#include "fuzz/check/takes/declaration.h"
#include "fuzz/check/takes/refusals.h"
#include "fuzz/check/takes/sizes_taken.h"
#include "properties/case/features/domain.h"
#include "properties/case/words.h"
#include "properties/draw/afford.h"
#include "properties/judge/trial.h"
#include "properties/memory/case_poison.h"
#include "properties/memory/extent.h"
#include "properties/operations/operation.h"

namespace attnfuzz {
namespace {

// True if a dense main output is unchanged by the run: it holds the poison of outputs, or the all-ones pattern
// with which an adapter fills a copy of O (kernels/cuda_source/adapter/layout.h).
bool wrote_nothing(const Execution& e) {
  constexpr uint32_t kOnes = ~0u;
  const TensorId main = e.operation.main();
  if (spec_of(main).role == Role::kState) return false;  // an operation may leave it as it is
  int64_t bytes = element_bytes(e.c.problem, main);
  for (const int64_t n : shape_of(spec_of(main), e.c.problem)) bytes *= n;
  const auto* const begin = static_cast<const std::byte*>(view_of(e.laid.tensors(), spec_of(main)).data);
  const bool dense = e.c.layout[static_cast<size_t>(main)] == TensorLayout{};
  if (bytes == 0 || begin == nullptr || !dense) return false;
  const uint32_t before = output_pattern(e.c, main, e.target.arena().poison);
  return differs_from(begin, begin + bytes, before) == nullptr ||
         differs_from(begin, begin + bytes, kOnes) == nullptr;
}

// True for reports that amount to a refusal: a refused launch, and errors of the CUDA runtime about a launch.
// (An illegal address is a bug.)
bool is_no(const Fault& fault) {
  if (fault.kind == ATTN_REPORT_LAUNCH) return true;
  if (fault.kind != ATTN_REPORT_DEVICE) return false;
  constexpr const char* kSaid[] = {"it threw: ",
                                   "__trap()",
                                   "invalid configuration argument",
                                   "invalid argument",
                                   "too many resources requested for launch",
                                   "no kernel image is available for execution on the device"};
  return std::ranges::any_of(kSaid, [&](const char* words) { return fault.message.starts_with(words); });
}

std::string in_words(const Problem& p) {
  std::string words = cat(dtype_name(p.dtype), " B ", p.batch, " H ", p.heads_q);
  if (p.heads_kv != p.heads_q) words += cat("/", p.heads_kv);
  words += cat(" S ", p.seq_q);
  if (p.seq_k != p.seq_q) words += cat("/", p.seq_k);
  words += cat(" D ", p.dim_qk);
  if (p.dim_v != p.dim_qk) words += cat("/", p.dim_v);
  return words + (p.causal ? " causal" : "");
}

// A target that passes each problem to its kernel with the other `align`.
class OtherAlign : public Target {
 public:
  explicit OtherAlign(Target& target) : target_(target) {}
  const KernelInfo& info() const override { return target_.info(); }
  Arena& arena() override { return target_.arena(); }
  void memory(std::span<const MemoryRange> ranges) override { target_.memory(ranges); }
  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
    return target_.plan(other(problem), tensors, env);
  }
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    return target_.run(stage, other(problem), tensors, plan, env, stream);
  }
  std::optional<attn_partials> partials(const attn_problem&, const attn_plan&, std::string*) override {
    return std::nullopt;
  }

 private:
  static attn_problem other(attn_problem p) {
    p.align = p.align == ATTN_TOP_LEFT ? ATTN_BOTTOM_RIGHT : ATTN_TOP_LEFT;
    return p;
  }
  Target& target_;
};

class Trying {
 public:
  Trying(Target& target, double seconds, const ByNumbers& judged)
      : target_(target), seconds_(seconds), judged_(judged) {}

  Tried all() {
    // A problem that does not end soon usually never ends, so the brief watch is enough.
    const BriefWatch brief(target_, true);
    tried_.domain.size = sizeof tried_.domain;
    if (find_base()) {
      tried_.found = true;
      ask_for_formats();
      ask_for_masks();
      ask_for_sizes();
      ask_for_devices();
      if (judged_.table && judged_.lengths && !tried_.domain.equal_lengths) ask_for_equal_lengths();
      if (judged_.table && judged_.align && !tried_.domain.equal_lengths) ask_for_bottom_right();
    }
    tried_.in_time = !out_of_time();
    return std::move(tried_);
  }

 private:
  static constexpr int kMostHangs = 5;
  static constexpr int64_t kQuick = 2'000'000;  // multiply-adds that end in a moment if they end at all

  bool out_of_time() const { return spent_ > seconds_ || hangs_ > kMostHangs; }

  // Nothing if the problem was not run, or did not end.
  std::optional<bool> takes(const Case& c) {
    if (illegal(c) || out_of_time() || !is_asked(c)) return std::nullopt;
    Execution e(c, target_);
    if (!e.why_not().empty()) return std::nullopt;  // the problem is outside of the declaration
    const RunReply ran = e.run(c.calls.front());
    ++tried_.runs;
    spent_ += e.kernel_s;
    hangs_ += ran.timed_out && exact_work(c.problem) <= kQuick;
    if (auto why = not_taken(e, ran)) {
      if (std::ranges::find(tried_.refused, *why, &Tried::Reason::why) == tried_.refused.end())
        tried_.refused.push_back({in_words(c.problem), std::move(*why)});
      return false;
    }
    ended_well_ = failure(ran).empty();
    return ran.timed_out || ran.no_memory ? std::nullopt : std::optional(true);
  }

  bool is_asked(const Case& c) const {
    if (!target_.terms) return true;  // plan() refuses what is not declared
    Problem inside = c.problem;
    fit_sizes(*target_.terms, inside);
    return inside == c.problem;
  }

  bool declares(int32_t dtype) const {
    const auto& domain = target_.domain();
    return domain && domain->dtypes != 0 ? (domain->dtypes >> dtype & 1) != 0 : dtype != ATTN_F32;
  }

  // Tries usual head dimensions first, with equal lengths, and one head, two heads, or eight heads in groups of
  // four. A problem that ends well is preferred to one that ends in a failure. (A failure is no refusal
  // either.)
  bool find_base() {
    constexpr int64_t kDims[] = {32, 64, 96, 128, 192, 256, 80, 16, 8, 40, 48, 72, 112, 160, 512, 1, 2, 4, 100};
    constexpr int64_t kLengths[] = {16, 64, 128, 1, 256};
    constexpr std::pair<int64_t, int64_t> kHeads[] = {{1, 1}, {2, 2}, {8, 2}};
    for (const auto& [heads_q, heads_kv] : kHeads) {
      for (const int64_t length : kLengths) {
        for (const int64_t dim : kDims) {
          for (const bool causal : {false, true}) {
            for (const int32_t dtype : {ATTN_F32, ATTN_F16, ATTN_BF16}) {
              if (!declares(dtype)) continue;
              if (is_base(heads_q, heads_kv, length, dim, causal, dtype)) return true;
            }
          }
        }
      }
    }
    if (failing_.empty()) return false;
    base_ = failing_.front();
    return true;
  }

  bool is_base(int64_t heads_q, int64_t heads_kv, int64_t length, int64_t dim, bool causal, int32_t dtype) {
    Case c;
    c.problem.heads_q = heads_q, c.problem.heads_kv = heads_kv;
    c.problem.seq_q = c.problem.seq_k = length;
    c.problem.dim_qk = c.problem.dim_v = dim;
    c.problem.causal = causal;
    c.problem.dtype = dtype;
    make_ordinary(target_, c);
    if (std::ranges::find(asked_, c) != asked_.end())
      return false;  // fit() turned another problem into this one
    asked_.push_back(c);
    if (takes(c) != true) return false;
    if (!ended_well_) failing_.push_back(c);
    base_ = c;
    return ended_well_;
  }

  void ask_for_formats() {
    uint32_t taken = 0, asked = 0;
    for (const int32_t dtype : {ATTN_F16, ATTN_BF16, ATTN_F32}) {
      if (!declares(dtype)) continue;
      Case c = base_;
      c.problem.dtype = dtype;
      asked |= 1u << dtype;
      if (takes(c) != false) taken |= 1u << dtype;
    }
    if (taken != asked) tried_.domain.dtypes = taken;
  }

  void ask_for_masks() {
    Case c = base_;
    c.problem.causal = !base_.problem.causal;
    if (takes(c) == false) tried_.domain.causal = base_.problem.causal ? 2 : 1;
  }

  void ask_for_sizes() {
    const auto sizes = sizes_taken({base_}, [&](const Case& c) { return takes(c); }, true);
    if (!sizes) return;
    const attn_domain before = tried_.domain;
    tried_.domain = *sizes;
    tried_.domain.dtypes = before.dtypes, tried_.domain.causal = before.causal;
  }

  // Asks with the largest head dimension that the kernel takes, because that needs the most shared memory.
  void ask_for_devices() {
    std::vector<int64_t> dims = {256, 192, 128, 96, 64, 32, base_.problem.dim_qk};
    const attn_sizes& found = tried_.domain.dim_qk;
    dims.insert(dims.end(), found.list, found.list + found.count);
    std::ranges::sort(dims, std::greater());
    for (const int64_t dim : dims) {
      Case c = base_;
      c.problem.dim_qk = c.problem.dim_v = dim;
      c.problem.scale = 1.0f / std::sqrt(static_cast<float>(dim));
      if (takes(c) != true || !ended_well_) continue;
      for (const int64_t limit : kSharedOfDevices) {
        c.env.shared_memory_limit = limit;
        if (takes(c) == false) continue;
        if (limit != kSharedOfDevices[0]) tried_.shared = limit;
        return;
      }
    }
  }

  Case gaussian(int64_t queries, int64_t keys) const {
    Case c = base_;
    c.problem.seq_q = queries, c.problem.seq_k = keys;
    c.q = c.k = c.v = {.kind = FillKind::kGaussian, .seed = 1};
    c.k.seed = 2, c.v.seed = 3;
    return c;
  }

  // Uses few keys, so that bugs of later tiles do not hide the answer. Every query sees a key.
  void ask_for_bottom_right() {
    constexpr std::pair<int64_t, int64_t> kPairs[] = {{1, 2}, {16, 17}, {7, 25}, {1, 31}};
    const auto& domain = target_.info().domain;
    if (!domain || domain->align != 1 + ATTN_TOP_LEFT) return;
    const bool causal = domain->causal != 1 && tried_.domain.causal != 1;  // else perhaps a window
    const Property& reference = *find_property("reference");
    OtherAlign other(target_);
    for (const auto& [queries, keys] : kPairs) {
      Case c = gaussian(queries, keys);
      c.problem.causal = causal;
      if (!causal) c.problem.window_right = 0;
      c.problem.align = ATTN_TOP_LEFT;
      if (illegal(c)) return;
      tried_.runs += 2;
      if (judge(c, reference, target_, *judged_.table).outcome != Outcome::kFail) return;
      c.problem.align = ATTN_BOTTOM_RIGHT;
      if (judge(c, reference, other, *judged_.table).outcome != Outcome::kPass) return;
    }
    tried_.bottom_right = true;
    tried_.refused.push_back(
        {in_words(gaussian(16, 17).problem),
         std::string("its ") + (causal ? "causal mask" : "window") + " is right only for the bottom right"});
  }

  void ask_for_equal_lengths() {
    constexpr std::pair<int64_t, int64_t> kPairs[] = {{16, 16}, {48, 48}, {33, 33}, {16, 48},
                                                      {48, 16}, {1, 33},  {33, 1}};
    const Property& reference = *find_property("reference");
    std::string first;
    for (const auto& [queries, keys] : kPairs) {
      Case c = gaussian(queries, keys);
      if (const auto& domain = target_.domain(); domain && queries == keys) fit(*domain, c);
      if (illegal(c)) return;
      const Verdict v = judge(c, reference, target_, *judged_.table);
      ++tried_.runs;
      const bool equal = c.problem.seq_q == c.problem.seq_k;
      if (v.outcome != (equal ? Outcome::kPass : Outcome::kFail)) return;
      if (!equal && first.empty()) first = in_words(c.problem);
    }
    tried_.domain.equal_lengths = 1;
    tried_.refused.push_back({first, "it is wrong wherever lengths differ, and the call names no lengths"});
  }

  Target& target_;
  const double seconds_;
  const ByNumbers judged_;
  Case base_;
  Tried tried_;
  std::vector<Case> asked_, failing_;  // problems tried as a base; those that ended in a failure
  bool ended_well_ = false;            // of the last run
  double spent_ = 0;
  int hangs_ = 0;
};

}  // namespace

std::optional<std::string> not_taken(const Execution& ran, const RunReply& reply) {
  if (reply.timed_out || reply.no_memory) return std::nullopt;
  if (reply.crash) {
    const bool meant = reply.exit_reason == ExitReason::kExit || reply.crash->starts_with("SIGABRT");
    return meant ? reply.crash : std::nullopt;
  }
  if (reply.status == ATTN_UNSUPPORTED) return reply.fault ? reply.fault->message : "refused";
  if (reply.fault) return is_no(*reply.fault) ? std::optional(reply.fault->message) : std::nullopt;
  if (reply.status == ATTN_OK && wrote_nothing(ran))
    return "it wrote nothing into " + title_of(ran.operation.main());
  return std::nullopt;
}

Tried try_function(Target& target, double seconds, const ByNumbers& judged) {
  return Trying(target, seconds, judged).all();
}

std::vector<std::string> statements(const Tried& tried, const attn_domain& declared) {
  std::vector<std::string> all = as_takes(tried.domain, declared);
  if (tried.bottom_right) all.emplace_back("align = ATTN_BOTTOM_RIGHT");
  if (tried.shared != 0) all.push_back(cat("shared = ", tried.shared));
  return all;
}

std::string elsewhere(const Tried& tried) {
  constexpr size_t kMost = 3, kMostWords = 120;
  std::vector<std::string> words;
  for (const Tried::Reason& one : tried.refused) {
    if (words.size() < kMost) words.push_back(printable(one.why, kMostWords) + " (" + one.problem + ")");
  }
  return join(words, "; ");
}

}  // namespace attnfuzz
