// Tests the text of exported findings, and refusals. tests/e2e/export/export.sh tests that the
// programs compile and show the failure.
#include "properties/export/export.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <sstream>

#include "properties/case/features/shrink_toggles.h"
#include "properties/draw/generator.h"
#include "properties/judge/trial.h"
#include "reference/model/error_cap.h"
#include "tests/properties/export/lse_targets.h"
#include "tests/properties/support/fake_target.h"

namespace attnfuzz {
namespace {

GeneratorConfig config() {
  GeneratorConfig config;
  config.variants = 1;
  config.tiles_q = {FakeTarget::kTileQ};
  config.tiles_k = {FakeTarget::kTileK};
  config.splits = true;
  config.work = 100'000;
  return config;
}

// The first drawn case on which the property fails.
Reproducer finding(FakeTarget& target, const char* name) {
  const Property* property = find_property(name);
  for (int n = 0; n < 3000; ++n) {
    Case c = draw(config(), 5, n);
    std::string why;
    if (!property->adapt(c, target.info(), &why)) continue;
    const Verdict v = judge(c, *property, target, documented());
    if (v.outcome != Outcome::kFail) continue;
    Reproducer r;
    r.c = c;
    r.property = name;
    r.kernel = "fake";
    r.message = v.message;
    return r;
  }
  ADD_FAILURE() << name << " fails on nothing";
  return {};
}

TEST(Export, HoldsValuesBoundsAndTheFailure) {
  FakeTarget target;
  Reproducer r;
  r.property = "reference";
  r.c.problem.seq_k = 3;
  r.c.problem.scale = 0.1f;
  r.c.planted = {{TensorId::kV, 0, 0, 1, 0, 0x7c00}};  // an infinity
  const auto prepared = prepare_export(r, target, documented());
  ASSERT_TRUE(std::holds_alternative<Export>(prepared)) << std::get<std::string>(prepared);
  const Export& e = std::get<Export>(prepared);
  EXPECT_FALSE(e.fails);
  for (const std::string& text : {export_cpp(e, "a.cc"), export_python(e, "a.py")}) {
    EXPECT_NE(text.find("\"3c00 7c00 3c00\""), text.npos) << "V";
    EXPECT_NE(text.find("\"3*3c00\""), text.npos) << "K";
    EXPECT_NE(text.find("\"any\""), text.npos) << "an infinity that is seen: O may be anything";
    EXPECT_NE(text.find("0x1.99999ap-4"), text.npos) << "the scale, exactly";
    EXPECT_NE(text.find("DID NOT FAIL"), text.npos);
    for (const char* left : {"@HEAD@", "@CASE@", "@BOUNDS@", "@MEMORY@", "@CONTRACT@"})
      EXPECT_EQ(text.find(left), text.npos) << left;
  }
}

TEST(Export, NamesTheFailure) {
  FakeTarget target(Flaw::kDropsLastKey);
  const Reproducer r = finding(target, "reference");
  const auto prepared = prepare_export(r, target, documented());
  ASSERT_TRUE(std::holds_alternative<Export>(prepared)) << std::get<std::string>(prepared);
  const Export& e = std::get<Export>(prepared);
  EXPECT_TRUE(e.fails);
  EXPECT_EQ(e.c, r.c);
  EXPECT_NE(export_cpp(e, "a.cc").find(e.message.substr(0, 20)), std::string::npos);
}

TEST(Export, TakesTheVariantThatFailsByItself) {
  // The property's own case passes, and one of its variants fails.
  FakeTarget target(Flaw::kMaskBroadcast);
  const Reproducer r = finding(target, "mask_as_bias");
  const auto prepared = prepare_export(r, target, documented());
  ASSERT_TRUE(std::holds_alternative<Export>(prepared)) << std::get<std::string>(prepared);
  const Export& e = std::get<Export>(prepared);
  EXPECT_TRUE(e.fails);
  EXPECT_EQ(judge(e.c, *find_property("reference"), target, documented()).outcome, Outcome::kFail);
}

TEST(Export, RefusesFailuresThatNeedTwoRuns) {
  FakeTarget target(Flaw::kBatchRounds);  // each result is within its bound
  const auto prepared = prepare_export(finding(target, "permute_batch"), target, documented());
  ASSERT_TRUE(std::holds_alternative<std::string>(prepared));
  EXPECT_NE(std::get<std::string>(prepared).find("one call does not show it"), std::string::npos);
}

// plan() writes to O.
class WritesInPlan : public FakeTarget {
 public:
  PlanReply plan(const attn_problem& problem, const attn_tensors& tensors, const attn_env& env) override {
    if (tensors.o.data != nullptr) *static_cast<char*>(tensors.o.data) ^= 1;
    return FakeTarget::plan(problem, tensors, env);
  }
};

// The program of such a finding would say that it passes.
TEST(Export, RefusesFailuresThatAProgramDoesNotSee) {
  const auto refused = [](Target& target, const Case& c, const std::string& why) {
    Reproducer r;
    r.c = c;
    r.property = "reference";
    ASSERT_EQ(judge(c, *find_property("reference"), target, documented()).outcome, Outcome::kFail) << why;
    const auto prepared = prepare_export(r, target, documented());
    ASSERT_TRUE(std::holds_alternative<std::string>(prepared)) << why;
    EXPECT_NE(std::get<std::string>(prepared).find(why), std::string::npos) << std::get<std::string>(prepared);
  };
  Case c;
  c.problem.seq_k = 3;
  FakeTarget bad_plan(Flaw::kPlanNonsense), unwritten(Flaw::kSkipsLastRow);
  WritesInPlan writes;
  refused(bad_plan, c, "does not judge the plan");
  refused(writes, c, "does not see what plan() writes");
  Reproducer r;
  r.c = c;
  r.property = "reference";
  EXPECT_TRUE(std::holds_alternative<Export>(prepare_export(r, unwritten, documented())))
      << "a number is due there";
  c.planted = {{TensorId::kV, 0, 0, 1, 0, 0x7c00}};  // an infinity: O may be anything
  refused(unwritten, c, "any value may lie");
}

TEST(Export, ProgramsCompareWithTheExactValuesToo) {
  Reference reference;
  reference.rows = 1;
  Expected& o = reference.outputs.emplace_back();
  o.tensor = TensorId::kO, o.columns = 1;
  o.value = {1.01};  // as P rounds
  o.exact = {1.00};
  o.bound = {0.001};
  o.rule = {static_cast<uint8_t>(Due::kNumber)};
  o.overflow = 65520;
  Outputs got;
  got[TensorId::kO] = {1.005f};
  EXPECT_GT(o.ratio(0, 0, 1.005f), 1);
  EXPECT_FALSE(seen_from_exact_values(reference, got));
  got[TensorId::kO] = {1.02f};
  EXPECT_TRUE(seen_from_exact_values(reference, got));
  got[TensorId::kO] = {NAN};
  EXPECT_TRUE(seen_from_exact_values(reference, got));
}

TEST(Export, RefusesCasesThatAreTooLargeToRead) {
  FakeTarget target;
  Reproducer r;
  r.property = "reference";
  r.c.problem.seq_q = r.c.problem.seq_k = 1500;
  r.c.problem.dim_qk = r.c.problem.dim_v = 256;
  const auto prepared = prepare_export(r, target, documented());
  ASSERT_TRUE(std::holds_alternative<std::string>(prepared));
  EXPECT_NE(std::get<std::string>(prepared).find("attnfuzz reduce"), std::string::npos);
}

TEST(Export, RefusesUnknownKindsOfProblems) {
  FakeTarget target;
  Reproducer packed;
  packed.property = "reference";
  packed.c.problem.features = ATTN_FEATURE_BACKWARD;
  packed.c.problem.packed_q = Packing{{1}, 0, false};
  Reproducer narrow;
  narrow.property = "reference";
  narrow.c.problem.kv8.emplace();
  for (Reproducer* r : {&packed, &narrow}) {
    tidy(r->c);
    const auto prepared = prepare_export(*r, target, documented());
    ASSERT_TRUE(std::holds_alternative<std::string>(prepared));
    const std::string& why = std::get<std::string>(prepared);
    EXPECT_NE(why.find("a program of its own does not know this kind of problem"), why.npos) << why;
  }
}

TEST(Export, TextOfAFileStaysInAComment) {
  FakeTarget target;
  Reproducer r;
  r.property = "reference";
  r.message = "first\n#include <evil>\\\nimport evil */ \"\"\"";
  r.needs = {{.part = "mask", .text = "\r\nsystem(\"evil\");"}};
  const auto prepared = prepare_export(r, target, documented());
  const Export& e = std::get<Export>(prepared);
  for (const std::string& text : {export_cpp(e, "a.cc"), export_python(e, "a.py")}) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.find("evil") == line.npos) continue;
      EXPECT_TRUE(line[0] == '/' || line[0] == '#') << line;
      EXPECT_NE(line.back(), '\\') << line;
    }
  }
}

