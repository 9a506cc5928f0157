#include "properties/explain/clues.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "properties/case/features/domain.h"
#include "properties/case/words.h"
#include "properties/explain/probe_case.h"
#include "properties/judge/judge.h"
#include "properties/judge/property.h"
#include "properties/judge/trial.h"

namespace attnfuzz {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 22;  // elements of Q, K, V and O in the largest case to run

int64_t round_up(int64_t n, int64_t to) { return to > 0 ? (n + to - 1) / to * to : n; }

bool small(const Problem& p) {
  const auto product = [](auto... n) { return (static_cast<double>(n) * ...); };
  return product(p.batch, p.heads_q, p.seq_q + p.seq_k, p.dim_qk + p.dim_v) < kMostElements;
}

class Gatherer {
 public:
  Gatherer(const Case& c, const Verdict& verdict, Target& target, const Calibration& calibration)
      : c_(c), verdict_(verdict), target_(target), calibration_(calibration) {}

  Clues gather() {
    Clues clues;
    if (verdict_.outcome != Outcome::kFail || verdict_.kind == Kind::kHang || verdict_.kind == Kind::kSlow)
      return clues;
    const Case& failing = verdict_.failing ? *verdict_.failing : c_;
    clues.domain = target_.info().domain;
    trace(failing, clues);
    const Problem& p = c_.problem;
    if (!small(p)) return clues;
    if (verdict_.failing && *verdict_.failing != c_) clues.alone = alone(failing);
    probe(failing, clues);
    fill_tiles(clues);
    fill_splits(clues);
    halve_dims(clues);
    constexpr int64_t kVector = 8;  // elements of 16 bits in a vector of 16 bytes
    clues.whole_vectors = with([&](Problem& q) {
      q.dim_qk = round_up(q.dim_qk, kVector);
      q.dim_v = round_up(q.dim_v, kVector);
    });
    clues.broken_vectors = with([&](Problem& q) {
      q.dim_qk = round_up(q.dim_qk, kVector) + 1;
      q.dim_v = round_up(q.dim_v, kVector) + 1;
    });
    const auto whole_view = [](auto& view) {
      if (view) view->broadcast = {};
    };
    clues.stored_whole = with([&](Problem& q) {
      whole_view(q.bias);
      whole_view(q.mask);
    });
    clues.zeroed = zeroed(failing);
    ask_orders(clues);
    return clues;
  }

 private:
  // With few keys, several readings may give the same values. With some more keys, most of them differ.
  void trace(const Case& failing, Clues& clues) {
    const Trace trace = trace_values(failing, target_, calibration_);
    clues.traced = trace.fault;
    clues.traced_as = join(trace.readings, ", or if ");
    if (trace.readings.size() < 2) return;
    Case larger = failing;
    larger.problem.seq_q += 1;
    larger.problem.seq_k += 2;
    if (clues.domain) fit(*clues.domain, larger);
    if (!small(larger.problem) || illegal(larger)) return;
    const Trace there = trace_values(larger, target_, calibration_);
    std::vector<std::string> both;
    for (const std::string& reading : trace.readings) {
      if (std::ranges::count(there.readings, reading) > 0) both.push_back(reading);
    }
    if (!both.empty()) clues.traced_as = join(both, ", or if ");
  }

  // Applies `to` to the number of keys, and to that of each packed entry that has keys.
  static void set_keys(Problem& p, const std::function<int64_t(int64_t)>& to) {
    if (p.packed_k) {
      for (int64_t& length : p.packed_k->lengths)
        if (length > 0) length = to(std::min(length, p.seq_k));
    }
    p.seq_k = to(p.seq_k);
  }
  static void set_queries(Problem& p, const std::function<int64_t(int64_t)>& to) {
    if (p.packed_q) {
      for (int64_t& length : p.packed_q->lengths)
        if (length > 0) length = to(std::min(length, p.seq_q));
    }
    p.seq_q = to(p.seq_q);
  }

