// Compares the oracle on a GPU with the host's: expected values, bounds and verdicts.
//
//   oracle_agreement drawn COUNT [FIRST] KERNEL...    cases as `attnfuzz check` draws them, run on the GPU
//   oracle_agreement corpus FOLDER KERNEL...          every case file below FOLDER, run on the GPU
//   oracle_agreement batched COUNT [FIRST] KERNEL...  drawn cases, laid out, run and judged on the GPU (fuzz/batch)
//
// A drawn case is judged with its kernel's plan, and once more with another declared plan. Each oracle gives a
// verdict on the kernel's results, and on these results with one element moved just inside or just outside of
// its bound. If the plan is deterministic, the outputs of a batched case must also equal those of a single run.
// Exit status: 0 if all agree, 1 if not, 77 without a GPU.
#include "reference/agreement.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fuzz/batch/batch_judge.h"
#include "fuzz/batch/given.h"
#include "fuzz/batch/prepare.h"
#include "fuzz/batch/device/readback.h"
#include "fuzz/check/check.h"
#include "fuzz/host/kernel_registry.h"
#include "properties/judge/execution.h"
#include "properties/judge/judge.h"
#include "reference/cuda/cuda_oracle.h"
#include "tests/reference/cuda/tally.h"
#include "tests/reference/legal_kernels/declared.h"

