#include "fuzz/check/check.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <stdexcept>
#include <system_error>

#include "fuzz/check/refusals.h"
#include "fuzz/check/shard.h"
#include "fuzz/host/kernel_registry.h"
#include "properties/judge/execution.h"
#include "properties/memory/layout.h"

namespace attnfuzz {
namespace {

using Clock = std::chrono::steady_clock;

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
  std::string text;
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
  const pid_t pid = fork();
  if (pid < 0) fail_errno("fork of a job");
  if (pid > 0) {
    close(fds[1]);
    return {pid, fds[0], {}};
  }
  close(fds[0]);
  int status = 0;
  try {
    std::string error;
    std::unique_ptr<Target> target = open(&error);
    if (target == nullptr) throw std::runtime_error(error);
    write_all(fds[1], "r" + serialize(run_shard(job, *target, calibration, options, shared)));
  } catch (const std::exception& e) {
    shared.stop = true;
    write_all(fds[1], std::string("e") + e.what());
    status = 1;
  }
  close(fds[1]);
  _exit(status);
}

// Reads every job's answer to its end.
void collect(std::vector<Job>& jobs, const std::function<void()>& tick) {
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
        waitpid(jobs[i].pid, nullptr, 0);
        --open;
      }
    }
    tick();
  }
}

}  // namespace

Aim aim_at(Target& target, const CheckOptions& options) {
  Aim aim;
  aim.variants = std::min<int32_t>(static_cast<int32_t>(target.info().variants.size()), options.max_variant);
  aim.splits = target.info().has_stages;
  aim.work = options.work;
  aim.refused = ask_for_refusals(target);
  aim.tiles_q.clear();
  aim.tiles_k.clear();
  // A kernel may tile each head dimension differently: ask about one of each.
  for (int64_t dim : {64, 128, 256}) {
    Case c;
    c.problem.dim_qk = c.problem.dim_v = dim;
    c.env.variant = target.info().variants.empty() ? 0 : 1;
    const Execution e(c, target);
    if (!e.why_not().empty()) continue;  // the first case says what is wrong with it
    const auto add = [](std::vector<int64_t>& tiles, int64_t tile) {
      if (tile > 0 && std::ranges::find(tiles, tile) == tiles.end()) tiles.push_back(tile);
    };
    add(aim.tiles_q, e.plan.tile_q);
    add(aim.tiles_k, e.plan.tile_k);
  }
  if (aim.tiles_q.empty()) aim.tiles_q = Aim{}.tiles_q;
  if (aim.tiles_k.empty()) aim.tiles_k = Aim{}.tiles_k;
  return aim;
}

CheckResult check(const OpenTarget& open, const Calibration& calibration, const CheckOptions& options,
                  const OnProgress& progress) {
  SharedPage page;
  Shared& shared = *page;
  const auto start = Clock::now();
  std::vector<Job> jobs;
  for (int job = 0; job < options.jobs; ++job)
    jobs.push_back(start_job(job, open, calibration, options, shared));
  const uint64_t of = options.seconds > 0 ? 0 : options.cases;
  collect(jobs, [&] {
    if (progress) progress(shared.done, of, std::chrono::duration<double>(Clock::now() - start).count());
  });

  CheckResult result;
  for (const Job& job : jobs) {
    if (job.text.empty()) throw std::runtime_error("a job of the check died without a word");
    if (job.text[0] != 'r') throw std::runtime_error(job.text.substr(1));
    result.merge(deserialize(job.text.substr(1)));
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

Reproducer without_digests(const Case& c, const Verdict& verdict, const KernelInfo& kernel) {
  Reproducer r;
  r.c = c;
  r.property = verdict.property;
  // One of our own goes by its name, a plug-in by its path.
  std::string error;
  const auto own = find_kernel(kernel.name, {kernel.backend, kernel.lane}, &error);
  r.kernel = own && own->path == kernel.library ? kernel.name : kernel.library;
  if (r.kernel == kernel.library && kernel.library_kernels.size() > 1) r.kernel += ":" + kernel.name;
  r.backend = kernel.backend;
  r.build_hash = kernel.build.hash;
  r.compiler = kernel.build.compiler;
  r.flags = kernel.build.flags;
  r.device = kernel.device;
  r.kind = to_string(verdict.kind);
  r.message = verdict.message;
  r.shape = text_of(verdict.shapes);
  return r;
}

Reproducer reproducer_of(const Case& c, const Verdict& verdict, const KernelInfo& kernel, Target& target) {
  Reproducer r = without_digests(c, verdict, kernel);
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

Reduction reduce_failure(const Case& c, const Verdict& verdict, const Property& property, Target& target,
                         const Calibration& calibration, const ReduceOptions& options) {
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

}  // namespace attnfuzz
