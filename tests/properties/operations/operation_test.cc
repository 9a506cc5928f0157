// Tests the table of operations, and how outputs are judged by its rows: references of another operation are
// refused, integers must be exact, and choices must be admissible.
#include "properties/operations/operation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "properties/judge/execution.h"
#include "properties/judge/integer_outputs.h"
#include "properties/judge/judge.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

TEST(Operations, FeaturesNameTheOperation) {
  EXPECT_EQ(&operation_of(0), &operations::forward);
  EXPECT_EQ(&operation_of(ATTN_FEATURE_F32), &operations::forward);
  EXPECT_EQ(all_operations().front(), &operations::forward);
  std::set<uint64_t> bits;
  for (const Operation* operation : all_operations()) {
    EXPECT_TRUE(bits.insert(operation->feature).second) << operation->name;
    EXPECT_EQ(&operation_of(operation->feature), operation);
    ASSERT_FALSE(operation->outputs.empty());
    for (const Output& output : operation->outputs) {
      EXPECT_TRUE(is_written(spec_of(output.tensor))) << name_of(output.tensor);
      EXPECT_EQ(read_as_integers(spec_of(output.tensor)), output.kind != OutputKind::kBounded)
          << name_of(output.tensor);
      EXPECT_EQ(output.objection != nullptr, output.kind == OutputKind::kAdmissible) << name_of(output.tensor);
    }
  }
}

TEST(Operations, ADeadRowHasTheDeadValueOfItsOutput) {
  Case c;
  c.problem.seq_q = 3;
  c.problem.seq_k = 0;
  FakeTarget target;
  const Execution e(c, target);
  const Reference due = e.evaluate(documented());
  ASSERT_EQ(due.dead, due.rows);
  EXPECT_EQ(not_of(e.operation, due), "");
  for (const Output& output : e.operation.outputs) {
    for (const double value : due[output.tensor].value) EXPECT_EQ(value, output.dead) << name_of(output.tensor);
  }
}

TEST(Operations, AReferenceWithOtherOutputsIsRefused) {
  Case c;
  FakeTarget target;
  Execution e(c, target);
  ASSERT_EQ(failure(e.run(Call{})), "");
  const Reference right = e.evaluate(documented());
  const auto refused = [&](void (*change)(Reference&)) {
    Reference due = right;
    change(due);
    Verdict v;
    EXPECT_FALSE(judge_outputs(e.operation, due, c.problem, e.plan, e.outputs(), v));
    EXPECT_EQ(v.kind, Kind::kOracle) << v.message;
    return v.message;
  };
  EXPECT_NE(refused([](Reference& r) { r.outputs.pop_back(); }).find("it has no lse"), std::string::npos);
  EXPECT_NE(refused([](Reference& r) { r.outputs.clear(); }).find("it has no o"), std::string::npos);
  EXPECT_NE(refused([](Reference& r) { std::swap(r.outputs[0], r.outputs[1]); }).find("it has lse as output 0"),
            std::string::npos);
  EXPECT_NE(refused([](Reference& r) { r.outputs.push_back(r.outputs[0]); }).find("it has o as output 2"),
            std::string::npos);
  EXPECT_NE(refused([](Reference& r) { r.main().bound.clear(); }).find("are not of one length"),
            std::string::npos);
  EXPECT_NE(refused([](Reference& r) { r.main().rule.pop_back(); }).find("are not of one length"),
            std::string::npos);
  EXPECT_NE(refused([](Reference& r) { r.main().logarithm = true; }).find("takes o for a logarithm"),
            std::string::npos);
  EXPECT_NE(refused([](Reference& r) {
              Expected& o = r.main();
              o.value.clear(), o.bound.clear(), o.rule.clear(), o.exact.clear();
            }).find("it has 0 elements of o"),
            std::string::npos);
  Verdict v;
  EXPECT_TRUE(judge_outputs(e.operation, right, c.problem, e.plan, e.outputs(), v)) << v.message;
  Outputs unread = e.outputs();
  unread[TensorId::kO].clear();
  EXPECT_FALSE(judge_outputs(e.operation, right, c.problem, e.plan, unread, v))
      << "only the LSE may be left out";
}

