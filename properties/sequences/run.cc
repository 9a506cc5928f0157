#include "properties/sequences/run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "kernels/contract/problem_fields.h"
#include "properties/case/as_contract.h"
#include "properties/judge/judge.h"
#include "properties/operations/operation.h"
#include "properties/sequences/call_memory.h"
#include "properties/sequences/gather.h"
#include "properties/sequences/model.h"
#include "reference/numbers/formats.h"

namespace attnfuzz::sequences {
namespace {

using enum TensorId;

constexpr attn_tensor view(void* data, const std::array<int64_t, 4>& stride) {
  return {data, {stride[0], stride[1], stride[2], stride[3]}};
}

std::array<int64_t, 4> dense(int64_t heads, int64_t rows, int64_t columns) {
  return {heads * rows * columns, rows * columns, columns, 1};
}

std::vector<std::byte> repeated_bytes(size_t bytes, uint32_t pattern) {
  std::vector<std::byte> out(bytes);
  for (size_t n = 0; n < bytes; ++n) out[n] = static_cast<std::byte>(pattern >> (n % 4 * 8) & 0xff);
  return out;
}

std::vector<std::byte> indices(int32_t dtype, std::span<const int64_t> values) {
  const size_t width = dtype == ATTN_INDEX_32 ? 4 : 8;
  std::vector<std::byte> out(values.size() * width);
  for (size_t n = 0; n < values.size(); ++n) {
    const auto narrow = static_cast<int32_t>(values[n]);
    std::memcpy(&out[n * width], width == 4 ? static_cast<const void*>(&narrow) : &values[n], width);
  }
  return out;
}

// What a target has of a session.
struct Station {
  explicit Station(Target& of) : target(of), memory(of.arena()) {}
  Target& target;
  CallMemory memory;
  std::vector<std::byte> left;  // in the workspace
};

enum class Answer { kRan, kRefused, kFailed };

class SessionRun {
 public:
  SessionRun(const Session& session, const SessionTargets& targets)
      : session_(session), setup_(session.setup), targets_(targets), model_(session.setup) {}

  SessionResult run() {
    for (const auto* kernels : {&targets_.append, &targets_.copy, &targets_.attend}) {
      for (const SessionTarget& kernel : *kernels) station(*kernel.target);
    }
    for (auto& [target, its] : stations_) target->renew();
    for (result_.step = 0; result_.step < session_.steps.size(); ++result_.step) {
      if (!make(result_.step)) break;
    }
    return std::move(result_);
  }

 private:
  Station& station(Target& target) { return stations_.try_emplace(&target, target).first->second; }

  bool make(size_t n) {
    const Step step = repeated(session_.steps, n);
    const bool replayed = session_.steps[n].verb == Verb::kReplay;
    const size_t planned = replayed ? static_cast<size_t>(session_.steps[n].count) : n;
    const std::vector<CopiedPage> pairs = model_.make_room(step);
    if (!copy(step, pairs)) return false;
    if (step.verb == Verb::kAppend) return append(step, planned, replayed);
    if (step.verb == Verb::kAttend && !attend(step, planned, replayed)) return false;
    model_.finish(step);
    return true;
  }

  // The kernel of a step's call; nullptr, and counted, if there is none.
  const SessionTarget* kernel_for(const Step& step, const std::vector<SessionTarget>& kernels, const char* call) {
    if (!kernels.empty()) return &kernels[static_cast<size_t>(step.kernel) % kernels.size()];
    ++result_.left_out[std::string(call) + ": no kernel given has it on pages"];
    return nullptr;
  }

  attn_problem problem() const {
    attn_problem p = {};
    p.size = sizeof p;
    p.dtype = setup_.dtype;
    p.batch = p.seq_q = 1;
    p.heads_q = p.heads_kv = setup_.heads_kv;
    p.dim_qk = setup_.dim_qk, p.dim_v = setup_.dim_v;
    p.scale = 1;
    p.window_left = p.window_right = -1;
    p.bias_dtype = ATTN_NONE;
    p.index_dtype = setup_.index_dtype;
    p.page_size = setup_.page_size, p.pages = setup_.pages;
    return p;
  }

  // Lays the pools out as the model has them.
  attn_tensors begin(Station& at) {
    at.memory.clear();
    attn_tensors t = {};
    t.size = sizeof t;
    t.k = view(at.memory.lay(kCacheK, model_.pool(true), true), model_.strides(true));
    t.v = view(at.memory.lay(kCacheV, model_.pool(false), true), model_.strides(false));
    return t;
  }

  // The lengths and the block table of some entries.
  void lay_entries(Station& at, const Step& step, attn_tensors& t) {
    std::vector<int64_t> lengths, table;
    for (const int64_t n : step.entries) {
      lengths.push_back(model_.length(n));
      table.insert(table.end(), model_.row(n).begin(), model_.row(n).end());
    }
    t.key_lengths = reinterpret_cast<const int64_t*>(at.memory.lay(kKeyLengths, indices(setup_.index_dtype, lengths)));
    t.block_table = view(at.memory.lay(kBlockTable, indices(setup_.index_dtype, table)),
                         dense(1, 1, setup_.columns_of_table()));
  }

