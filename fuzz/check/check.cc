#include "fuzz/check/check.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <stdexcept>
#include <system_error>

#include "fuzz/check/refusals.h"
#include "fuzz/check/shard.h"
#include "fuzz/check/way.h"
#include "fuzz/host/kernel_registry.h"
#include "fuzz/host/processes.h"
#include "fuzz/host/subprocess.h"
#include "properties/case/domain.h"
#include "properties/draw/covering.h"
#include "properties/explain/first_bits.h"
#include "properties/judge/execution.h"
#include "properties/judge/judge.h"
#include "properties/judge/twin.h"
#include "properties/memory/layout.h"

namespace attnfuzz {
namespace {

using Clock = std::chrono::steady_clock;

// For a job's case to end once the check is interrupted.
constexpr std::chrono::seconds kGrace{5};

[[noreturn]] void fail_errno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// A page that all jobs share.
class SharedPage {
 public:
  SharedPage() {
    memory_ = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) fail_errno("mmap of the jobs' shared page");
    new (memory_) Shared;
  }
  ~SharedPage() { munmap(memory_, sizeof(Shared)); }
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;
  Shared& operator*() { return *static_cast<Shared*>(memory_); }

 private:
  void* memory_;
};

struct Job {
  pid_t pid;
  int fd;
  std::string text = {}, how = {};  // what it said, how it ended
  bool given_up = false;
};

void write_all(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t n = write(fd, text.data() + at, text.size() - at);
    if (n < 0 && errno != EINTR) return;  // the parent is gone, and with it whoever wanted to know
    if (n > 0) at += static_cast<size_t>(n);
  }
}

// The first byte says whether what follows is a result or an error.
Job start_job(int job, const OpenTarget& open, const Calibration& calibration, const CheckOptions& options,
              Shared& shared) {
  int fds[2];
  if (pipe(fds) != 0) fail_errno("pipe to a job");
  const pid_t pid = start_child(
      [&] {
        close(fds[0]);
        try {
          std::string error;
          std::unique_ptr<Target> target = open(&error);
          if (target == nullptr) throw std::runtime_error(error);
          write_all(fds[1], "r" + serialize(run_shard(job, *target, calibration, options, shared)));
        } catch (const std::exception& e) {
          shared.stop = true;
          write_all(fds[1], std::string("e") + e.what());
        }
      },
      nullptr, 0);
  close(fds[1]);
  return {pid, fds[0]};
}

// Reads every job's answer to its end.
void collect(std::vector<Job>& jobs, Shared& shared, bool keep_going, const std::function<void()>& tick) {
  size_t open = jobs.size();
  while (open > 0) {
    std::vector<pollfd> fds;
    for (const Job& job : jobs) fds.push_back({job.fd, POLLIN, 0});
    if (poll(fds.data(), fds.size(), 500) < 0 && errno != EINTR) fail_errno("poll of the jobs");
    for (size_t i = 0; i < jobs.size(); ++i) {
      if (jobs[i].fd < 0 || fds[i].revents == 0) continue;
      char buffer[1 << 16];
      const ssize_t n = read(jobs[i].fd, buffer, sizeof buffer);
      if (n > 0) {
        jobs[i].text.append(buffer, static_cast<size_t>(n));
      } else if (n == 0) {
        close(jobs[i].fd);
        jobs[i].fd = -1;  // poll passes over it
        jobs[i].how = describe_status(wait_for_child(jobs[i].pid));
        // Died in a case: the others need not go beyond it.
        const uint64_t at = jobs[i].text.empty() && !jobs[i].given_up ? shared.at[i].load() : 0;
        if (at > 0 && !keep_going) shared.first_failure = std::min(shared.first_failure.load(), at - 1);
        --open;
      }
    }
    tick();
  }
}

// What is known of a case that its job did not survive.
Failure fatal_failure(uint64_t index, const std::string& how, Target& target, const CheckOptions& options) {
  auto [c, property] = case_at(aim_at(target, options), options, target, index);
  rejected_by(*property, c, target.info());  // adapts it
  Failure failure = {.index = index, .c = c, .property = property, .fatal = true};
  failure.verdict.outcome = Outcome::kFail;
  failure.verdict.kind = Kind::kCrash;
  failure.verdict.property = property->name;
  failure.verdict.message =
      "the process that judged this case died (" + how +
      "), and with it the counts of its job: it was killed from outside, or by the kernel";
  return failure;
}

}  // namespace