  // Changes one length at a time, so that each answer concerns one partial tile.
  void fill_tiles(Clues& clues) {
    const auto up = [](int64_t n, int64_t tile) { return round_up(std::max<int64_t>(n, 1), tile); };
    const int64_t keys = c_.problem.seq_k;
    // The plan's tile may be a part of the kernel's real tile. The largest tiles in use are multiples of 256.
    for (const int64_t tile : {verdict_.plan.tile_k, int64_t{256}}) {
      clues.whole_tiles = with([&](Problem& q) { set_keys(q, [&](int64_t n) { return up(n, tile); }); });
      if (clues.whole_tiles != Clues::Answer::kPasses) continue;
      const int64_t lacking = keys == up(keys, tile) - 1 ? 2 : 1;
      clues.other_tail =
          with([&](Problem& q) { set_keys(q, [&](int64_t n) { return up(n, tile) - lacking; }); });
      break;
    }
    const int64_t tile_q = verdict_.plan.tile_q;
    clues.whole_rows = with([&](Problem& q) { set_queries(q, [&](int64_t n) { return up(n, tile_q); }); });
  }

  void fill_splits(Clues& clues) {
    const int64_t full = c_.problem.num_splits * std::max<int64_t>(verdict_.plan.tile_k, 1);
    if (c_.problem.num_splits < 2 || c_.problem.seq_k >= full) return;
    clues.full_splits = with([&](Problem& q) { set_keys(q, [&](int64_t) { return full; }); });
  }

  // Tests whether the failure starts at a number of elements (keys times columns), not at a number of keys. A
  // reduced case has the fewest keys that fail.
  void halve_dims(Clues& clues) {
    constexpr int64_t kLong = 1024;  // keys; with fewer, no product is large
    const Problem& p = c_.problem;
    if (p.seq_k <= kLong || p.dim_qk != p.dim_v || p.dim_qk % 2 != 0) return;
    const auto answer = [&](int64_t keys, int64_t dim) {
      return with([&](Problem& q) {
        q.seq_k = keys;
        q.dim_qk = q.dim_v = dim;
      });
    };
    const int64_t half = p.dim_qk / 2;
    if (answer(p.seq_k - 1, p.dim_qk) == Clues::Answer::kPasses &&
        answer(2 * p.seq_k, half) == Clues::Answer::kFails &&
        answer(2 * (p.seq_k - 1), half) == Clues::Answer::kPasses) {
      clues.product_border = (p.seq_k - 1) * p.dim_qk;
    }
  }

  // Each run is in a fresh worker, so that state of an earlier run does not matter.
  void ask_orders(Clues& clues) {
    constexpr int kOrders = 4, kRandom = 2;
    const Property* property = find_property(verdict_.property);
    const bool numbers = verdict_.kind == Kind::kWrong || verdict_.kind == Kind::kNonFinite ||
                         verdict_.kind == Kind::kRelation || verdict_.kind == Kind::kUnwritten;
    if (!numbers || property == nullptr || target_.info().backend != ATTN_CPU || c_.env.schedule_seed != 0)
      return;
    const auto fails = [&](uint64_t seed) {
      Case other = c_;
      other.env.schedule_seed = seed;
      target_.renew();
      return judge(other, *property, target_, calibration_).outcome == Outcome::kFail;
    };
    if (!fails(0)) return;
    for (; clues.orders < kOrders; ++clues.orders) {
      clues.orders_failed += fails(static_cast<uint64_t>(clues.orders) << 4 | kRandom);
    }
    if (!fails(0)) clues.orders = clues.orders_failed = 0;  // the failure comes and goes by itself
  }

  template <typename Edit>
  Clues::Answer with(Edit&& edit) {
    Case other = c_;
    edit(other.problem);
    if (target_.info().domain) fit(*target_.info().domain, other);
    const Property* property = find_property(verdict_.property);
    if (property == nullptr || other == c_ || !small(other.problem) || illegal(other)) {
      return Clues::Answer::kNotAsked;
    }
    return answer(judge(other, *property, target_, calibration_));
  }

  Clues::Answer alone(const Case& failing) {
    const Property* reference = find_property("reference");
    if (reference == nullptr || failing.remap != Remap{} || illegal(failing)) return Clues::Answer::kNotAsked;
    target_.renew();
    return answer(judge(failing, *reference, target_, calibration_));
  }

