#include "fuzz/check/tighter.h"

#include <algorithm>
#include <chrono>
#include <iterator>

#include "properties/case/features/feature.h"
#include "properties/case/words.h"
#include "properties/draw/draw.h"
#include "properties/draw/generator.h"
#include "properties/judge/property.h"
#include "properties/judge/trial.h"

namespace attnfuzz {
namespace {

// A class of Takes::in_fp32, and the part of a kernel that it describes.
struct Class {
  Assumption::Part part;
  int32_t attn_plan::* field;
  int32_t value;
};
constexpr Class kClasses[] = {{Assumption::Part::kAccumulator, &attn_plan::accumulator, ATTN_ACC_FFMA},
                              {Assumption::Part::kExp, &attn_plan::exp_class, ATTN_EXP_FAST_EXPF},
                              {Assumption::Part::kScaling, &attn_plan::scale_mode, ATTN_SCALE_SEPARATE},
                              {Assumption::Part::kFormatOfP, &attn_plan::p_format, ATTN_FORMAT_F32}};
constexpr unsigned kAll = (1u << std::size(kClasses)) - 1;

// A target that completes its kernel's plan. If the plan leaves a class open and `which` has the bit of this
// class, the plan gets the fp32 class.
class Saying : public Target {
 public:
  explicit Saying(Target& target) : target_(target) { terms = target.terms; }
  unsigned which = 0;

  const KernelInfo& info() const override { return target_.info(); }
  Arena& arena() override { return target_.arena(); }
  void memory(std::span<const MemoryRange> ranges) override { target_.memory(ranges); }
  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
    PlanReply reply = target_.plan(problem, tensors, env);
    own_ = reply.plan;
    for (size_t n = 0; n < std::size(kClasses); ++n) {
      int32_t& field = reply.plan.*kClasses[n].field;
      if ((which >> n & 1) != 0 && field == 0) field = kClasses[n].value;
    }
    return reply;
  }
  // The kernel gets its own plan back, without the added classes.
  RunReply run(Stage stage, const attn_problem& problem, const attn_tensors& tensors, const attn_plan& plan,
               const attn_env& env, int stream) override {
    attn_plan own = plan;
    for (const Class& one : kClasses) own.*one.field = own_.*one.field;
    return target_.run(stage, problem, tensors, own, env, stream);
  }
  void watch(Watch watch) override { target_.watch(watch); }
  void renew() override { target_.renew(); }
  std::optional<attn_partials> partials(const attn_problem& problem, const attn_plan& plan,
                                        std::string* why) override {
    return target_.partials(problem, plan, why);
  }

 private:
  Target& target_;
  attn_plan own_ = {};
};

Case drawn_inside(const GeneratorConfig& config, const Target& target, uint64_t index) {
  constexpr uint64_t kSeed = 1;
  Case c = draw(config, kSeed, index);
  strip_refused(config.refused, c, config.work);
  fit_domain(config, c);
  tidy(c);
  c.build_kind = target.info().build_kind;
  return c;
}

bool is_compared(const Verdict& v) {
  return v.outcome == Outcome::kPass && v.rows > v.unconstrained_rows + v.dead_rows + v.uninformative_rows;
}

}  // namespace

bool Tighter::consistent() const {
  constexpr int kFewest = 20;
  return outside == 0 && compared >= kFewest;
}

bool leaves_fp32_open(const std::vector<Assumption>& assumptions) {
  return std::ranges::any_of(assumptions, [](const Assumption& assumption) {
    return std::ranges::find(kClasses, assumption.part, &Class::part) != std::end(kClasses);
  });
}

Tighter try_fp32(Target& target, const GeneratorConfig& config, const Calibration& calibration, int cases,
                 double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  const Property& reference = *find_property("reference");
  Tighter result;
  Saying saying(target);
  const auto judged = [&](const Case& c, unsigned which) {
    saying.which = which;
    return judge(c, reference, saying, calibration);
  };
  std::vector<Assumption> assumptions;
  int without[std::size(kClasses)] = {};
  for (int n = 0; n < cases && Clock::now() < end; ++n) {
    const Case c = drawn_inside(config, target, static_cast<uint64_t>(n));
    if (illegal(c)) continue;
    const Verdict loose = judged(c, 0);
    if (loose.outcome != Outcome::kPass && loose.outcome != Outcome::kNotJudged) continue;
    ++result.cases;
    for (const Assumption& one : loose.assumptions) {
      if (std::ranges::find(assumptions, one) == assumptions.end()) assumptions.push_back(one);
    }
    const Verdict tight = judged(c, kAll);
    result.outside += tight.outcome == Outcome::kFail;
    if (is_compared(tight)) ++result.compared, result.worst = std::max(result.worst, tight.worst);
    if (loose.outcome != Outcome::kNotJudged) continue;
    ++result.uninformative;
    result.still += tight.outcome == Outcome::kNotJudged;
    for (size_t i = 0; i < std::size(kClasses); ++i)
      without[i] += judged(c, 1u << i).outcome == Outcome::kNotJudged;
  }
  const auto least = std::ranges::min_element(without);
  if (*least >= result.uninformative) return result;
  result.without = *least;
  for (const Assumption& one : assumptions) {
    if (one.part == kClasses[least - std::begin(without)].part) result.costs = one.text();
  }
  return result;
}

std::string words(const Tighter& t) {
  if (t.outside > 0)
    return cat("not consistent with fp32 arithmetic: of ", t.cases, " cases ", t.outside,
               " are beyond its bounds");
  if (!t.consistent())
    return cat("not known to be consistent with fp32 arithmetic: of ", t.cases, " cases ", t.compared,
               " could be compared");
  char worst[32];
  std::snprintf(worst, sizeof worst, "%.2g", t.worst);
  return cat("consistent with fp32 accumulation: ", t.compared,
             " cases are within the bounds of fp32 arithmetic, the worst error at ", worst, " of its bound");
}

}  // namespace attnfuzz