Aim aim_at(Target& target, const CheckOptions& options) {
  if (options.aim) return *options.aim;
  // Of a domain whose least case is large more than that one is drawn: four times as many queries, and keys.
  constexpr int64_t kTimesLeast = 16, kMostLeast = 50'000'000;
  constexpr int64_t kSmallTile = 16, kUsualTile = 64;
  Aim aim;
  aim.variants = std::min<int32_t>(static_cast<int32_t>(target.info().variants.size()), options.max_variant);
  aim.splits = target.info().has_stages;
  aim.work = options.work;
  aim.refused = options.terms     ? options.terms->refused
                : options.refused ? *options.refused
                                  : ask_for_refusals(target);
  // No plan sees them, so that a kernel that promises nothing there cannot say so: it is not asked.
  for (const Refusal* refusal : aim.refused.those) {
    if (refusal == refusal_of_several(kNonFinite) && (options.finite || !target.info().refuses_late))
      aim.never.push_back(refusal);
  }
  aim.domain = options.terms ? options.terms->domain : target.info().domain;
  if (aim.domain) aim.work = std::max(aim.work, kTimesLeast * std::min(least_work(*aim.domain), kMostLeast));
  aim.tiles_q.clear();
  aim.tiles_k.clear();
  const int32_t usual = target.info().variants.empty() ? 0 : 1;
  // A kernel may tile each head dimension differently, and each variant does: ask about one of each.
  const auto ask = [&](int64_t dim, int32_t variant) {
    Case c;
    c.problem.dim_qk = c.problem.dim_v = dim;
    c.env.variant = variant;
    if (aim.domain) fit(*aim.domain, c);
    if (illegal(c)) return;
    const Execution e(c, target);
    if (!e.why_not().empty()) return;  // the first case says what is wrong with it
    const auto add = [](std::vector<int64_t>& tiles, int64_t tile) {
      if (tile > 0 && std::ranges::find(tiles, tile) == tiles.end()) tiles.push_back(tile);
    };
    if (e.plan.tile_q > 0 && e.plan.tile_k > 0)
      aim.tilings.push_back({variant, dim, e.plan.tile_q, e.plan.tile_k});
    if (variant != usual) return;
    add(aim.tiles_q, e.plan.tile_q);
    add(aim.tiles_k, e.plan.tile_k);
  };
  for (const int64_t dim : {64, 128, 256}) {
    for (int32_t variant = 0; variant <= std::max(aim.variants, usual); ++variant) ask(dim, variant);
  }
  for (std::vector<int64_t>* tiles : {&aim.tiles_q, &aim.tiles_k}) {
    // Few keys fill small tiles: what goes wrong beyond them is drawn for as well, whatever the plan says.
    if (tiles->empty() || std::ranges::max(*tiles) < kSmallTile) tiles->push_back(kUsualTile);
  }
  // Of a domain whose least case of three tiles of keys hardly fits into that, few would have three.
  constexpr int64_t kTimesThreeTiles = 6;
  if (aim.domain) {
    const int64_t three = least_work(*aim.domain, 2 * std::ranges::max(aim.tiles_k) + 1);
    if (2 * three > aim.work) aim.work = std::max(aim.work, std::min(kTimesThreeTiles * three, kMostLeast));
  }
  aim.covering = std::make_shared<Covering>(aim);
  return aim;
}

CheckResult check(const OpenTarget& open, const Calibration& calibration, const CheckOptions& options,
                  const OnProgress& progress) {
  SharedPage page;
  Shared& shared = *page;
  const auto start = Clock::now();
  if (options.aim && options.aim->covering)
    options.aim->covering->size();  // made here, once, and not by each job
  std::vector<Job> jobs;
  for (int job = 0; job < options.jobs; ++job)
    jobs.push_back(start_job(job, open, calibration, options, shared));
  const uint64_t of = options.seconds > 0 ? 0 : options.cases;
  CheckResult result;
  Clock::time_point interrupted;
  collect(jobs, shared, options.keep_going, [&] {
    if (progress) progress(shared.done, of, std::chrono::duration<double>(Clock::now() - start).count());
    if (!result.interrupted && options.interrupted && options.interrupted()) {
      result.interrupted = shared.stop = true;
      interrupted = Clock::now();
    }
    // Each may end its case, and what it has begun to answer; not what hangs in one.
    if (!result.interrupted || Clock::now() - interrupted < kGrace) return;
    for (Job& job : jobs) {
      if (job.fd < 0 || job.given_up || !job.text.empty()) continue;
      kill(job.pid, SIGKILL);
      job.given_up = true;
    }
  });

  std::unique_ptr<Target> target;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Job& job = jobs[i];
    if (job.text.starts_with('r')) {
      result.merge(deserialize(job.text.substr(1)));
    } else if (!job.text.empty()) {
      throw std::runtime_error(job.text.substr(1));
    } else if (job.given_up) {
      result.given_up.push_back(shared.at[i] - 1);
    } else if (shared.at[i] == 0) {
      throw std::runtime_error("a job of the check died outside of a case: " + job.how);
    } else {
      std::string error;
      if (target == nullptr) target = open(&error);
      if (target == nullptr) throw std::runtime_error(error);
      Failure failure = fatal_failure(shared.at[i] - 1, job.how, *target, options);
      PropertyStats& n = result.properties[failure.property->name];
      ++n.cases, ++n.failed;
      result.add(std::move(failure));
    }
  }
  if (!options.keep_going && result.failures.size() > 1)
    result.failures.erase(result.failures.begin() + 1, result.failures.end());
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