// Runs programs without a GPU, with a plug-in that claims to be for one and a fake driver.
class ExportForCuda : public testing::TestWithParam<bool> {
 protected:
  // The exit status of a program for the kernel of that name.
  int status_of(const std::string& kernel) {
    FakeTarget target(kernel == "wrong" ? Flaw::kDropsLastKey : Flaw::kNone);
    FakeTarget flawed(Flaw::kDropsLastKey);
    return status_of(kernel, finding(flawed, "reference"), target, documented());
  }
  int status_of(const std::string& kernel, const Reproducer& r, Target& target,
                const Calibration& calibration) {
    auto prepared = prepare_export(r, target, calibration);
    if (const std::string* why = std::get_if<std::string>(&prepared)) {
      ADD_FAILURE() << *why;
      return -1;
    }
    Export& e = std::get<Export>(prepared);
    e.backend = ATTN_CUDA;
    e.kernel_name = kernel;
    e.c.layout[static_cast<size_t>(TensorId::kO)].placement = Placement::kPageEnd;
    e.c.calls = {{}, {.dirty_workspace = true, .stream = 1}};
    const std::string base = testing::TempDir() + "export-cuda-" + kernel, log = base + ".log";
    std::string command = "LD_LIBRARY_PATH=" ATTNFUZZ_EXPORT_CUDA ":$LD_LIBRARY_PATH ";
    if (GetParam()) {
      write_file(base + ".py", export_python(e, "a.py"));
      command += std::string(ATTNFUZZ_NUMPY_PYTHON) + " -W error " + base + ".py";
    } else {
      write_file(base + ".cc", export_cpp(e, "a.cc"));
      const std::string compile = ATTNFUZZ_CXX " -std=c++17 -Wall -Wextra -Werror -I " ATTNFUZZ_SOURCE " " +
                                  base + ".cc -o " + base + " -ldl >" + log + " 2>&1";
      if (std::system(compile.c_str()) != 0) return -1;
      command += base;
    }
    return WEXITSTATUS(
        std::system((command + " " ATTNFUZZ_EXPORT_CUDA "/host_cuda.so >" + log + " 2>&1").c_str()));
  }
};

