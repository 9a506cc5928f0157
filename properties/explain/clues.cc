#include "properties/explain/clues.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "properties/case/words.h"
#include "properties/explain/probe_case.h"
#include "properties/judge/judge.h"
#include "properties/judge/property.h"
#include "properties/judge/trial.h"

namespace attnfuzz {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 22;  // of Q, K, V and O of a case tried

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
    if (verdict_.outcome != Outcome::kFail || verdict_.kind == Kind::kHang) return clues;
    const Case& failing = verdict_.failing ? *verdict_.failing : c_;
    clues.traced = trace_values(failing, target_, calibration_).fault;
    const Problem& p = c_.problem;
    if (!small(p)) return clues;
    if (verdict_.failing && *verdict_.failing != c_) clues.alone = alone(failing);
    probe(failing, clues);
    const int64_t tile_q = verdict_.plan.tile_q, tile_k = verdict_.plan.tile_k;
    const auto whole = [](Problem& q, int64_t to_q, int64_t to_k) {
      q.seq_q = round_up(std::max<int64_t>(q.seq_q, 1), to_q);
      q.seq_k = round_up(std::max<int64_t>(q.seq_k, 1), to_k);
    };
    clues.whole_tiles = with([&](Problem& q) { whole(q, tile_q, tile_k); });
    constexpr int64_t kVector = 8;  // elements of 16 bits
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
    return clues;
  }

 private:
  template <typename Edit>
  Clues::Answer with(Edit&& edit) {
    Case other = c_;
    edit(other.problem);
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
      judge_outputs(e.evaluate(calibration_), failing.problem, e.plan, e.outputs(), v);
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
    lines.push_back("intermediates: all that were recorded are right; what comes after them is not");
  if (clues.probed == Clues::Probed::kFirstWrong) {
    lines.push_back(cat("intermediates: the first that is wrong is ", to_string(clues.first_wrong), " of tile ",
                        clues.first_wrong_tile));
  }
  const auto tried = [&](const char* with, Clues::Answer answer) {
    if (answer == Clues::Answer::kNotAsked) return;
    lines.push_back(cat("with ", with, " it ", answer == Clues::Answer::kPasses ? "passes" : "fails too"));
  };
  tried("lengths of whole tiles", clues.whole_tiles);
  tried("head dims of whole vectors", clues.whole_vectors);
  tried("head dims of no whole vectors", clues.broken_vectors);
  tried("nothing run before what failed", clues.alone);
  tried("a workspace of zeros", clues.zeroed);
  tried("bias and mask stored whole", clues.stored_whole);
  return lines;
}

}  // namespace attnfuzz