  bool fail(Station& at, const char* call, Kind kind, const std::string& message) {
    attnfuzz::fail(result_.verdict, kind, message);
    return failed(at, call);
  }
  bool failed(Station& at, const char* call) {
    result_.call = call;
    result_.kernel = at.target.info().name;
    return false;
  }

  std::vector<std::byte> workspace_of(Station& at, uint64_t bytes) const {
    if (setup_.workspace == Workspace::kZero) return std::vector<std::byte>(bytes);
    std::vector<std::byte> found = repeated_bytes(bytes, kAllOnes);
    if (setup_.workspace == Workspace::kKept && !at.left.empty() && bytes > 0)
      std::memcpy(found.data(), at.left.data(), std::min(found.size(), at.left.size()));
    return found;
  }

  // Plans the call, or takes the plan of `planned` if it is replayed, and runs it.
  Answer call(Station& at, const char* name, attn_problem& p, attn_tensors& t, const Step& step, size_t planned,
              bool replayed) {
    p.features |= contract::features_of(p);
    attn_env env = env_of({});
    env.variant = 0;
    env.backend = at.target.info().backend;
    Verdict& v = result_.verdict;
    const auto key = std::make_pair(planned, std::string(name));
    if (!replayed) {
      at.target.memory(at.memory.ranges());
      const PlanReply reply = at.target.plan(p, t, env);
      if (reply.status == ATTN_OK && reply.plan.workspace_bytes > kMostWorkspace)
        return refused(name, "its plan wants more than 1 GiB of workspace");
      if (!accept_plan(reply, v)) {
        if (v.outcome != Outcome::kRefused) return failed(at, name), Answer::kFailed;
        v = Verdict{};
        return refused(name, at.target.info().name + " refuses it: " + reply.reason);
      }
      plans_[key] = reply.plan;
    } else if (!plans_.contains(key)) {
      return refused(name, "the call that it replays was refused");
    }
    const attn_plan& plan = plans_[key];
    t.workspace = at.memory.lay(kWorkspace, workspace_of(at, plan.workspace_bytes), true,
                                std::max<uint64_t>(plan.workspace_align, 1));
    t.workspace_bytes = plan.workspace_bytes;
    at.target.memory(at.memory.ranges());
    ++result_.calls;
    const RunReply reply = at.target.run(Stage::kAll, p, t, plan, env, static_cast<int>(step.stream));
    const auto left = at.memory.bytes(kWorkspace);
    at.left.assign(left.begin(), left.end());
    if (!accept_run(reply, v)) return failed(at, name), Answer::kFailed;
    if (const auto why = at.memory.written_beside()) return fail(at, name, Kind::kRedzone, *why), Answer::kFailed;
    return Answer::kRan;
  }

  Answer refused(const char* name, const std::string& why) {
    ++result_.left_out[std::string(name) + ": " + why];
    return Answer::kRefused;
  }

  // The pools must be as the model has them.
  bool pools_right(Station& at, const char* name) {
    for (const bool k : {true, false}) {
      if (const auto why = difference(model_, setup_, k, at.memory.bytes(k ? kCacheK : kCacheV)))
        return fail(at, name, Kind::kWrong, *why);
    }
    return true;
  }

  bool copy(const Step& step, std::span<const CopiedPage> pairs) {
    const SessionTarget* kernel = pairs.empty() ? nullptr : kernel_for(step, targets_.copy, "copy_pages");
    if (kernel == nullptr) return model_.copy(pairs), true;
    Station& at = station(*kernel->target);
    attn_problem p = problem();
    p.features = ATTN_FEATURE_COPY_PAGES;
    p.batch = static_cast<int64_t>(pairs.size());
    p.seq_k = 0;
    attn_tensors t = begin(at);
    std::vector<int64_t> numbers;
    for (const auto& [from, to] : pairs) numbers.insert(numbers.end(), {from, to});
    t.copies = view(at.memory.lay(kCopies, indices(setup_.index_dtype, numbers)), dense(1, 1, 2));
    const Answer answer = call(at, "copy_pages", p, t, step, result_.step, false);
    if (answer == Answer::kFailed) return false;
    model_.copy(pairs);
    return answer == Answer::kRefused || pools_right(at, "copy_pages");
  }