TEST_P(ExportForCuda, FindsTheDriverTheDeviceAndTheKernel) {
  if (GetParam() && std::string(ATTNFUZZ_NUMPY_PYTHON).empty()) GTEST_SKIP() << "no Python with NumPy here";
  EXPECT_EQ(status_of("right"), 0);
  EXPECT_EQ(status_of("wrong"), 1);
}

// Both sides saw no key: their merge gives -inf, whatever the plan writes for a query without keys.
TEST_P(ExportForCuda, AMergeOfTwoUnseenSidesGivesMinusInfinity) {
  if (GetParam() && std::string(ATTNFUZZ_NUMPY_PYTHON).empty()) GTEST_SKIP() << "no Python with NumPy here";
  Reproducer r;
  r.property = "reference";
  operation_of(ATTN_FEATURE_MERGE).shape(r.c, 0);
  r.c.problem.seq_q = 3, r.c.problem.dim_v = 2;
  r.c.sides = {.kind = PatternKind::kNothing};
  tidy(r.c);
  MergesDead right, wrong(true);
  EXPECT_EQ(status_of("merges", r, right, documented()), 0);
  EXPECT_EQ(status_of("merges-to-zero", r, wrong, documented()), 1);
}

// The plan of an untrusted kernel does not say what its LSE holds.
TEST_P(ExportForCuda, TheCallerSaysWhatTheLseHolds) {
  if (GetParam() && std::string(ATTNFUZZ_NUMPY_PYTHON).empty()) GTEST_SKIP() << "no Python with NumPy here";
  Reproducer r;
  r.property = "reference";
  r.c.problem.seq_q = 2, r.c.problem.seq_k = 3;
  r.c.problem.sink = Sink{.kind = SinkKind::kZero};
  tidy(r.c);
  LeavesSinkOut target;
  EXPECT_EQ(status_of("leaves-sink-out", r, target, documented()), 0);
  Calibration capped = documented();
  capped.error_cap = documented_cap();
  EXPECT_EQ(status_of("leaves-sink-out", r, target, capped), 1);
  capped.error_cap->lse_sink = 1;
  EXPECT_EQ(status_of("leaves-sink-out", r, target, capped), 0);
}

INSTANTIATE_TEST_SUITE_P(Export, ExportForCuda, testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "Python" : "Cpp"); });

}  // namespace
}  // namespace attnfuzz
