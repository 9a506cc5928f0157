// Tests that oracles, exporters and probes refuse kinds of problems that they do not know. If an oracle ignored
// a new field, a kernel that ignores the field would pass.
#include "reference/call/known_features.h"

#include <gtest/gtest.h>

#include <bit>
#include <sstream>

#include "properties/case/codec/as_contract.h"
#include "properties/case/codec/codec.h"
#include "properties/data/row_scores.h"
#include "properties/draw/generator.h"
#include "properties/explain/probe_check.h"
#include "properties/explain/trace.h"
#include "properties/export/export.h"
#include "properties/export/text.h"
#include "properties/judge/judge.h"
#include "properties/judge/trial.h"
#include "reference/emulator/declared.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

constexpr uint64_t kUnknown = uint64_t{1} << 62;

Case of_a_later_kind() {
  Case c;
  c.problem.seq_q = c.problem.seq_k = 3;
  c.problem.features = kUnknown;
  return c;
}

bool names_the_bits(const std::string& why) {
  return why.find("does not know this kind of problem") != std::string::npos &&
         why.find("0x4000000000000000") != std::string::npos;
}

TEST(KnownFeatures, ACaseCarriesThemToTheKernel) {
  const Case c = of_a_later_kind();
  EXPECT_EQ(problem_of(c.problem).features, kUnknown);
  const auto again = decode(encode(c));
  ASSERT_TRUE(std::holds_alternative<Case>(again));
  EXPECT_EQ(std::get<Case>(again), c);
  EXPECT_EQ(encode(Case{}).find("features"), std::string::npos) << "and older files stay as they are";
}

TEST(KnownFeatures, TheJudgeRefusesAndSaysWhich) {
  FakeTarget target;
  target.take_features(kUnknown);
  const Verdict verdict = judge(of_a_later_kind(), *find_property("reference"), target, documented());
  EXPECT_EQ(verdict.outcome, Outcome::kRefused);
  EXPECT_TRUE(names_the_bits(verdict.message)) << verdict.message;
}

TEST(KnownFeatures, TheOracleRefuses) {
  const attn_problem problem = problem_of(of_a_later_kind().problem);
  EXPECT_THROW(evaluate(problem, {}, {}, documented()), UnknownFeatures);
}

TEST(KnownFeatures, TheEmulatorRefuses) {
  const attn_problem problem = problem_of(of_a_later_kind().problem);
  EXPECT_TRUE(names_the_bits(emulator::left_open(problem, {})));
}

TEST(KnownFeatures, SingleScoresProbesAndTracesRefuse) {
  const Case c = of_a_later_kind();
  const attn_plan plan = {};
  EXPECT_TRUE(names_the_bits(cannot_score(c.problem)));
  EXPECT_THROW(RowOracle(c, plan), UnknownFeatures);
  const CheckedProbe checked = check_probe(c, plan, {});
  ASSERT_EQ(checked.notes.size(), 1u);
  EXPECT_TRUE(names_the_bits(checked.notes[0]));
  FakeTarget target(Flaw::kHeadMap);
  const Trace trace = trace_values(c, target, documented());
  ASSERT_EQ(trace.lines.size(), 1u);
  EXPECT_TRUE(names_the_bits(trace.lines[0]));
}

TEST(KnownFeatures, NeitherExporterWritesAProgram) {
  FakeTarget target;
  target.take_features(kUnknown);
  Reproducer r;
  r.c = of_a_later_kind();
  r.property = "reference";
  const auto prepared = prepare_export(r, target, documented());
  ASSERT_TRUE(std::holds_alternative<std::string>(prepared));
  EXPECT_TRUE(names_the_bits(std::get<std::string>(prepared))) << std::get<std::string>(prepared);
}

std::string bits_of(uint64_t features) {
  std::ostringstream text;
  text << "does not know this kind of problem: attn_problem.features has the bits 0x" << std::hex << features;
  return text.str();
}

TEST(KnownFeatures, TheEmulatorKnowsOrRefusesEachBitAndOperation) {
  constexpr uint64_t kKnown = ATTN_FEATURE_F32 | ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32 |
                              ATTN_FEATURE_PAGED | ATTN_FEATURE_KEY_STEP;
  int refused = 0;
  for (int n = 0; n < 64; ++n) {
    attn_problem problem = problem_of(Case{}.problem);
    problem.features = uint64_t{1} << n;
    const std::string why = emulator::left_open(problem, {});
    const bool known = (problem.features & kKnown) != 0;
    EXPECT_EQ(why.ends_with(bits_of(problem.features)), !known) << why;
    EXPECT_NE(why, "") << "an empty plan leaves every step open";
    // A known bit does not let an unknown one through.
    const uint64_t bit = problem.features;
    problem.features |= kKnown;
    EXPECT_EQ(emulator::left_open(problem, {}).ends_with(bits_of(bit)), !known) << bit;
    refused += !known;
  }
  EXPECT_EQ(refused, 64 - std::popcount(kKnown));
  EXPECT_EQ(kKnown & kOperations, 0u);
}