// A toy operation whose output has two rows of three integers. key_lengths stands in for this output.
constexpr TensorId kToyOutput = TensorId::kKeyLengths;
constexpr Output kExactly[] = {{.tensor = kToyOutput, .kind = OutputKind::kExact}};
// Any order of the expected integers is right.
std::string not_the_same_set(const Reference& due, int64_t row, std::span<const int64_t> got) {
  const std::vector<int64_t>& all = due[kToyOutput].integer;
  const auto first = all.begin() + 3 * row;
  for (const int64_t one : got) {
    if (std::count(first, first + 3, one) != std::ranges::count(got, one))
      return "names " + std::to_string(one);
  }
  return "";
}
constexpr Output kAsASet[] = {
    {.tensor = kToyOutput, .kind = OutputKind::kAdmissible, .objection = not_the_same_set}};

struct Toy {
  Operation operation;
  Problem p;
  Reference due;
  Outputs got;
  explicit Toy(std::span<const Output> outputs)
      : operation{.name = "toy",
                  .feature = 1,
                  .inputs = {},
                  .outputs = outputs,
                  .evaluate = nullptr,
                  .known = {"", 0}} {
    p.batch = 3;
    due.rows = due.sampled = 2;
    due.state.assign(2, RowState::kBounded);
    Expected& chosen = due.outputs.emplace_back();
    chosen.tensor = kToyOutput;
    chosen.columns = 3;
    chosen.integer = {5, int64_t{1} << 40, 7, 1, 2, 3};
    chosen.rule.assign(6, static_cast<uint8_t>(Due::kNumber));
    got.integers(kToyOutput) = chosen.integer;
  }
  Verdict verdict() const {
    Verdict v;
    judge_outputs(operation, due, p, {}, got, v);
    return v;
  }
};

TEST(Integers, MustBeExact) {
  Toy toy(kExactly);
  EXPECT_EQ(toy.verdict().outcome, Outcome::kPass) << toy.verdict().message;
  ++toy.got.integers(kToyOutput)[1];
  Verdict v = toy.verdict();
  EXPECT_EQ(v.kind, Kind::kWrong);
  EXPECT_EQ(v.message,
            "key_lengths(b=0,h=0,q=0,d=1) is 1099511627777, must be exactly 1099511627776; 1 of 6 elements are "
            "wrong");
  toy.due.main().rule[1] = static_cast<uint8_t>(Due::kAnything);
  EXPECT_EQ(toy.verdict().outcome, Outcome::kPass) << "that element may be anything";
  toy.due.main().integer.pop_back();
  EXPECT_EQ(toy.verdict().kind, Kind::kOracle);
}

TEST(Integers, MayBeOneOfSeveralChoices) {
  Toy toy(kAsASet);
  std::swap(toy.got.integers(kToyOutput)[0], toy.got.integers(kToyOutput)[2]);
  EXPECT_EQ(toy.verdict().outcome, Outcome::kPass) << toy.verdict().message;
  toy.got.integers(kToyOutput)[0] = 8;
  const Verdict v = toy.verdict();
  EXPECT_EQ(v.kind, Kind::kWrong);
  EXPECT_EQ(v.message, "key_lengths(b=0,h=0,q=0) names 8; 1 of 2 rows are wrong");
}

TEST(Integers, OfTwoRunsMustBeTheSame) {
  Toy toy(kExactly);
  Outputs other = toy.got;
  Verdict v;
  EXPECT_TRUE(judge_same_integers(toy.got, other, kToyOutput, toy.p, {}, Kind::kDirty, "again", v));
  other.integers(kToyOutput)[2] = -1;
  EXPECT_FALSE(judge_same_integers(toy.got, other, kToyOutput, toy.p, {}, Kind::kDirty, "again", v));
  EXPECT_EQ(v.kind, Kind::kDirty);
  EXPECT_EQ(v.message, "again: key_lengths(b=0,h=0,q=0,d=2) was 7, is -1; 1 of 6 elements differ");
}

}  // namespace
}  // namespace attnfuzz
