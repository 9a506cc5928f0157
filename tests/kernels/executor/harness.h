// Runs a kernel on the CPU executor and keeps its reports.
//
//   Outcome run = run_on_cpu(kernel, dim3(2), dim3(64), {.seed = 2}, out.data());
//   EXPECT_EQ(run.status, ATTN_FAULT);
//   EXPECT_EQ(run.reports.at(0).kind, ATTN_REPORT_DEADLOCK);
//
// A kernel with a planted fault notes the line of the fault: *line = __LINE__ + 1.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "kernels/primitives/launch.h"

namespace attn {

struct Report {
  int kind;
  std::array<uint32_t, 3> block, thread;
  std::string message, file;
  int line;
  int shared_bytes;
};

struct Outcome {
  attn_status status;
  std::vector<Report> reports;

  // "ok", or the text of the only report.
  std::string told() const {
    if (reports.size() != 1) return reports.empty() ? "ok" : "several reports";
    return reports[0].message;
  }
};

struct RunOptions {
  uint64_t seed = 0;
  size_t shared = 0;
  int64_t shared_limit = 227 * 1024;
  const attn_probe* probe = nullptr;
  int32_t arithmetic = ATTN_ARITHMETIC_ANY;
  bool dependent = false;  // a dependent launch, which may overlap the kernel before it
};

inline void keep_report(void* user, const attn_report* report) {
  static_cast<Outcome*>(user)->reports.push_back({report->kind,
                                                  {report->block[0], report->block[1], report->block[2]},
                                                  {report->thread[0], report->thread[1], report->thread[2]},
                                                  report->message,
                                                  report->file ? report->file : "",
                                                  report->line,
                                                  report->shared_bytes});
}

template <class... P>
Outcome run_on_cpu(void (*kernel)(P...), dim3 grid, dim3 block, RunOptions options,
                   std::type_identity_t<P>... arguments) {
  Outcome run{};
  attn_env env{};
  env.size = sizeof env;
  env.backend = ATTN_CPU;
  env.shared_memory_limit = options.shared_limit;
  env.schedule_seed = options.seed;
  env.report = keep_report;
  env.user = &run;
  env.probe = options.probe;
  env.arithmetic = options.arithmetic;
  run.status = launch_as(options.dependent, kernel, grid, block, options.shared, &env, arguments...);
  return run;
}

// Expects one report of this kind with these words, by any thread.
inline void expect_told(const Outcome& run, attn_report_kind kind, const char* words) {
  EXPECT_EQ(run.status, ATTN_FAULT);
  ASSERT_EQ(run.reports.size(), 1u);
  EXPECT_EQ(run.reports[0].kind, kind) << run.reports[0].message;
  EXPECT_NE(run.reports[0].message.find(words), std::string::npos) << run.reports[0].message;
}

// The same, by this thread and on this line of the calling file.
inline void expect_fault(const Outcome& run, attn_report_kind kind, std::array<uint32_t, 3> thread, int line,
                         const char* words, const char* file = __builtin_FILE()) {
  EXPECT_EQ(run.status, ATTN_FAULT);
  ASSERT_EQ(run.reports.size(), 1u);
  const Report& report = run.reports[0];
  EXPECT_EQ(report.kind, kind) << report.message;
  EXPECT_EQ(report.thread, thread) << report.message;
  EXPECT_EQ(report.line, line) << report.message;
  if (line) {
    EXPECT_EQ(report.file, file);
  }
  EXPECT_NE(report.message.find(words), std::string::npos) << report.message;
}

// Schedules with different orders of threads: ascending, descending, random.
inline constexpr uint64_t kOrders[] = {0, 1, 2, 3, 0x1234567890abcdf2, 0xfeedf00dfeedf003};

// Schedules with every combination of their choices: order, landing of copies, rounding, reading of operands.
inline std::vector<uint64_t> all_schedules() {
  std::vector<uint64_t> seeds;
  for (uint64_t bits = 0; bits < 32; ++bits) seeds.push_back(bits | (bits & 2 ? 0x5bd1e995 * bits << 5 : 0));
  return seeds;
}

}  // namespace attn