// The bits that a program of an operation may have; 0: the operation has no program.
uint64_t bits_of_programs(const Operation& operation) {
  if (operation.feature == 0) return kForward | ATTN_FEATURE_KEY_STEP;
  constexpr uint64_t kWithout = ATTN_FEATURE_NSA_SELECT | ATTN_FEATURE_NSA_SCORE;
  const bool caches = (operation.feature & (ATTN_FEATURE_APPEND | ATTN_FEATURE_COPY_PAGES)) != 0;
  const uint64_t blocks = operation.feature == ATTN_FEATURE_BACKWARD ? ATTN_FEATURE_KEY_STEP : 0;
  const uint64_t packed = operation.feature == ATTN_FEATURE_SELECTED ? ATTN_FEATURE_RAGGED
                          : caches                                   ? ATTN_FEATURE_RAGGED | ATTN_FEATURE_PAGED
                                                                     : 0;
  const uint64_t bits = operation.feature | ATTN_FEATURE_F32 | ATTN_FEATURE_INDEX32 | blocks | packed;
  return (operation.feature & kWithout) != 0 ? 0 : bits;
}

// Both exporters write what prepare_export() gives them, and nothing else.
TEST(KnownFeatures, TheExportersKnowOrRefuseEachBitAndOperation) {
  int refused = 0, named = 0;
  const auto refuse = [&](const Case& c) {
    const Operation& operation = operation_of(c.problem.features);
    const uint64_t features = problem_of(c.problem).features,
                   unknown =
                       features & ~(bits_of_programs(operation) | ATTN_FEATURE_F32 | ATTN_FEATURE_INDEX32);
    if (unknown == 0) return;
    FakeTarget target;
    target.take_features(features);
    Reproducer r;
    r.c = c, r.property = "reference";
    const auto prepared = prepare_export(r, target, documented());
    const auto* why = std::get_if<std::string>(&prepared);
    ASSERT_NE(why, nullptr) << operation.name << " with the bits " << std::hex << unknown;
    const bool names = why->find(bits_of(unknown)) != std::string::npos;
    EXPECT_TRUE(names || why->starts_with("the case cannot be run: ")) << operation.name << ": " << *why;
    ++refused, named += names;
  };
  for (const Operation* operation : all_operations()) {
    EXPECT_EQ(exporting::reference_of(*operation) != nullptr, bits_of_programs(*operation) != 0)
        << operation->name;
    Case c = draw({}, 1, 2);
    make_call(*operation, c, operation->feature);
    refuse(c);
    for (int n = 0; n < 64; ++n) {
      Case more = c;
      more.problem.features |= uint64_t{1} << n;
      refuse(more);
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(named, refused / 2);
}

// Code that was written only for the forward pass refuses every other operation.
TEST(KnownFeatures, CodeForTheForwardPassRefusesOtherOperations) {
  for (const Operation* operation : all_operations()) {
    if (operation->feature == 0) continue;
    Case c;
    operation->shape(c, 0);
    const attn_problem problem = problem_of(c.problem);
    const auto named = [](const std::string& why) {
      return why.find("does not know this kind of problem") != std::string::npos;
    };
    EXPECT_THROW(evaluate(problem, {}, {}, documented()), UnknownFeatures) << operation->name;
    EXPECT_TRUE(named(emulator::left_open(problem, {}))) << operation->name;
    EXPECT_TRUE(named(cannot_score(c.problem))) << operation->name;
    EXPECT_TRUE(named(check_probe(c, {}, {}).notes.at(0))) << operation->name;
    FakeTarget target;
    target.take_features(operation->feature);
    EXPECT_TRUE(named(trace_values(c, target, documented()).lines.at(0))) << operation->name;
  }
}

// Code that was written for K and V of 16 bits refuses 8 bits.
TEST(KnownFeatures, CodeForSixteenBitsRefusesEight) {
  Case c;
  c.problem.kv8.emplace();
  const attn_problem problem = problem_of(c.problem);
  EXPECT_EQ(problem.features, ATTN_FEATURE_KV8);
  const auto named = [](const std::string& why) {
    return why.find("does not know this kind of problem") != std::string::npos &&
           why.find("0x10000") != std::string::npos;
  };
  EXPECT_TRUE(named(emulator::left_open(problem, {})));
  EXPECT_TRUE(named(cannot_score(c.problem)));
  EXPECT_TRUE(named(check_probe(c, {}, {}).notes.at(0)));
  FakeTarget target;
  target.take_features(ATTN_FEATURE_KV8);
  EXPECT_TRUE(named(trace_values(c, target, documented()).lines.at(0)));
  Reproducer r;
  r.c = c;
  r.property = "reference";
  const auto prepared = prepare_export(r, target, documented());
  ASSERT_TRUE(std::holds_alternative<std::string>(prepared));
  EXPECT_TRUE(named(std::get<std::string>(prepared)));
}

TEST(JudgeOutputs, AnOutputWithoutAReferenceIsNoPass) {
  const Case c;
  Outputs outputs;
  outputs[TensorId::kO] = {1.0f};
  Verdict verdict;
  EXPECT_FALSE(judge_outputs(operations::forward, Reference{}, c.problem, {}, outputs, verdict, &c));
  EXPECT_EQ(verdict.outcome, Outcome::kFail);
  EXPECT_EQ(verdict.kind, Kind::kOracle);
}

}  // namespace
}  // namespace attnfuzz
