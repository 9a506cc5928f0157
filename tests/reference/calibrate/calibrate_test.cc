// Tests that a coarse calibration of the executor stays within the committed table. Then
// the table holds for this machine's compiler and C library.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "reference/model/calibration.h"
#include "base/json.h"

namespace attnfuzz {
namespace {

struct Measured {
  int status = -1;
  std::string text;
};

// Runs the calibration program beside this one, as attnfuzz calibrate does.
Measured measure(const std::string& arguments) {
  Measured measured;
  const std::string folder = std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
  std::FILE* pipe = popen(("'" + folder + "/attnfuzz-calibrate-cpu' " + arguments).c_str(), "r");
  if (pipe == nullptr) return measured;
  char part[4096];
  while (const size_t n = std::fread(part, 1, sizeof part, pipe)) measured.text.append(part, n);
  const int status = pclose(pipe);
  measured.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return measured;
}

TEST(Calibrate, CoarseSweepStaysWithinTheCommittedTable) {
  const Measured measured = measure("--stride 2003 --random 500");
  ASSERT_EQ(measured.status, 0) << measured.text;
  const Json out = Json::parse(measured.text);
  const Json committed = Json::parse(calibration_text(executor()));
  EXPECT_TRUE(committed.at("measured").get<bool>());
  for (const auto& [key, value] : out.at("table").items()) {
    // A smaller number of products added at once is looser; for all other figures a larger number is.
    if (key == "mma_block") {
      EXPECT_GE(value.get<int>(), committed.at(key).get<int>());
    } else {
      EXPECT_LE(value.get<double>(), committed.at(key).get<double>()) << key;
      EXPECT_GE(value.get<double>(), 0.5 * committed.at(key).get<double>())
          << key << ": the sweep measured far too little";
    }
  }
  EXPECT_EQ(out.at("objections").size(), 0u) << out.at("objections");
}

TEST(Calibrate, ProbesTellTheExecutorsTwoRoundingsApart) {
  const Measured measured = measure("--stride 1000003 --random 10");
  ASSERT_EQ(measured.status, 0) << measured.text;
  const Json out = Json::parse(measured.text);
  int seen = 0;
  for (const Json& f : out.at("products")) {
    const bool truncates = f.at("rounding_seed").get<int>() == 8;
    EXPECT_EQ(f.at("rounding"), truncates ? "zero" : "nearest");
    EXPECT_EQ(f.at("block"), truncates ? 16 : 1);
    ++seen;
  }
  EXPECT_EQ(seen, 4);
}

// Only in a device's arithmetic the executor has the bits of that device's model.
TEST(Calibrate, BitsAreTheModelsInADevicesArithmetic) {
  const auto each = [](const Measured& measured, auto look) {
    const Json out = Json::parse(measured.text);
    for (const Json& one : out.at("bits")) {
      EXPECT_GT(one.at("compared").get<uint64_t>(), 4000u) << one;
      look(one.at("what").get<std::string>(), one.at("differ").get<uint64_t>());
    }
    EXPECT_EQ(out.at("bits").size(), 4u + 2 * 2 * 8);
  };
  const Measured device = measure("--bits 1 --stride 1000003");
  ASSERT_EQ(device.status, 0) << device.text;
  each(device, [](const std::string& what, uint64_t differ) { EXPECT_EQ(differ, 0u) << what; });
  const Measured published = measure("--bits 1 --stride 1000003 --arithmetic device:a100");
  ASSERT_EQ(published.status, 0) << published.text;
  each(published, [](const std::string& what, uint64_t differ) { EXPECT_EQ(differ, 0u) << what; });
  const Measured any = measure("--bits 1 --stride 1000003 --arithmetic any");
  ASSERT_EQ(any.status, 1) << any.text;
  each(any, [](const std::string& what, uint64_t differ) { EXPECT_GT(differ, 0u) << what; });
}

TEST(Calibrate, RefusesUnknownArguments) {
  EXPECT_EQ(measure("--stride 0 2>/dev/null").status, 2);
  EXPECT_EQ(measure("--sweep 2>/dev/null").status, 2);
}

}  // namespace
}  // namespace attnfuzz