  Clues::Answer zeroed(const Case& failing) {
    if (failing.remap != Remap{}) return Clues::Answer::kNotAsked;
    Execution e(failing, target_);
    if (!e.why_not().empty() || e.plan.workspace_bytes == 0) return Clues::Answer::kNotAsked;
    e.laid.before_call(failing.calls.front());
    std::memset(e.laid.tensors().workspace, 0, e.plan.workspace_bytes);
    Verdict v;
    if (accept_run(e.run(Stage::kAll), v) && accept_memory(e.laid.check_memory(), failing.problem, e.plan, v)) {
      judge_outputs(e.operation, e.evaluate(calibration_), failing.problem, e.plan, e.outputs(), v);
    }
    return answer(v);
  }

  Clues::Answer answer(const Verdict& v) const {
    if (v.outcome == Outcome::kPass) return Clues::Answer::kPasses;
    const bool same = v.outcome == Outcome::kFail && kind_class(v.kind) == kind_class(verdict_.kind);
    return same ? Clues::Answer::kFails : Clues::Answer::kNotAsked;
  }

  void probe(const Case& failing, Clues& clues) {
    if (verdict_.kind != Kind::kWrong && verdict_.kind != Kind::kNonFinite &&
        verdict_.kind != Kind::kRelation) {
      return;
    }
    const ProbedCase probed = probe_case(failing, target_, {}, verdict_.where);
    if (!probed.why_not.empty() || !probed.ended.empty() || probed.checked.tiles.empty()) return;
    if (!probed.checked.notes.empty() || !probed.warp.notes.empty()) return;
    clues.probed = Clues::Probed::kAllRight;
    const auto& wrong = probed.checked.first_wrong;
    if (!wrong) return;
    clues.probed = Clues::Probed::kFirstWrong;
    clues.first_wrong = wrong->tag;
    clues.first_wrong_tile = static_cast<int64_t>(wrong->index);
    const double off = std::fabs(wrong->got - wrong->expected);
    clues.off = off < std::numeric_limits<double>::infinity() ? off / std::fabs(wrong->expected)
                                                              : std::numeric_limits<double>::infinity();
  }

  const Case& c_;
  const Verdict& verdict_;
  Target& target_;
  const Calibration& calibration_;
};

}  // namespace

Clues gather_clues(const Case& c, const Verdict& verdict, Target& target, const Calibration& calibration) {
  return Gatherer(c, verdict, target, calibration).gather();
}

std::vector<std::string> lines_of(const Clues& clues) {
  std::vector<std::string> lines;
  if (clues.probed == Clues::Probed::kAllRight)
    lines.push_back("intermediates: all recorded ones are right; a later step is wrong");
  if (clues.probed == Clues::Probed::kFirstWrong) {
    lines.push_back(cat("intermediates: the first wrong one is ", to_string(clues.first_wrong), " of tile ",
                        clues.first_wrong_tile));
  }
  const auto tried = [&](const char* with, Clues::Answer answer) {
    if (answer == Clues::Answer::kNotAsked) return;
    lines.push_back(cat("with ", with, " it ", answer == Clues::Answer::kPasses ? "passes" : "fails too"));
  };
  tried("keys in whole tiles", clues.whole_tiles);
  tried("another partial tile of keys", clues.other_tail);
  tried("queries in whole tiles", clues.whole_rows);
  tried("keys for each split", clues.full_splits);
  if (clues.product_border > 0)
    lines.push_back(cat("it takes more than ", clues.product_border, " elements of K or V a head"));
  tried("head dims of whole vectors", clues.whole_vectors);
  tried("head dims of no whole vectors", clues.broken_vectors);
  tried("nothing run before the failing case", clues.alone);
  tried("a workspace of zeros", clues.zeroed);
  tried("bias and mask stored in full", clues.stored_whole);
  if (clues.orders > 0) {
    lines.push_back(
        cat("in ", clues.orders, " random orders of threads it fails ", clues.orders_failed, " times"));
  }
  return lines;
}

}  // namespace attnfuzz
