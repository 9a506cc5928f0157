// A kernel in this process that appends to a paged cache, with a bug that sequences of calls show.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <set>
#include <string>

#include "tests/properties/support/fake_target.h"

namespace attnfuzz {

class AppendTarget : public FakeTarget {
 public:
  enum class Bug {
    kNone,
    kSkipsLast,  // does not write the last row of an append of two rows or more
    kAfterMany,  // writes no row from the 31st append in a process on
    kLater,      // writes no row in the fourth process and later ones
    kFourth,     // writes no row in the fourth process
    kFifth,      // nor in the fifth
    kEvenly,     // writes no row in every second process
    kDies,       // at one place
    kTruncated,  // writes no row once an append has begun below the end of the one before, but for that append
    kBegunPage,  // writes no row of a new sequence whose first page another sequence had, or the same one before
    // Two bugs: does not write the last row of an append of two rows or more to pages of several keys; and
    // writes no row of a call with two sequences whose first page is the same.
    kPagesAndForks,
    kHangs,
    kRefuses,  // an append of two rows or more
    kEndsJob,  // ends the process that runs it, if `ends` says so
  };
  static constexpr int kMany = 30;

  explicit AppendTarget(Bug bug) : bug_(bug) {
    info_.name = info_.exact_name = info_.library = "appends";
    info_.features = ATTN_FEATURE_PAGED | ATTN_FEATURE_APPEND | ATTN_FEATURE_NO_FORWARD;
  }
  std::function<bool()> ends = [] { return false; };

  const KernelInfo& info() const override { return info_; }
  void renew() override { ++processes_, appends_ = end_ = 0, truncated_ = false, begun_.clear(); }

  PlanReply plan(const attn_problem& p, const attn_tensors&, const attn_env&) override {
    PlanReply reply;
    if (bug_ == Bug::kRefuses && p.seq_q >= 2) {
      reply.status = ATTN_UNSUPPORTED;
      reply.reason = "two rows";
      return reply;
    }
    attn_plan& plan = reply.plan;
    plan.size = sizeof plan;
    plan.accumulator = ATTN_ACC_FFMA;
    std::strcpy(plan.path, "host");
    plan.tile_q = plan.tile_k = plan.num_splits = plan.split_tiles = 1;
    plan.workspace_align = 1;
    plan.exp_class = ATTN_EXP_EXPF, plan.log_class = ATTN_LOG_LOGF, plan.rcp_class = ATTN_RCP_EXACT;
    plan.scale_mode = ATTN_SCALE_SEPARATE;
    plan.p_format = plan.partial_format = ATTN_FORMAT_F32;
    plan.isolates_masked_nan = plan.deterministic = 1;
    return reply;
  }

  RunReply run(Stage, const attn_problem& p, const attn_tensors& t, const attn_plan&, const attn_env&,
               int) override {
    RunReply reply;
    ++appends_;
    if (bug_ == Bug::kEndsJob && ends()) std::_Exit(7);
    if (bug_ == Bug::kDies) {
      reply.status = ATTN_FAULT;
      reply.crash = "SIGSEGV in run()";
      reply.site = "SIGSEGV at libfake.so+0x12";
      reply.exit_reason = ExitReason::kSignal;
      return reply;
    }
    if (bug_ == Bug::kHangs) {
      reply.status = ATTN_FAULT;
      reply.timed_out = true;
      return reply;
    }
    int64_t rows = p.seq_q;
    if (bug_ == Bug::kSkipsLast && rows >= 2) --rows;
    if (bug_ == Bug::kAfterMany && appends_ > kMany) rows = 0;
    if (bug_ == Bug::kLater && processes_ > 3) rows = 0;
    if (bug_ == Bug::kFourth && processes_ == 4) rows = 0;
    if (bug_ == Bug::kFifth && (processes_ == 4 || processes_ == 5)) rows = 0;
    if (bug_ == Bug::kEvenly && processes_ % 2 == 0) rows = 0;
    if (bug_ == Bug::kTruncated && truncated_) rows = 0;
    if (bug_ == Bug::kBegunPage && t.key_lengths[0] == 0 && p.page_size > 0) {
      const int64_t page = *static_cast<const int64_t*>(t.block_table.data);
      if (!begun_.insert(page).second) rows = 0;
    }
    if (bug_ == Bug::kPagesAndForks && p.page_size > 1 && rows >= 2) --rows;
    if (bug_ == Bug::kPagesAndForks && p.batch == 2 && t.key_lengths[0] > 0 && t.key_lengths[1] > 0 &&
        p.page_size > 0) {
      const auto* table = static_cast<const int64_t*>(t.block_table.data);
      if (table[0] == table[t.block_table.stride[0]]) rows = 0;
    }
    truncated_ |= t.key_lengths[0] > 0 && t.key_lengths[0] < end_;
    end_ = std::min(t.key_lengths[0] + p.seq_q, p.seq_k);
    for (int64_t b = 0; b < p.batch; ++b) {
      for (int64_t h = 0; h < p.heads_kv; ++h) {
        for (int64_t i = 0; i < rows; ++i) {
          const int64_t key = std::clamp<int64_t>(t.key_lengths[b], 0, p.seq_k) + i;
          if (key >= p.seq_k) continue;
          copy(p, t, t.k_new, t.k, {b, h, i, key}, p.dim_qk);
          copy(p, t, t.v_new, t.v, {b, h, i, key}, p.dim_v);
        }
      }
    }
    return reply;
  }

 private:
  struct Row {
    int64_t b, h, i, key;
  };
  static void copy(const attn_problem& p, const attn_tensors& t, const attn_tensor& from, const attn_tensor& to,
                   const Row& at, int64_t dim) {
    int64_t page = at.b, slot = at.key;
    if (p.page_size > 0) {
      const auto* table = static_cast<const int64_t*>(t.block_table.data) + at.b * t.block_table.stride[0];
      page = table[at.key / p.page_size], slot = at.key % p.page_size;
    }
    const auto* source = static_cast<const uint16_t*>(from.data) + at.b * from.stride[0] +
                         at.h * from.stride[1] + at.i * from.stride[2];
    auto* place =
        static_cast<uint16_t*>(to.data) + page * to.stride[0] + at.h * to.stride[1] + slot * to.stride[2];
    std::memcpy(place, source, static_cast<size_t>(dim) * sizeof *place);
  }

  const Bug bug_;
  KernelInfo info_ = FakeTarget().info();
  int processes_ = 0;
  // Of this process.
  int appends_ = 0;
  int64_t end_ = 0;
  bool truncated_ = false;
  std::set<int64_t> begun_;
};

}  // namespace attnfuzz