namespace attnfuzz {

namespace {

struct Held {
  AgreementTally tally;
  int64_t cases = 0, refused = 0, verdicts = 0, failures = 0, other_verdicts = 0;
  std::string first_verdict;
};

constexpr int64_t kMostRows = 2048;

// The kind and the place of a verdict, which both oracles must agree on.
std::string words_of(const Verdict& v) {
  std::string words = std::string(to_string(v.kind));
  if (v.where)
    words +=
        " " + name_of(*v.where) + " " + std::to_string(v.where->bad) + " of " + std::to_string(v.where->of);
  return words;
}

void judge_by_both(const std::string& name, const Reference& fast, const Reference& host, const Problem& p,
                   const attn_plan& plan, const Outputs& outputs, Held* held) {
  Verdict by_fast, by_host;
  judge_outputs(operations::forward, fast, p, plan, outputs, by_fast);
  judge_outputs(operations::forward, host, p, plan, outputs, by_host);
  ++held->verdicts;
  held->failures += by_host.outcome == Outcome::kFail;
  if (words_of(by_fast) == words_of(by_host)) return;
  if (held->other_verdicts++ == 0)
    held->first_verdict = name + ": " + words_of(by_fast) + " and " + words_of(by_host);
}

// Moves one number of the result to `times` its bound away from what is expected.
Outputs moved(Outputs outputs, const Reference& host, Random* random, double times) {
  const Expected& expected = host.outputs[static_cast<size_t>(random->below(2))];
  std::vector<float>& got = outputs[expected.tensor];
  if (got.empty()) return outputs;
  const auto at = static_cast<size_t>(random->below(static_cast<int64_t>(got.size())));
  const double by = times * expected.bound[at];
  if (std::isfinite(by)) got[at] = static_cast<float>(expected.value[at] + (random->below(2) ? by : -by));
  if (random->below(16) == 0) got[at] = std::nanf("");
  return outputs;
}

void hold_case(const std::string& name, const Case& c, Target& target, FastOracle& oracle,
               const Calibration& calibration, uint64_t seed, Held* held) {
  if (illegal(c)) return;
  Execution e(c, target);
  if (!e.why_not().empty()) {
    ++held->refused;
    return;
  }
  ++held->cases;
  Random random(seed * 7919 + 11);
  const RunReply reply = e.run(c.calls[0]);
  const Outputs outputs = e.outputs();
  for (int as = 0; as < 2; ++as) {
    attn_plan plan = e.plan;
    if (as == 1) declare_any(&random, &plan);
    std::string why;
    const RowSample sample = {.limit = kMostRows, .seed = seed};
    const auto fast = oracle.evaluate(e.laid.problem(), e.laid.tensors(), plan, calibration, sample, &why);
    if (!fast) {
      ++held->tally.not_for_it;
      continue;
    }
    const Reference host = evaluate(e.laid.problem(), e.laid.tensors(), plan, calibration, sample);
    const std::string as_planned = name + (as == 0 ? "" : ", another plan");
    held->tally.add(as_planned, host, compare(e.laid.problem(), *fast, host));
    if (reply.status != ATTN_OK || outputs[TensorId::kO].empty() || host.rows == 0) continue;
    judge_by_both(as_planned, *fast, host, c.problem, plan, outputs, held);
    // The factors differ from 1 by more than the two bounds may differ from each other.
    for (const double times : {0.5, 0.99, 1.01, 2.0})
      judge_by_both(as_planned, *fast, host, c.problem, plan, moved(outputs, host, &random, times), held);
  }
}

// Judges drawn cases in a batch, and compares the results with the host's judgement of each case.
void hold_batched(const std::vector<std::pair<std::string, Case>>& cases, Target& target,
                  const Calibration& calibration, Held* held) {
  auto& batch_target = dynamic_cast<BatchTarget&>(target);
  std::vector<batch::Call> calls;
  std::vector<size_t> of;
  std::string why;
  for (size_t i = 0; i < cases.size(); ++i) {
    if (illegal(cases[i].second)) continue;
    if (const auto call = batch::prepare(cases[i].second, ATTN_CUDA, &why)) {
      calls.push_back(*call);
      of.push_back(i);
    } else {
      ++held->tally.not_for_it;
    }
  }
  std::vector<batch::Result> results(calls.size());
  std::vector<Assumption> assumptions;
  const auto must = [](const std::string& failed) {
    if (!failed.empty()) throw std::runtime_error(failed);
  };
  must(batch_target.plan(calls, results));
  size_t kept = 0;
  uint64_t readback = 0;
  for (size_t n = 0; n < calls.size(); ++n) {
    const bool planned =
        results[n].status == ATTN_OK &&
        batch::add_plan(cases[of[n]].second, results[n].plan, calibration, &calls[n], &assumptions, &why);
    calls[n].readback_all = 1;
    if (!planned || readback + batch::Readback(calls[n]).sent() > batch::kReadbackBytes) {
      ++held->refused;
      continue;
    }
    calls[n].readback_at = readback;
    readback += batch::Readback(calls[n]).sent();
    calls[kept] = calls[n];
    of[kept++] = of[n];
  }
  calls.resize(kept);
  results.resize(kept);
  must(batch_target.run(calls, results));
  std::vector<std::unique_ptr<GivenRun>> given;
  for (size_t n = 0; n < kept; ++n)
    given.push_back(batch::given_run(cases[of[n]].second, calls[n], results[n], {}, batch_target.readback()));
  for (size_t n = 0; n < kept; ++n) {
    const auto& [name, c] = cases[of[n]];
    ++held->cases;
    Execution e(c, target);
    const Reference host = e.evaluate(calibration);
    if (!given[n]) throw std::runtime_error(name + ": its results are none");
    held->tally.add(name, host, compare(e.laid.problem(), given[n]->run.reference, host));
    const RunReply reply = e.run(c.calls[0]);
    if (reply.status != ATTN_OK || !e.plan.deterministic) continue;
    const Outputs outputs = e.outputs();
    Verdict v;
    ++held->verdicts;
    if (judge_same(outputs, given[n]->run.calls[0], c.problem, e.plan, Kind::kRelation, "", v)) continue;
    if (held->other_verdicts++ == 0) held->first_verdict = name + ": other outputs";
  }
}

std::unique_ptr<Target> opened(const std::string& kernel) {
  std::string error;
  const auto library = find_kernel(kernel, {ATTN_CUDA}, &error);
  std::unique_ptr<Target> target = library ? open_target(worker_options(*library), &error) : nullptr;
  if (!target) {
    std::fprintf(stderr, "oracle_agreement: %s\n", error.c_str());
    std::exit(77);
  }
  return target;
}

// A drawn case as a call of an operation that the kernel has.
Case drawn_call(const GeneratorConfig& config, const Target& target, uint64_t n) {
  Case c = draw(config, 1, n);
  const uint64_t features = target.info().features;
  if (const Operation* operation = operation_for(c.problem.features, features, n))
    make_call(*operation, c, features);
  return c;
}

int say(const Held& held) {
  const bool agreed = held.tally.say();
  if (held.cases > 0)
    std::printf("%lld cases run (%lld refused): %lld verdicts, %lld of them failures; %lld differ\n",
                (long long)held.cases, (long long)held.refused, (long long)held.verdicts,
                (long long)held.failures, (long long)held.other_verdicts);
  if (!held.first_verdict.empty()) std::printf("first other verdict: %s\n", held.first_verdict.c_str());
  return agreed && held.other_verdicts == 0 ? 0 : 1;
}

int run(const std::string& mode, std::vector<std::string> rest, FastOracle& oracle) {
  Held held;
  const auto number = [&](size_t at, int64_t otherwise) {
    return at < rest.size() && std::isdigit(static_cast<unsigned char>(rest[at][0])) ? std::stoll(rest[at])
                                                                                     : otherwise;
  };
  const Calibration calibrations[] = {h200(), documented()};
  if (mode == "drawn") {
    const int64_t count = number(0, 1000), first = number(1, 0);
    for (const std::string& kernel : rest) {
      if (std::isdigit(static_cast<unsigned char>(kernel[0]))) continue;
      const std::unique_ptr<Target> target = opened(kernel);
      const GeneratorConfig config = config_for(*target, {});
      for (int64_t i = first; i < first + count; ++i)
        hold_case(kernel + " case " + std::to_string(i), draw(config, 1, static_cast<uint64_t>(i)), *target,
                  oracle, calibrations[i % 2], static_cast<uint64_t>(i), &held);
    }
    return say(held);
  }
  if (mode == "batched") {
    const int64_t count = number(0, 1000), first = number(1, 0);
    constexpr int64_t kBatch = 64;
    for (const std::string& kernel : rest) {
      if (std::isdigit(static_cast<unsigned char>(kernel[0]))) continue;
      const std::unique_ptr<Target> target = opened(kernel);
      const GeneratorConfig config = config_for(*target, {});
      for (int64_t begin = first; begin < first + count; begin += kBatch) {
        std::vector<std::pair<std::string, Case>> cases;
        for (int64_t i = begin; i < std::min(begin + kBatch, first + count); ++i)
          cases.emplace_back(kernel + " case " + std::to_string(i),
                             drawn_call(config, *target, static_cast<uint64_t>(i)));
        hold_batched(cases, *target, calibrations[begin / kBatch % 2], &held);
      }
    }
    return say(held);
  }
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(rest.at(0)))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  for (size_t k = 1; k < rest.size(); ++k) {
    const std::unique_ptr<Target> target = opened(rest[k]);
    for (size_t i = 0; i < files.size(); ++i) {
      auto text = read_file(files[i]);
      if (!std::holds_alternative<std::string>(text)) return 1;
      auto whole = decode_reproducer(std::get<std::string>(text));
      auto bare = decode(std::get<std::string>(text));
      const auto* r = std::get_if<Reproducer>(&whole);
      const Case* c = r ? &r->c : std::get_if<Case>(&bare);
      if (!c) {
        std::fprintf(stderr, "oracle_agreement: %s is no case\n", files[i].c_str());
        return 1;
      }
      hold_case(files[i], *c, *target, oracle, calibrations[i % 2], i, &held);
    }
  }
  return say(held);
}

}  // namespace
}  // namespace attnfuzz

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() < 2) {
    std::fprintf(stderr, "usage: oracle_agreement drawn|batched|corpus COUNT|FOLDER [FIRST] [KERNEL...]\n");
    return 2;
  }
  std::string why;
  const auto oracle = attnfuzz::open_cuda_oracle(&why, 0);
  if (!oracle) {
    std::fprintf(stderr, "oracle_agreement: %s\n", why.c_str());
    return 77;
  }
  std::printf("%s\n", oracle->device().c_str());
  return attnfuzz::run(arguments[0], {arguments.begin() + 1, arguments.end()}, *oracle);
}