std::optional<Verdict> confirm(const Case& c, const Verdict& first, const Property& property, Target& target,
                               const Calibration& calibration, int times) {
  const std::string key = reduction_key(target.info(), first);
  std::optional<Verdict> other;
  // Briefly: what hung has used up the full watch once.
  target.watch(Watch::kBrief);
  for (int i = 0; i < times; ++i) {
    target.renew();
    Verdict again = judge(c, property, target, calibration);
    if (again.outcome != Outcome::kFail) continue;
    const bool same = reduction_key(target.info(), again) == key;
    other = std::move(again);
    if (same) break;
  }
  target.watch(Watch::kFull);
  return other;
}

std::vector<std::string> not_judged(const CheckResult& result, const std::string& kernel,
                                    const Refused& refused, bool whole) {
  std::vector<std::string> why;
  // Rows, for a kernel that refuses all of its cases passes those that are about refusals.
  if (result.rows <= result.unconstrained_rows) {
    return {"no result of " + kernel + " was compared: a check that checks nothing does not pass"};
  }
  if (whole) {
    for (const std::string& floor : result.features.broken_floors(refused, Classification::kByChance))
      why.push_back(kernel + ": floor of the draw broken: " + floor);
  }
  const Classification& drawn = result.features;
  constexpr uint64_t kFewest = 20;
  if (why.empty() && drawn.cases >= kFewest && 2 * (drawn.rejected + drawn.uninformative) > drawn.cases) {
    why.push_back("most cases of " + kernel + " were not judged: of " + std::to_string(drawn.cases) + " " +
                  std::to_string(drawn.rejected) + " rejected, " + std::to_string(drawn.uninformative) +
                  " uninformative");
  }
  if (why.empty()) return why;
  why.push_back(
      "what is not judged does not pass: let plan() say how the kernel works (what it leaves open counts as "
      "the "
      "loosest), let it take more problems, or draw larger ones with --work");
  return why;
}

std::string command_name(const KernelInfo& kernel) {
  std::string error;
  const auto own = find_kernel(kernel.name, {kernel.backend, kernel.lane}, &error);
  if (own && own->path == kernel.library) return kernel.name;
  return kernel.library + (kernel.library_kernels.size() > 1 ? ":" + kernel.name : "");
}

std::string twin_name(const Target& target) {
  const bool named = target.twin && target.twin->named() && target.twin->get() != nullptr;
  return named ? command_name(target.twin->get()->info()) : "";
}

Reproducer without_digests(const Case& c, const Verdict& verdict, const KernelInfo& kernel) {
  Reproducer r;
  r.c = c;
  r.property = verdict.property;
  r.kernel = command_name(kernel);
  r.backend = kernel.backend;
  r.build_hash = kernel.build.hash;
  r.compiler = kernel.build.compiler;
  r.flags = kernel.build.flags;
  r.device = kernel.device;
  r.kind = to_string(verdict.kind);
  r.message = verdict.message;
  r.shape = text_of(verdict.shapes);
  r.path = path_of(verdict.plan);
  return r;
}

std::variant<Reproducer, DecodeError> read_reproducer(const std::string& path, const ReadLimits& limits) {
  auto text = read_file(path, limits);
  if (auto* error = std::get_if<DecodeError>(&text)) return std::move(*error);
  auto decoded = decode_reproducer(std::get<std::string>(text));
  if (auto* error = std::get_if<DecodeError>(&decoded))
    error->message = path + " is no reproducer: " + error->message;
  return decoded;
}

Reproducer reproducer_of(const Case& c, const Verdict& verdict, const KernelInfo& kernel, Target& target) {
  Reproducer r = without_digests(c, verdict, kernel);
  r.twin = twin_name(target);
  r.digests = LaidOut(c, target.arena()).digests();
  return r;
}

namespace {

// How the candidates of a reduction are judged.
struct Judging {
  Target& target;
  const Calibration& calibration;
  // Whether a failure counts only if a library that has run nothing else shows
  // it too: what it keeps from one call may be what fails the next.
  bool renewing = false;

