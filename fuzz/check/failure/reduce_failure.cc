// Judges a failure again and reduces it (check.h), with a kernel whose workers may hang, keep state
// or refuse.
#include <algorithm>

#include "fuzz/check/check.h"
#include "properties/case/features/domain.h"
#include "properties/explain/first_bits.h"

namespace attnfuzz {

std::optional<Verdict> confirm(const Case& c, const Verdict& first, const Property& property, Target& target,
                               const Calibration& calibration, int times) {
  const std::string key = reduction_key(target.info(), first);
  std::optional<Verdict> other;
  const BriefWatch watch(target, first.kind == Kind::kHang);  // the first run used the full limit
  for (int i = 0; i < times; ++i) {
    target.renew();
    Verdict again = judge(c, property, target, calibration);
    if (again.outcome != Outcome::kFail) continue;
    const bool same = reduction_key(target.info(), again) == key;
    other = std::move(again);
    if (same) break;
  }
  return other;
}

namespace {

// Judges the candidates of a reduction.
struct Judging {
  Target& target;
  const Calibration& calibration;
  // If set, a failure counts only if a fresh library shows it too, because state that the library
  // kept from an earlier call may have caused it.
  bool renewing = false;

  Verdict operator()(const Case& c, const Property& property) const {
    Verdict verdict = judge(c, property, target, calibration);
    if (renewing && verdict.outcome == Outcome::kFail) {
      target.renew();
      verdict = judge(c, property, target, calibration);
    }
    return verdict;
  }
};

// Cases that may fail without the relation that found the failure: the case itself; the variant that failed,
// with its values in their usual order; and the case with splits, because the property `stages` runs both
// stages of Split-K even if the case asks for no splits.
std::vector<Case> by_themselves(const Case& c, const Verdict& verdict, const KernelInfo& kernel) {
  std::vector<Case> all = {c};
  if (verdict.failing) {
    all.push_back(*verdict.failing);
    all.back().remap = Remap{};
  }
  if (kernel.has_stages && (c.problem.num_splits < 2 || c.problem.seq_k < 2)) {
    all.push_back(c);
    Problem& split = all.back().problem;
    split.num_splits = std::max<int64_t>(split.num_splits, 2);
    split.seq_k = std::max<int64_t>(split.seq_k, 2);  // a key for each split
  }
  return all;
}

Reduction reduce_watched(const Case& c, const Verdict& verdict, const Property& property,
                         const Judging& judging, const ReduceOptions& options) {
  const KernelInfo& kernel = judging.target.info();
  const auto key_of = [&](const Verdict& v) {
    return reduction_key(kernel, v) + (options.keep_site ? " " + v.site : "");
  };
  const Property& simplest = *find_property("reference");
  if (&property != &simplest) {
    for (const Case& start : by_themselves(c, verdict, kernel)) {
      const Verdict alone = judging(start, simplest);
      if (alone.outcome == Outcome::kFail && key_of(alone) == key_of(verdict)) {
        return reduce_watched(start, alone, simplest, judging, options);
      }
    }
  }
  const auto evaluate = [&](const Case& candidate) {
    Case adapted = candidate;
    std::string why;
    keep_known(property, adapted);
    // If adapt() would change the candidate, another case would be judged.
    if (!property.adapt(adapted, kernel, &why) || !(adapted == candidate)) {
      Verdict verdict;
      verdict.outcome = Outcome::kRefused;
      return verdict;
    }
    return judging(candidate, property);
  };
  Reduction reduction = reduce(c, verdict, key_of(verdict), evaluate, key_of, options);
  if (&property == &simplest) return reduction;
  // The reduced case may fail without the relation, even if the found case did not.
  for (const Case& start : by_themselves(reduction.minimal, reduction.verdict, kernel)) {
    const Verdict alone = judging(start, simplest);
    if (alone.outcome != Outcome::kFail || key_of(alone) != key_of(reduction.verdict)) continue;
    Reduction simpler = reduce_watched(start, alone, simplest, judging, options);
    simpler.evaluations += reduction.evaluations;
    return simpler;
  }
  return reduction;
}

Reduction reduce_on(const Case& c, const Verdict& verdict, const Property& property, Target& target,
                    const Calibration& calibration, const ReduceOptions& given) {
  ReduceOptions options = given;
  options.features = target.info().features;
  if (const auto& domain = target.info().domain) {
    options.fit = [&](Case& candidate) {
      fit(*domain, candidate);
      if (given.fit) given.fit(candidate);
    };
  }
  Judging judging = {target, calibration};
  const auto reduce_here = [&] {
    // Brief while a hang is reduced; below, the minimal case gets the full time limit.
    const BriefWatch watch(target, verdict.kind == Kind::kHang);
    return reduce_watched(c, verdict, property, judging, options);
  };
  Reduction reduction = reduce_here();
  const bool hangs = reduction.verdict.kind == Kind::kHang;
  // A failure on a GPU need not repeat, so another run would refute nothing.
  if (!hangs && target.info().backend != ATTN_CPU) return reduction;
  target.renew();
  const Property* judged_by = find_property(reduction.verdict.property);
  const Verdict confirmed = judge(reduction.minimal, judged_by ? *judged_by : property, target, calibration);
  if (confirmed.kind == reduction.verdict.kind) return reduction;
  // The minimal case is only slow although the found one hangs, or it fails only because of state
  // that other candidates left.
  judging.renewing = !hangs;
  const int64_t before = reduction.evaluations;
  reduction = reduce_watched(c, verdict, property, judging, options);
  reduction.evaluations += before;
  return reduction;
}

}  // namespace

Reduction reduce_failure(const Case& c, const Verdict& verdict, const Property& property, Target& target,
                         const Calibration& calibration, const ReduceOptions& options) {
  // A smaller case is quicker, so a reduction of a slow case would stop at the watchdog's limit and
  // not at a cause.
  if (verdict.kind == Kind::kSlow)
    return {.minimal = c, .verdict = verdict, .complete = true, .needs = {}, .indifferent = {}};
  // If the case also fails with ATTN_ARITHMETIC_ANY, it does not need a GPU's arithmetic. This is not tried if
  // the whole check has one (--arithmetic).
  Case any = c;
  if (calibration.arithmetic == ATTN_ARITHMETIC_ANY) any.env.arithmetic = ATTN_ARITHMETIC_ANY;
  const Verdict in_any = any == c ? verdict : judge(any, property, target, calibration);
  const bool needed = in_any.outcome != Outcome::kFail || in_any.kind != verdict.kind;
  Reduction reduction =
      reduce_on(needed ? c : any, needed ? verdict : in_any, property, target, calibration, options);
  // A kernel without variants takes only variant 0, so "needs variant 0" would say nothing.
  if (target.info().variants.empty())
    std::erase_if(reduction.needs,
                  [](const Need& need) { return need.part == "variant" || need.part == "the variant"; });
  tell_first_bits(reduction.minimal, target, reduction.verdict);
  return reduction;
}

}  // namespace attnfuzz
