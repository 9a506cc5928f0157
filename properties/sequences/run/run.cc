#include "properties/sequences/run/run.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "properties/case/codec/as_contract.h"
#include "properties/judge/judge.h"
#include "properties/operations/operation.h"
#include "properties/sequences/run/gather.h"
#include "properties/sequences/run/kernel_calls.h"
#include "properties/sequences/session/model.h"
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

std::vector<std::byte> indices(int32_t dtype, std::span<const int64_t> values) {
  const size_t width = dtype == ATTN_INDEX_32 ? 4 : 8;
  std::vector<std::byte> out(values.size() * width);
  for (size_t n = 0; n < values.size(); ++n) {
    const auto narrow = static_cast<int32_t>(values[n]);
    std::memcpy(&out[n * width], width == 4 ? static_cast<const void*>(&narrow) : &values[n], width);
  }
  return out;
}

// Reads the rows of an output into the oracle's order, (batch entry, head, query). Rows that an entry does not
// have are 0.
std::vector<float> read_rows(std::span<const std::byte> from, int32_t dtype, const Rows& rows, int64_t heads,
                             int64_t columns) {
  std::vector<float> out(static_cast<size_t>(rows.batch() * heads * rows.longest * columns));
  for (int64_t b = 0; b < rows.batch(); ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < rows.count(b); ++i) {
        const int64_t to = ((b * heads + h) * rows.longest + i) * columns,
                      first = rows.at(heads, b, h, i) * columns;
        for (int64_t d = 0; d < columns; ++d)
          out[static_cast<size_t>(to + d)] = static_cast<float>(decode(dtype, from.data(), first + d));
      }
    }
  }
  return out;
}

// True if calls ask a kernel for an LSE: always, unless it declares that it gives none.
bool gives_lse(const SessionTarget& kernel) {
  const std::optional<attn_domain>& domain = kernel.target->info().domain;
  return !domain || domain->lse != 1;
}

// The bytes of O and of the LSE of one of two calls.
struct Side {
  explicit Side(CallMemory& memory) {
    const auto of_o = memory.bytes(kO), of_lse = memory.bytes(kLse);
    o.assign(of_o.begin(), of_o.end());
    lse.assign(of_lse.begin(), of_lse.end());
  }
  std::vector<std::byte> o, lse;
};

class SessionRun {
 public:
  SessionRun(const Session& session, const SessionTargets& targets)
      : session_(session),
        setup_(session.setup),
        targets_(targets),
        own_(targets.own()),
        model_(session.setup),
        calls_(setup_, result_) {}

  SessionResult run() {
    for (result_.step = 0; result_.step < session_.steps.size(); ++result_.step) {
      if (!make(result_.step) || ended_) break;
    }
    return std::move(result_);
  }

 private:
  bool make(size_t n) {
    const Step step = repeated(session_.steps, n);
    const bool replayed = session_.steps[n].verb == Verb::kReplay;
    const size_t planned = replayed ? static_cast<size_t>(session_.steps[n].count) : n;
    if (!copy(step, model_.make_room(step))) return false;
    if (step.verb == Verb::kAppend) return append({"append", step, planned, replayed});
    if (own_ != nullptr && !tell_own({kVerbNames[static_cast<size_t>(step.verb)], step, planned, replayed}))
      return false;
    if (step.verb == Verb::kAttend && !attend({"forward", step, planned, replayed})) return false;
    model_.finish(step);
    return true;
  }

  // Tells a kernel with memory of its own about a step that changes sequences without a call.
  bool tell_own(const Call& call) {
    if (call.step.verb == Verb::kAttend) return true;
    if (call.step.verb == Verb::kMove) return calls_.refused(call, "the kernel numbers its pages itself"), true;
    return go_on(call, calls_.tell_of_step(call, *own_));
  }

  // False after a failure. If a kernel with memory of its own refuses a step, it does not know the sequences
  // any more, so the session ends, and the steps that are left are counted.
  bool go_on(const Call& call, Answer answer) {
    ended_ = own_ != nullptr && answer == Answer::kRefused;
    const size_t rest = session_.steps.size() - result_.step - 1;
    if (ended_ && rest > 0) result_.left_out[std::string(call.name) + ": steps after a refused one"] += rest;
    return answer != Answer::kFailed;
  }

