// Tests the file with a campaign's coverage of the table of axes: it is added up over jobs, measured
// now and then, and kept when campaigns are merged.
#include "fuzz/campaign/store/coverage_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.h"
#include "base/hash.h"
#include "properties/case/features/feature.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

class CoverageFile : public ::testing::Test {
 protected:
  CoverageFile() {
    std::string name = (fs::temp_directory_path() / "coverage-XXXXXX").string();
    root_ = mkdtemp(name.data());
    for (const char* dir : {"/a", "/b"}) fs::create_directories(root_ + dir);
  }
  ~CoverageFile() override { fs::remove_all(root_); }
  std::string at(const std::string& name) const { return root_ + "/" + name; }
  Coverage met(const std::string& dir) const {
    const std::string text = file_text(at(dir) + "/coverage/fa1.cpu.plain.met", kInFolder);
    return Coverage::of_bytes(text.substr(0, text.size() - sizeof(uint64_t)));
  }
  void add(const std::string& dir, const Coverage& met) { add_coverage(at(dir), "fa1.cpu.plain", met, {}); }

 private:
  std::string root_;
};

// The coverage of at least `at_least` copies of one case.
Coverage cases(int64_t keys, uint64_t at_least) {
  Case c;
  c.problem.seq_k = keys;
  Coverage met;
  met.add({c, c.problem, 64, 64, 1});
  while (met.cases() < at_least) met.merge(met);
  return met;
}

TEST_F(CoverageFile, JobsAddUp) {
  add("a", cases(5, 1));
  add("a", cases(6, 1));
  add("b", cases(6, 1));
  Coverage both = cases(5, 1);
  both.merge(cases(6, 1));
  EXPECT_EQ(met("a").bytes(), both.bytes());
  EXPECT_TRUE(read_coverage(at("a")).empty()) << "too few to measure";
  merge_coverage(at("a"), at("b"));
  EXPECT_EQ(met("b").cases(), 3u);
  EXPECT_EQ(read_coverage(at("none")).size(), 0u);
}

TEST_F(CoverageFile, AFileOfAnotherTableIsReplaced) {
  add("a", cases(5, 1));
  const std::string file = at("a") + "/coverage/fa1.cpu.plain.met";
  std::string bytes = cases(5, 1).bytes();
  bytes[0] ^= 1;
  const uint64_t sum = text_hash(bytes);
  bytes.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  write_file(file, bytes);
  EXPECT_THROW(met("a"), std::runtime_error);
  merge_coverage(at("a"), at("b"));
  EXPECT_FALSE(fs::exists(at("b") + "/coverage/fa1.cpu.plain.met"));
  add("a", cases(5, 1));
  EXPECT_EQ(met("a").cases(), 1u);
}

TEST_F(CoverageFile, IsMeasuredAgainAfterAQuarterMoreCases) {
  const Coverage many = cases(5, kFewestMeasured);
  add("a", many);
  const auto first = read_coverage(at("a"));
  ASSERT_EQ(first.size(), 1u);
  const MeasuredCoverage& measured = first.at("fa1.cpu.plain");
  EXPECT_EQ(measured.cases, many.cases());
  EXPECT_GT(measured.covered.pairs.met, 0u);
  EXPECT_GT(measured.covered.pairs.legal, measured.covered.pairs.met);
  EXPECT_FALSE(measured.covered.classes_missing.empty());
  add("a", cases(6, 1));
  EXPECT_EQ(read_coverage(at("a")).at("fa1.cpu.plain").cases, many.cases());

  add("b", cases(6, 1));
  merge_coverage(at("a"), at("b"));
  EXPECT_EQ(read_coverage(at("b")).at("fa1.cpu.plain").cases, many.cases());

  write_file(at("b") + "/coverage/fa1.cpu.plain.json", "{\"cases\": 3}");
  try {
    read_coverage(at("b"));
    ADD_FAILURE() << "half of a file was read";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string(e.what()).find("coverage/fa1.cpu.plain.json"), std::string::npos) << e.what();
  }
  add("b", many);
  EXPECT_EQ(read_coverage(at("b")).at("fa1.cpu.plain").cases, met("b").cases()) << "it is measured again";
}

TEST_F(CoverageFile, ABadFileIsNamed) {
  const std::string folder = at("a") + "/coverage", met = folder + "/fa1.cpu.plain.met";
  const auto refused = [&](const std::string& named) {
    for (const bool reads : {true, false}) {
      try {
        reads ? static_cast<void>(read_coverage(at("a"))) : merge_coverage(at("a"), at("b"));
        ADD_FAILURE() << named << (reads ? " was read" : " was merged");
      } catch (const std::runtime_error& e) {
        EXPECT_NE(std::string(e.what()).find(named), std::string::npos) << e.what();
      }
    }
  };
  write_file(folder, "a file");
  refused(folder);
  fs::remove(folder);
  fs::create_symlink(at("b"), folder);
  refused(folder);
  fs::remove(folder);
  add("a", cases(5, 1));
  fs::rename(met, at("elsewhere"));
  fs::create_symlink(at("elsewhere"), met);
  refused(met);
  const std::string before = file_text(at("elsewhere"), kInFolder);
  EXPECT_THROW(add("a", cases(6, 1)), std::runtime_error);
  EXPECT_EQ(file_text(at("elsewhere"), kInFolder), before) << "nothing is written where a link leads";
  fs::remove(met);
  fs::create_directory(met);
  refused(met);
  fs::remove(met);
  EXPECT_NO_THROW(read_coverage(at("a")));
  add("a", cases(5, 1));
  const std::string whole = file_text(met, kInFolder);
  std::string flipped = whole;
  flipped[flipped.size() / 2] ^= 1;
  for (const std::string& damaged : {std::string(), std::string("hi"), whole.substr(0, 100), flipped}) {
    write_file(met, damaged);
    refused(met);
    EXPECT_THROW(add("a", cases(6, 1)), std::runtime_error);
    EXPECT_EQ(file_text(met, kInFolder), damaged) << "a damaged file is kept";
  }
  fs::remove(met);
  fs::remove(folder + "/fa1.cpu.plain.lock");
  fs::create_directory(folder + "/fa1.cpu.plain.lock");
  EXPECT_THROW(read_coverage(at("a")), std::runtime_error);
}

}  // namespace
}  // namespace attnfuzz
