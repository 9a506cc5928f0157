// Follows the output `row_max` and the operation `count` of operation.py from the oracle to a replay. The
// kernel is right, or adds 1 to one of them if there are more than 16 keys.
#include <cstdio>
#include <cstring>
#include <string>
#include <variant>

#include "properties/case/codec/as_contract.h"
#include "properties/explain/clues.h"
#include "properties/explain/explain.h"
#include "properties/export/export.h"
#include "properties/judge/trial.h"
#include "properties/reduce/reproducer.h"
#include "python/native/oracle.h"
#include "reference/model/calibration.h"
#include "tests/properties/support/fake_target.h"

using namespace attnfuzz;

namespace {

int failed = 0;
void expect(bool holds, const std::string& what, const std::string& said = "") {
  if (holds) return;
  std::printf("it does not hold that %s%s\n", what.c_str(), said.empty() ? "" : (": " + said).c_str());
  failed = 1;
}

// A fake kernel that writes the values of the operation's own evaluate() into the new outputs.
class Grown final : public FakeTarget {
 public:
  explicit Grown(bool wrong) : wrong_(wrong) { take_features(ATTN_FEATURE_ROW_MAX | ATTN_FEATURE_COUNT); }
  PlanReply plan(const attn_problem& p, const attn_tensors& t, const attn_env& env) override {
    return FakeTarget::plan(p, with_o(t), env);
  }
  RunReply run(Stage stage, const attn_problem& p, const attn_tensors& t, const attn_plan& plan,
               const attn_env& env, int stream) override {
    const bool counts = (p.features & ATTN_FEATURE_COUNT) != 0;
    RunReply reply = counts ? RunReply{} : FakeTarget::run(stage, p, t, plan, env, stream);
    const Operation& operation = operation_of(p.features);
    const Reference due = operation.evaluate(p, t, plan, documented(), {}, true);
    const bool off = wrong_ && p.seq_k > 16;
    for (const Expected& output : due.outputs) {
      if (output.tensor == TensorId::kO || output.tensor == TensorId::kLse) continue;
      const attn_tensor view = view_of(t, spec_of(output.tensor));
      for (int64_t row = 0; view.data != nullptr && row < due.rows; ++row) {
        const Row at = RowSpace(p).at(row);
        const auto n = static_cast<size_t>(row);
        const int64_t place = at.b * view.stride[0] + at.h * view.stride[1] + at.i * view.stride[2];
        if (counts) {
          static_cast<int64_t*>(view.data)[place] = output.integer[n] + off;
        } else {
          static_cast<float*>(view.data)[place] = static_cast<float>(output.value[n]) + (off ? 1.0f : 0.0f);
        }
      }
    }
    return reply;
  }

 private:
  // The fake's plan() wants an O, and the operation `count` has none.
  static attn_tensors with_o(attn_tensors t) {
    if (t.o.data == nullptr) t.o = t.q;
    return t;
  }
  const bool wrong_;
};

void follow(uint64_t bit, const char* output, const char* of_property) {
  const std::string what = std::string(output) + ": ";
  const Property& property = *find_property(of_property);
  Case c;
  c.problem.heads_q = c.problem.heads_kv = 2;
  c.problem.seq_q = 9, c.problem.seq_k = 40, c.problem.dim_qk = c.problem.dim_v = 8;
  c.problem.causal = true;
  c.problem.features = bit;
  c.q.kind = c.k.kind = c.v.kind = FillKind::kGaussian;

  Grown right(false), wrong(true);
  expect(speaks_of(property, right.info()), what + "the property speaks of the kernel");
  const Verdict good = judge(c, property, right, documented());
  expect(good.outcome == Outcome::kPass, what + "a right kernel passes", good.message);
  const Verdict bad = judge(c, property, wrong, documented());
  expect(bad.outcome == Outcome::kFail && bad.where && name_of(bad.where->tensor) == std::string(output),
         what + "a wrong kernel fails in it", bad.message);

  const auto key = [&](const Verdict& v) { return reduction_key(wrong.info(), v); };
  const Reduction r =
      reduce(c, bad, key(bad), [&](const Case& one) { return judge(one, property, wrong, documented()); }, key,
             {.seconds = 20, .features = wrong.info().features});
  expect(r.minimal.problem.seq_k == 17 && r.minimal.problem.features == bit,
         what + "the reducer ends at 17 keys", std::to_string(r.minimal.problem.seq_k));

  expect(!explain(r.minimal, r.verdict.plan, nullptr, nullptr).empty(), what + "the case is explained");
  {
    Execution e(r.minimal, wrong);
    e.run(Call{});
    const Reference due = e.evaluate(documented());
    const Outputs got = e.outputs();
    expect(!explain(r.minimal, e.plan, &due, &got).empty(), what + "a result is explained");
  }
  const Clues clues = gather_clues(r.minimal, r.verdict, wrong, documented());
  guess_fault(
      {r.minimal, r.verdict, r.needs, wrong.info().build_kind, clues});  // must not fail; there may be none

  Reproducer file;
  file.c = r.minimal;
  file.property = of_property;
  file.kernel = wrong.info().name;
  const auto read = decode_reproducer(encode(file, "found.attn.json"));
  expect(std::holds_alternative<Reproducer>(read), what + "a file is read back");
  if (const auto* again = std::get_if<Reproducer>(&read)) {
    const Verdict replayed = judge(again->c, *find_property(again->property), wrong, documented());
    expect(key(replayed) == key(bad), what + "a replay fails alike", replayed.message);
  }
  const auto exported = prepare_export(file, wrong, documented());
  const auto* why = std::get_if<std::string>(&exported);
  expect(why && why->find("does not know this kind of problem") != std::string::npos,
         what + "an exporter refuses by name", why ? *why : "it exports");

  // Python's oracle knows neither.
  Execution e(r.minimal, wrong);
  char text[512] = {};
  attnfuzz_expected o = {}, lse = {};
  const int32_t status =
      attnfuzz_oracle(&e.laid.problem(), &e.laid.tensors(), &e.plan, "documented", &o, &lse, text, sizeof text);
  expect(status != 0 && std::strstr(text, "features") != nullptr, what + "Python refuses by name", text);
}

}  // namespace

int main() {
  follow(ATTN_FEATURE_ROW_MAX, "row_max", "reference");
  follow(ATTN_FEATURE_COUNT, "count", "keys_counted");
  follow(ATTN_FEATURE_COUNT, "count", "reference");
  Case count;
  count.problem.features = ATTN_FEATURE_COUNT;
  Grown right(false);
  const Verdict v = judge(count, *find_property("hull"), right, documented());
  expect(v.outcome == Outcome::kRefused && v.message.find("count") != std::string::npos,
         "a property of the forward pass refuses a count by name", v.message);
  Case drawn;
  std::string why;
  expect(adapted(drawn, *find_property("keys_counted"), right, &why) &&
             drawn.problem.features == ATTN_FEATURE_COUNT,
         "a drawn case becomes one of the property's operation", why);
  if (failed == 0) std::puts("and both are followed from the oracle to a replay");
  return failed;
}