  // The kernel of a call. If there is none, returns nullptr and counts the call as left out.
  const SessionTarget* kernel_for(const Call& call, const std::vector<SessionTarget>& kernels) {
    if (!kernels.empty()) return &kernels[static_cast<size_t>(call.step.kernel) % kernels.size()];
    calls_.refused(call,
                   &kernels == &targets_.merge ? "no kernel given has it" : "no kernel given has it on pages");
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

  // Clears the arrays of a call and fills the pools with the model's bytes.
  attn_tensors begin(KernelMemory& at) {
    at.memory.clear();
    attn_tensors t = {};
    t.size = sizeof t;
    t.k = view(at.memory.lay(kCacheK, model_.pool(true), true), model_.strides(true));
    t.v = view(at.memory.lay(kCacheV, model_.pool(false), true), model_.strides(false));
    return t;
  }

  // Lays out the lengths of the entries, their rows of the block table without the first `skipped` pages, and
  // the borders of packed rows.
  void lay_entries(KernelMemory& at, const Step& step, std::span<const int64_t> lengths, const Rows& rows,
                   std::span<const int64_t> skipped, attn_tensors& t) {
    std::vector<int64_t> table;
    for (size_t e = 0; e < step.entries.size(); ++e) {
      const std::vector<int64_t>& row = model_.row(step.entries[e]);
      table.insert(table.end(), row.begin() + skipped[e], row.end());
      table.resize((e + 1) * row.size(), -1);
    }
    if (rows.packed())
      t.cu_q = reinterpret_cast<const int64_t*>(at.memory.lay(kCuQ, indices(setup_.index_dtype, rows.borders)));
    t.key_lengths =
        reinterpret_cast<const int64_t*>(at.memory.lay(kKeyLengths, indices(setup_.index_dtype, lengths)));
    t.block_table = view(at.memory.lay(kBlockTable, indices(setup_.index_dtype, table)),
                         dense(1, 1, setup_.columns_of_table()));
  }

  // True if the pools equal the model's bytes. If not, the verdict fails.
  bool pools_right(const Call& call, const SessionTarget& kernel) {
    if (own_ != nullptr) return true;
    for (const bool k : {true, false}) {
      const auto pool = calls_.memory_of(kernel).memory.bytes(k ? kCacheK : kCacheV);
      if (const auto why = difference(model_, setup_, k, pool))
        return calls_.fail(call, kernel, Kind::kWrong, *why), false;
    }
    return true;
  }

  bool copy(const Step& step, std::span<const CopiedPage> pairs) {
    if (own_ != nullptr) return model_.copy(pairs), true;
    const Call call = {"copy_pages", step, result_.step, false};
    const SessionTarget* kernel = pairs.empty() ? nullptr : kernel_for(call, targets_.copy);
    if (kernel == nullptr) return model_.copy(pairs), true;
    KernelMemory& at = calls_.memory_of(*kernel);
    attn_problem p = problem();
    p.features = ATTN_FEATURE_COPY_PAGES;
    p.batch = std::ssize(pairs);
    p.seq_k = 0;
    attn_tensors t = begin(at);
    std::vector<int64_t> numbers;
    for (const auto& [from, to] : pairs) numbers.insert(numbers.end(), {from, to});
    t.copies = view(at.memory.lay(kCopies, indices(setup_.index_dtype, numbers)), dense(1, 1, 2));
    const Answer answer = calls_.make(call, *kernel, p, t);
    if (answer == Answer::kFailed) return false;
    model_.copy(pairs);
    return answer == Answer::kRefused || pools_right(call, *kernel);
  }

  bool append(const Call& call) {
    const Step& step = call.step;
    const SessionTarget* kernel = kernel_for(call, targets_.append);
    if (kernel == nullptr) return model_.finish(step), true;
    KernelMemory& at = calls_.memory_of(*kernel);
    const Rows rows(step);
    attn_problem p = problem();
    p.features = ATTN_FEATURE_APPEND;
    p.batch = std::ssize(step.entries);
    p.seq_q = rows.longest, p.seq_k = setup_.capacity;
    if (rows.packed()) p.ragged = ATTN_RAGGED_QUERIES, p.total_q = rows.rows;
    p.has_key_lengths = 1;
    p.pages_per_seq = setup_.columns_of_table();
    attn_tensors t = begin(at);
    std::vector<int64_t> lengths;
    for (const int64_t n : step.entries) lengths.push_back(model_.length(n));
    lay_entries(at, step, lengths, rows, std::vector<int64_t>(lengths.size()), t);
    for (const bool k : {true, false}) {
      const int64_t d = k ? setup_.dim_qk : setup_.dim_v;
      (k ? t.k_new : t.v_new) = view(at.memory.lay(k ? kKNew : kVNew, new_rows_of(setup_, step, k)),
                                     dense(setup_.heads_kv, rows.rows, d));
    }
    const Answer answer = calls_.make(call, *kernel, p, t);
    if (!go_on(call, answer)) return false;
    model_.finish(step);
    return answer == Answer::kRefused || pools_right(call, *kernel);
  }

  // Why a kernel with memory of its own cannot make an attend; nullptr if it can.
  const char* not_of_own(const Step& step) const {
    if (step.split != 0) return "a kernel with memory of its own attends over all keys at once";
    const bool live = std::ranges::all_of(step.entries, [&](int64_t n) { return model_.live(n); });
    return live ? nullptr : "a kernel with memory of its own knows no sequence that does not exist";
  }

  bool attend(const Call& call) {
    result_.attends.emplace_back();
    const SessionTarget* kernel = kernel_for(call, targets_.attend);
    if (kernel == nullptr) return true;
    if (const char* const why = own_ != nullptr ? not_of_own(call.step) : nullptr)
      return calls_.refused(call, why), true;
    Attended got, others;
    if (call.step.split == 0) {
      const Answer answer = attend_part(call, *kernel, Part::kAll, got);
      if (answer == Answer::kRan) result_.attends.back() = std::move(got);
      return answer != Answer::kFailed;
    }
    if (!gives_lse(*kernel))
      return calls_.refused(call, "the kernel gives no LSE, by which parts are merged"), true;
    KernelMemory& at = calls_.memory_of(*kernel);
    const Answer one =
        attend_part({"forward-first", call.step, call.planned, call.replayed}, *kernel, Part::kFirst, got);
    if (one != Answer::kRan) return one == Answer::kRefused;
    const Side first(at.memory);
    const Answer two =
        attend_part({"forward-others", call.step, call.planned, call.replayed}, *kernel, Part::kOthers, others);
    if (two != Answer::kRan) return two == Answer::kRefused;
    const attn_plan plan = got.plans[0];
    got.plans.push_back(others.plans[0]);
    if (plan.lse_base != others.plans[0].lse_base || plan.lse_dead != others.plans[0].lse_dead)
      return calls_.refused(call, "the LSEs of the two parts have two forms"), true;
    return merge({"merge", call.step, call.planned, call.replayed, &plan}, first, Side(at.memory), got.plans);
  }

  // Lays out O of a call with these rows, and the LSE if the kernel gives one.
  void lay_outputs(KernelMemory& at, const SessionTarget& kernel, const Rows& rows, attn_tensors& t) const {
    const auto all = static_cast<size_t>(rows.entries * setup_.heads_q * rows.rows);
    t.o = view(
        at.memory.lay(kO, repeated_bytes(all * static_cast<size_t>(setup_.dim_v) * 2, kNeverWritten), true),
        dense(setup_.heads_q, rows.rows, setup_.dim_v));
    if (!gives_lse(kernel)) return;
    t.lse = view(at.memory.lay(kLse, repeated_bytes(all * 4, kNeverWritten), true),
                 dense(setup_.heads_q, rows.rows, 1));
  }

  // Judges the outputs of a call, and keeps them with the call's plan.
  Answer judge(const Call& call, const SessionTarget& kernel, const Rows& rows, const Problem& p,
               const attn_tensors& given, Attended& got) {
    CallMemory& memory = calls_.memory_of(kernel).memory;
    got.outputs[kO] = read_rows(memory.bytes(kO), setup_.dtype, rows, setup_.heads_q, setup_.dim_v);
    if (gives_lse(kernel)) got.outputs[kLse] = read_rows(memory.bytes(kLse), ATTN_F32, rows, setup_.heads_q, 1);
    got.plans.push_back(calls_.plan(call));
    const attn_problem problem = problem_of(p);
    const Operation& operation = operation_of(problem.features);
    const Reference due = operation.evaluate(problem, given, got.plans.back(), kernel.calibration, {}, false);
    const bool right = judge_outputs(operation, due, p, got.plans.back(), got.outputs, result_.verdict);
    result_.worst = std::max(result_.worst, result_.verdict.worst);
    return right ? Answer::kRan : calls_.failed(call, kernel);
  }

  // Makes one call of an attend, over all keys or over a part of them.
  Answer attend_part(const Call& call, const SessionTarget& kernel, Part part, Attended& got) {
    KernelMemory& at = calls_.memory_of(kernel);
    const Gathered due(setup_, model_, call.step, part);
    attn_problem p = problem_of(due.problem);
    p.index_dtype = setup_.index_dtype;
    p.page_size = setup_.page_size, p.pages = setup_.pages, p.pages_per_seq = setup_.columns_of_table();
    attn_tensors t = begin(at);
    std::vector<int64_t> skipped = first_pages(setup_, model_, call.step);
    if (part != Part::kOthers) std::ranges::fill(skipped, 0);
    lay_entries(at, call.step, *due.problem.key_lengths, due.rows, skipped, t);
    t.q = view(at.memory.lay(kQ, due.q), dense(p.heads_q, due.rows.rows, p.dim_qk));
    lay_outputs(at, kernel, due.rows, t);
    const Answer answer = calls_.make(call, kernel, p, t);
    if (answer != Answer::kRan) return answer;
    if (!pools_right(call, kernel)) return Answer::kFailed;
    return judge(call, kernel, due.rows, due.problem, due.tensors(), got);
  }

  // Merges the two results of an attend, whose calls had these plans. For the merge, packed rows are one batch
  // entry.
  bool merge(const Call& call, const Side& first, const Side& others, const std::vector<attn_plan>& plans) {
    const SessionTarget* kernel = kernel_for(call, targets_.merge);
    if (kernel == nullptr) return true;
    KernelMemory& at = calls_.memory_of(*kernel);
    const Rows rows = Rows(call.step).as_dense();
    Problem problem;
    problem.dtype = setup_.dtype;
    problem.batch = rows.entries;
    problem.heads_q = problem.heads_kv = setup_.heads_q;
    problem.seq_q = rows.rows, problem.seq_k = 0;
    problem.dim_v = setup_.dim_v;
    problem.features = ATTN_FEATURE_MERGE;
    attn_problem p = problem_of(problem);
    at.memory.clear();
    attn_tensors t = {};
    t.size = sizeof t;
    t.o1 = view(at.memory.lay(kO1, first.o), dense(p.heads_q, p.seq_q, p.dim_v));
    t.o2 = view(at.memory.lay(kO2, others.o), dense(p.heads_q, p.seq_q, p.dim_v));
    t.lse1 = view(at.memory.lay(kLse1, first.lse), dense(p.heads_q, p.seq_q, 1));
    t.lse2 = view(at.memory.lay(kLse2, others.lse), dense(p.heads_q, p.seq_q, 1));
    const attn_tensors given = t;  // written_beside() checks that the call leaves these inputs unchanged
    lay_outputs(at, *kernel, rows, t);
    const Answer answer = calls_.make(call, *kernel, p, t);
    if (answer != Answer::kRan) return answer == Answer::kRefused;
    Attended got = {{}, plans};
    if (judge(call, *kernel, rows, problem, given, got) != Answer::kRan) return false;
    result_.attends.back() = std::move(got);
    return true;
  }

  const Session& session_;
  const Setup& setup_;
  const SessionTargets& targets_;
  const SessionTarget* const own_;
  bool ended_ = false;
  Model model_;
  SessionResult result_;
  KernelCalls calls_;
};

}  // namespace

void add(const CallCounts& from, CallCounts& to) {
  for (const auto& [call, count] : from) {
    to[call].asked += count.asked;
    to[call].judged += count.judged;
  }
}

SessionResult run_session(const Session& session, const SessionTargets& targets) {
  if (const auto why = objection(session)) throw std::invalid_argument(*why);
  return SessionRun(session, targets).run();
}

std::string left_out_of(const SessionResult& result, const std::string& failing) {
  const auto is_of_attend = [](std::string_view call) {
    return call.starts_with("forward") || call.starts_with("merge") || call.starts_with("relation");
  };
  for (const auto& [what, n] : result.left_out) {
    // Any call may have failed in the second form of a relation.
    const bool same = is_of_attend(failing) ? is_of_attend(what)
                                            : what.starts_with(failing + ": ") || what.starts_with("relation");
    if (failing.empty() || same || what.ends_with(": steps after a refused one")) return what;
  }
  return "";
}

}  // namespace attnfuzz::sequences