  bool append(const Step& step, size_t planned, bool replayed) {
    const SessionTarget* kernel = kernel_for(step, targets_.append, "append");
    if (kernel == nullptr) return model_.finish(step), true;
    Station& at = station(*kernel->target);
    attn_problem p = problem();
    p.features = ATTN_FEATURE_APPEND;
    p.batch = static_cast<int64_t>(step.entries.size());
    p.seq_q = step.count, p.seq_k = setup_.capacity;
    p.has_key_lengths = 1;
    p.pages_per_seq = setup_.columns_of_table();
    attn_tensors t = begin(at);
    lay_entries(at, step, t);
    for (const bool k : {true, false}) {
      const int64_t d = k ? setup_.dim_qk : setup_.dim_v;
      (k ? t.k_new : t.v_new) = view(at.memory.lay(k ? kKNew : kVNew, new_rows_of(setup_, step, k)),
                                     dense(setup_.heads_kv, step.count, d));
    }
    const Answer answer = call(at, "append", p, t, step, planned, replayed);
    if (answer == Answer::kFailed) return false;
    model_.finish(step);
    return answer == Answer::kRefused || pools_right(at, "append");
  }

  bool attend(const Step& step, size_t planned, bool replayed) {
    result_.attends.emplace_back();
    const SessionTarget* kernel = kernel_for(step, targets_.attend, "forward");
    if (kernel == nullptr) return true;
    Station& at = station(*kernel->target);
    const Gathered due(setup_, model_, step);
    attn_problem p = problem_of(due.problem);
    p.index_dtype = setup_.index_dtype;
    p.page_size = setup_.page_size, p.pages = setup_.pages, p.pages_per_seq = setup_.columns_of_table();
    attn_tensors t = begin(at);
    lay_entries(at, step, t);
    const auto rows = static_cast<size_t>(p.batch * p.heads_q * p.seq_q);
    t.q = view(at.memory.lay(kQ, due.q), dense(p.heads_q, p.seq_q, p.dim_qk));
    t.o = view(at.memory.lay(kO, repeated_bytes(rows * static_cast<size_t>(p.dim_v) * 2, kNeverWritten), true),
               dense(p.heads_q, p.seq_q, p.dim_v));
    t.lse = view(at.memory.lay(kLse, repeated_bytes(rows * 4, kNeverWritten), true), dense(p.heads_q, p.seq_q, 1));
    const Answer answer = call(at, "forward", p, t, step, planned, replayed);
    if (answer != Answer::kRan) return answer == Answer::kRefused;
    if (!pools_right(at, "forward")) return false;
    Outputs got;
    got[kO].resize(rows * static_cast<size_t>(p.dim_v));
    for (size_t n = 0; n < got[kO].size(); ++n)
      got[kO][n] = static_cast<float>(decode(setup_.dtype, at.memory.bytes(kO).data(), static_cast<int64_t>(n)));
    got[kLse].resize(rows);
    std::memcpy(got[kLse].data(), at.memory.bytes(kLse).data(), rows * 4);
    const attn_plan& plan = plans_[{planned, "forward"}];
    const Reference reference = operations::forward.evaluate(problem_of(due.problem), due.tensors(), plan,
                                                             kernel->calibration, {}, false);
    const bool right = judge_outputs(operations::forward, reference, due.problem, plan, got, result_.verdict);
    result_.worst = std::max(result_.worst, result_.verdict.worst);
    result_.attends.back() = std::move(got);
    return right || failed(at, "forward");
  }

  static constexpr uint64_t kMostWorkspace = uint64_t{1} << 30;

  const Session& session_;
  const Setup& setup_;
  const SessionTargets& targets_;
  Model model_;
  SessionResult result_;
  std::map<Target*, Station> stations_;
  std::map<std::pair<size_t, std::string>, attn_plan> plans_;  // of a step and its call
};

}  // namespace

SessionTargets::SessionTargets(std::span<const SessionTarget> all) {
  for (const SessionTarget& kernel : all) {
    const uint64_t features = kernel.target->info().features;
    if ((features & ATTN_FEATURE_PAGED) == 0) continue;
    if ((features & ATTN_FEATURE_APPEND) != 0) append.push_back(kernel);
    if ((features & ATTN_FEATURE_COPY_PAGES) != 0) copy.push_back(kernel);
    if (kernel_has(operations::forward, features)) attend.push_back(kernel);
  }
}

std::optional<std::string> objection(const Session& session) {
  if (auto why = objection(session.setup)) return why;
  Model model(session.setup);
  for (size_t n = 0; n < session.steps.size(); ++n) {
    const Step& step = session.steps[n];
    const auto where = [&](const std::string& why) { return "step " + std::to_string(n) + ": " + why; };
    if (step.verb == Verb::kReplay) {
      if (step.count < 0 || step.count >= static_cast<int64_t>(n)) return where("it replays no step before it");
      const Verb verb = session.steps[static_cast<size_t>(step.count)].verb;
      if (verb != Verb::kAppend && verb != Verb::kAttend) return where("it replays neither an append nor an attend");
      if (!step.entries.empty()) return where("a replay names no sequence");
    }
    const Step made = repeated(session.steps, n);
    if (auto why = model.objection(made)) return where(*why);
    model.copy(model.make_room(made));
    model.finish(made);
  }
  return std::nullopt;
}

SessionResult run_session(const Session& session, const SessionTargets& targets) {
  if (const auto why = objection(session)) throw std::invalid_argument(*why);
  return SessionRun(session, targets).run();
}

}  // namespace attnfuzz::sequences