  Verdict operator()(const Case& c, const Property& property) const {
    Verdict verdict = judge(c, property, target, calibration);
    if (renewing && verdict.outcome == Outcome::kFail) {
      target.renew();
      verdict = judge(c, property, target, calibration);
    }
    return verdict;
  }
};

// What may be wrong without the relation that found it: the case, the variant
// that failed, with its values in their usual order; and the case split, as one
// that was run in stages was, however many splits it asked for.
std::vector<Case> by_themselves(const Case& c, const Verdict& verdict, const KernelInfo& kernel) {
  std::vector<Case> all = {c};
  if (verdict.failing) {
    all.push_back(*verdict.failing);
    all.back().remap = Remap{};
  }
  if (kernel.has_stages && (c.problem.num_splits < 2 || c.problem.seq_k < 2)) {
    all.push_back(c);
    Problem& split = all.back().problem;
    split.num_splits = std::max<int64_t>(split.num_splits, 2);
    split.seq_k = std::max<int64_t>(split.seq_k, 2);  // a key for each
  }
  return all;
}

Reduction reduce_watched(const Case& c, const Verdict& verdict, const Property& property,
                         const Judging& judging, const ReduceOptions& options) {
  const KernelInfo& kernel = judging.target.info();
  const auto key_of = [&](const Verdict& v) {
    return reduction_key(kernel, v) + (options.keep_site ? " " + v.site : "");
  };
  const Property& simplest = *find_property("reference");
  if (&property != &simplest) {
    for (const Case& start : by_themselves(c, verdict, kernel)) {
      const Verdict alone = judging(start, simplest);
      if (alone.outcome == Outcome::kFail && key_of(alone) == key_of(verdict)) {
        return reduce_watched(start, alone, simplest, judging, options);
      }
    }
  }
  const auto evaluate = [&](const Case& candidate) {
    Case adapted = candidate;
    std::string why;
    // A candidate that the property would change is another case.
    if (!property.adapt(adapted, kernel, &why) || !(adapted == candidate)) {
      Verdict verdict;
      verdict.outcome = Outcome::kReject;
      return verdict;
    }
    return judging(candidate, property);
  };
  Reduction reduction = reduce(c, verdict, key_of(verdict), evaluate, key_of, options);
  if (&property == &simplest) return reduction;
  // What is left may be wrong by itself, though the found case was not.
  for (const Case& start : by_themselves(reduction.minimal, reduction.verdict, kernel)) {
    const Verdict alone = judging(start, simplest);
    if (alone.outcome != Outcome::kFail || key_of(alone) != key_of(reduction.verdict)) continue;
    Reduction simpler = reduce_watched(start, alone, simplest, judging, options);
    simpler.evaluations += reduction.evaluations;
    return simpler;
  }
  return reduction;
}

}  // namespace

namespace {

Reduction reduce_on(const Case& c, const Verdict& verdict, const Property& property, Target& target,
                    const Calibration& calibration, const ReduceOptions& given) {
  ReduceOptions options = given;
  if (const auto& domain = target.info().domain) {
    options.fit = [&](Case& candidate) {
      fit(*domain, candidate);
      if (given.fit) given.fit(candidate);
    };
  }
  // Most candidates hang if the case does: none of them gets more than the brief
  // watch, and the minimal one is held to the full one at the end.
  target.watch(Watch::kBrief);
  Judging judging = {target, calibration};
  Reduction reduction = reduce_watched(c, verdict, property, judging, options);
  target.watch(Watch::kFull);
  const bool hangs = reduction.verdict.kind == Kind::kHang;
  // On a device a failure may come and go by itself.
  if (!hangs && target.info().backend != ATTN_CPU) return reduction;
  target.renew();
  const Property* judged_by = find_property(reduction.verdict.property);
  const Verdict confirmed = judge(reduction.minimal, judged_by ? *judged_by : property, target, calibration);
  if (confirmed.kind == reduction.verdict.kind) return reduction;
  // Slow, where the found one hangs; or wrong only after what other candidates left behind.
  judging.renewing = !hangs;
  const int64_t before = reduction.evaluations;
  reduction = reduce_watched(c, verdict, property, judging, options);
  reduction.evaluations += before;
  return reduction;
}

}  // namespace

Reduction reduce_failure(const Case& c, const Verdict& verdict, const Property& property, Target& target,
                         const Calibration& calibration, const ReduceOptions& options) {
  Reduction reduction = reduce_on(c, verdict, property, target, calibration, options);
  // A kernel without variants refuses all but its own choice, which is no need of the failure.
  if (target.info().variants.empty())
    std::erase_if(reduction.needs,
                  [](const Need& need) { return need.part == "variant" || need.part == "the variant"; });
  tell_first_bits(reduction.minimal, target, reduction.verdict);
  return reduction;
}

}  // namespace attnfuzz
