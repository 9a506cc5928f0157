// attnfuzz bench: measures cases per second and where the time goes, and compares the executor with plain C++
// on the same work.
#include "fuzz/bench/bench.h"

#include <algorithm>

#include "base/json.h"
#include "cli/open/open_kernel.h"
#include "cli/options/help.h"
#include "cli/terminal/terminal.h"

namespace attnfuzz {
namespace {

// The executor's goal: it takes at most this many times as long as plain C++.
constexpr double kRatioTarget = 4;

struct BenchArguments {
  std::vector<std::string> kernels;
  std::vector<std::string> backends = {"cpu"};
  int repeats = 20;
  double drawn_seconds = 3;
  std::string json;
  TargetOptions target;
};

void print_rows(const std::vector<BenchRow>& rows) {
  std::string last;
  for (const BenchRow& row : rows) {
    const std::string target = row.kernel + " (" + backend_name(row.backend) + ")";
    if (target != last)
      emit("  {:25} {:>10} {:>7} {:>7} {:>7} {:>7} {:>7}\n", target, "cases/s", "lay out", "kernel", "trip",
           "oracle", "judge");
    last = target;
    emit("  {:25} {:10.1f}", row.shape, row.cases_per_s);
    for (const double stage : {row.lay_out_s, row.kernel_s, row.round_trip_s, row.oracle_s, row.judge_s})
      emit(" {:6.1f}%", 100 * stage / row.total_s);
    emit("\n");
  }
}

void print_ratios(const std::string& kernel, const std::vector<RatioRow>& rows) {
  emit(
      "\n{} on the executor, and plain C++ with the same blocking on one thread; in brackets: plain C++ whose\n"
      "exp2 the compiler can vectorise, in place of the C library's\n",
      kernel);
  emit("  {:25} {:>12} {:>12} {:>12} {:>8}\n", "problem", "executor, us", "plain, us", "", "ratio");
  double worst = 0;
  for (const RatioRow& row : rows) {
    emit("  {:25} {:12.1f} {:12.1f} ({:10.1f}) {:8.2f} ({:.2f})\n", row.shape, row.kernel_s * 1e6,
         row.plain_s * 1e6, row.plain_inline_s * 1e6, row.ratio(), row.kernel_s / row.plain_inline_s);
    worst = std::max(worst, row.ratio());
  }
  emit("  worst ratio {:.2f}, target at most {:.0f}: {}\n", worst, kRatioTarget,
       worst <= kRatioTarget ? "met" : "MISSED");
}

void print_batches(const std::string& name, uint32_t batch, const std::vector<BatchRow>& rows) {
  emit(
      "\n{}, {} cases at once on the device; us per case. ready: prepare; run: lay out, run and judge;\n"
      "launched: the part of run until all is launched; again: judge by the CPU's oracle\n",
      name, batch);
  emit("  {:25} {:>10} {:>7} {:>7} {:>7} {:>7} {:>8} {:>7}\n", "problem", "cases/s", "cases", "ready", "plan",
       "run", "launched", "again");
  for (const BatchRow& row : rows) {
    emit("  {:25} {:10.1f} {:7}", row.shape, static_cast<double>(row.cases) / row.seconds, row.cases);
    for (const double s : {row.use.prepare_s, row.use.plan_s, row.use.run_s, row.use.launch_s, row.use.again_s})
      emit(" {:7.1f}", 1e6 * s / static_cast<double>(row.cases));
    emit("\n");
    if (row.use.doubted > 0 || row.use.cleared < row.cases) emit("    {}\n", words(row.use));
  }
}

Json to_json(const BatchRow& row, const std::string& kernel) {
  return {{"problem", row.shape},
          {"kernel", kernel},
          {"cases", row.cases},
          {"cases_per_s", static_cast<double>(row.cases) / row.seconds},
          {"prepare_s", row.use.prepare_s},
          {"plan_s", row.use.plan_s},
          {"run_s", row.use.run_s},
          {"launch_s", row.use.launch_s},
          {"again_s", row.use.again_s},
          {"again", row.use.both}};
}

Json to_json(const BenchRow& row) {
  return {
      {"problem", row.shape},       {"kernel", row.kernel},           {"backend", backend_name(row.backend)},
      {"repeats", row.repeats},     {"cases_per_s", row.cases_per_s}, {"total_s", row.total_s},
      {"lay_out_s", row.lay_out_s}, {"kernel_s", row.kernel_s},       {"round_trip_s", row.round_trip_s},
      {"oracle_s", row.oracle_s},   {"judge_s", row.judge_s}};
}

Exit bench(BenchArguments arguments) {
  for (const KernelLibrary& library :
       arguments.kernels.empty() ? our_kernels() : std::vector<KernelLibrary>{}) {
    if (std::ranges::find(arguments.kernels, library.name) == arguments.kernels.end())
      arguments.kernels.push_back(library.name);
  }
  std::vector<std::unique_ptr<Target>> opened;
  std::vector<BenchTarget> targets;
  Target* executor_target = nullptr;
  for (const std::string& backend : arguments.backends) {
    TargetOptions options = arguments.target;
    options.backend = backend;
    for (const std::string& kernel : arguments.kernels) {
      opened.push_back(open(library_of(kernel, options), options));
      Target* target = opened.back().get();
      if (backend == "cuda") put_oracle(*target, options);
      emit("{}\n", identity_line(target->info(), options));
      targets.push_back({target, calibration_for(target->info(), options)});
      if (executor_target == nullptr && target->info().backend == ATTN_CPU) executor_target = target;
    }
  }

  emit(
      "\nmedians of {}, one process; shares of a case's time: laying out, inside the kernel, the trip to the\n"
      "worker and back (with plan and copies), the oracle, comparing\n",
      arguments.repeats);
  std::vector<BenchRow> rows = bench_cases(targets, bench_shapes(), arguments.repeats);
  if (arguments.drawn_seconds > 0) {
    for (const BenchRow& row : bench_drawn(targets, arguments.drawn_seconds)) rows.push_back(row);
  }
  print_rows(rows);

  Json batches = Json::array();
  TargetOptions of_gpu = arguments.target;
  of_gpu.backend = "cuda";
  for (const BenchTarget& target : targets) {
    if (target.target->info().backend != ATTN_CUDA) continue;
    BatchTarget* batch_target = batch_target_of(*target.target, arguments.target);
    if (!batch_target) continue;
    const std::string& name = target.target->info().name;
    const std::vector<BatchRow> of = bench_batches(
        *batch_target, target, bench_shapes(), arguments.target.batch, arguments.repeats,
        arguments.drawn_seconds, [&] { return open(library_of(name, of_gpu), of_gpu); }, of_gpu.background);
    print_batches(name, arguments.target.batch, of);
    for (const BatchRow& row : of) batches.push_back(to_json(row, name));
  }

  std::vector<RatioRow> ratios;
  if (executor_target != nullptr) {
    ratios = executor_ratio(*executor_target, bench_shapes(), arguments.repeats);
    print_ratios(executor_target->info().name, ratios);
  }

  if (!arguments.json.empty()) {
    Json out;
    out["cases"] = Json::array();
    for (const BenchRow& row : rows) out["cases"].push_back(to_json(row));
    out["batches"] = batches;
    out["executor"] = Json::array();
    for (const RatioRow& row : ratios) {
      out["executor"].push_back({{"problem", row.shape},
                                 {"kernel_s", row.kernel_s},
                                 {"plain_s", row.plain_s},
                                 {"plain_inline_exp2_s", row.plain_inline_s},
                                 {"ratio", row.ratio()}});
    }
    write_file(arguments.json, json_text(out, 2) + "\n");
  }
  return kPassed;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("bench", "Times the judging of cases, and the executor beside plain C++");
  const auto arguments = std::make_shared<BenchArguments>();
  command->add_option("kernel", arguments->kernels, "kernels by name (default: all of ours)");
  command->add_option("--backend", arguments->backends, "cpu, cuda, or both")
      ->check(is_backend())
      ->capture_default_str();
  command->add_option("--repeats", arguments->repeats, "timed runs of each problem")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  command
      ->add_option("--drawn", arguments->drawn_seconds, "seconds per kernel for small drawn problems; 0: none")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  command->add_option("--json", arguments->json, "write all figures to this file");
  add_oracle_option(*command, arguments->target);
  add_batch_option(*command, arguments->target);
  add_background_option(*command, arguments->target);
  add_stale_flag(*command, arguments->target);
  add_footer(*command, "attnfuzz bench fa1 --repeats 50", {"it was measured", "", kBadUseStatus});
  command->callback([&action, arguments] { action = [arguments] { return bench(*arguments); }; });
}

}  // namespace attnfuzz
