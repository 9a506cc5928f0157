#include "fuzz/worker/hosted.h"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "fuzz/host/confinement.h"
#include "fuzz/host/wire.h"
#include "fuzz/sandbox/confine.h"
#include "fuzz/worker/memory/memory.h"
#include "fuzz/worker/serve.h"
#include "fuzz/worker/supervisor.h"
#include "fuzz/worker/work.h"
#include "kernels/plug_in.h"

namespace attnfuzz::worker {
namespace {

#ifdef ATTNFUZZ_HOSTED_CUDA
constexpr attn_backend kBackend = ATTN_CUDA;
#else
constexpr attn_backend kBackend = ATTN_CPU;
#endif

// plan() and run() get no user pointer, so the kernel is kept in a global. That is enough, because a process runs one
// kernel.
const attnfuzz_hosted* hosted = nullptr;
std::vector<attn_kernel> kernels;
std::vector<attn_build> builds;
std::vector<attn_domain> domains;

uint64_t features_of(const attnfuzz_hosted& of) {
  return of.features | ((of.dtypes >> ATTN_F32 & 1) != 0 ? ATTN_FEATURE_F32 : 0);
}

attn_status checked(int32_t status) {
  return status >= ATTN_OK && status <= ATTN_FAULT ? static_cast<attn_status>(status) : ATTN_FAULT;
}

attn_status plan(const attn_problem* problem, const attn_tensors* tensors, const attn_env* env, attn_plan* plan,
                 char* reason, uint64_t reason_size) {
  attn::Call call;
  if (attn::Refusal refusal = attn::read_call(problem, tensors, env, kBackend, 0, features_of(*hosted), &call))
    return attn::refuse(refusal, reason, reason_size);
  attn_plan own = attn::default_plan(call.problem);
  const attn_status status =
      checked(hosted->plan(&call.problem, &call.tensors, &call.env, &own, reason, reason_size));
  if (status != ATTN_OK) return status;
  if (attn_write(plan, &own, sizeof own, ATTN_PLAN_MIN)) return ATTN_OK;
  return attn::refuse({ATTN_INVALID, "attn_plan.size leaves no room for a plan"}, reason, reason_size);
}

attn_status run(const attn_problem* problem, const attn_tensors* tensors, const attn_plan* plan,
                const attn_env* env) {
  attn::Call call;
  attn_plan known;
  if (attn::Refusal refusal = attn::read_call(problem, tensors, env, kBackend, 0, features_of(*hosted), &call))
    return refusal.status;
  if (!attn_read(&known, sizeof known, plan, ATTN_PLAN_MIN)) return ATTN_INVALID;
  char text[512] = "";
  const attn_status status =
      checked(hosted->run(&call.problem, &call.tensors, &known, &call.env, text, sizeof text));
  if (text[0] != 0 && call.env.report != nullptr) {
    attn_report report = {};
    report.size = sizeof report;
    report.kind = status == ATTN_UNSUPPORTED ? ATTN_REPORT_LAUNCH : ATTN_REPORT_DEVICE;
    report.message = text;
    call.env.report(call.env.user, &report);
  }
  return status;
}

const attn_kernel* kernel_at(uint32_t index) { return index < kernels.size() ? &kernels[index] : nullptr; }

void describe(const attnfuzz_hosted& from) {
  attn_build build = {};
  build.size = sizeof build;
  build.hash = from.source_hash;
  build.compiler = from.host;
  build.flags = from.domain;
  build.root = "";
  builds.push_back(build);
  attn_kernel kernel = {};
  kernel.size = sizeof kernel;
  kernel.abi = ATTN_ABI;
  kernel.name = from.name;
  kernel.description = from.description;
  kernel.backend = from.backend;
  kernel.build = &builds.back();
  kernel.plan = plan;
  kernel.run = run;
  kernel.features = features_of(from);
  if (from.takes != nullptr || kernel.features != 0) {
    attn_domain domain = from.takes != nullptr ? *from.takes : attn_domain{};
    domain.size = sizeof domain;
    domain.dtypes = from.dtypes;
    domains.push_back(domain);
    kernel.domain = &domains.back();
  }
  kernels.push_back(kernel);
}

Library open(const attnfuzz_loaded& all, const std::string& of, const char* selector, attn_backend backend) {
  Library library;
  if (all.refusal != nullptr) {
    library.error = all.refusal;
    return library;
  }
  builds.reserve(all.count);
  domains.reserve(all.count);
  for (uint32_t i = 0; i < all.count; ++i) describe(all.kernels[i]);
  library = choose(kernel_at, of, selector, backend);
  for (uint32_t i = 0; i < all.count && library.kernel; ++i) {
    const attnfuzz_hosted& one = all.kernels[i];
    if (std::string(one.name) == library.kernel->name && one.backend == library.kernel->backend) hosted = &one;
  }
  if (hosted != nullptr && hosted->note != nullptr) library.note = hosted->note;
  library.finite = hosted != nullptr && hosted->finite != 0;
  if (hosted != nullptr) library.cache = hosted->cache, library.tell = hosted->tell;
  return library;
}

}  // namespace
}  // namespace attnfuzz::worker

extern "C" {

void attnfuzz_supervise(int32_t worker) {
  attnfuzz::worker::supervise_child(worker);
  _exit(0);
}

int32_t attnfuzz_work(void (*load)(attnfuzz_loaded* to), const char* of, const char* selector,
                      const char* readable, int32_t supervisor) {
  using namespace attnfuzz::worker;
  setpgid(0, 0);
  close(attnfuzz::wire::kStatusFd);
  if (!live_with(supervisor)) return attnfuzz::wire::kExitUsage;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) ::signal(signal, SIG_DFL);
  const Confined confined = {.readable = paths_of(readable), .interpreter = true};
  const int status = work(confined, [&](attn_backend backend) {
    attnfuzz_loaded loaded = {};
    load(&loaded);
    return open(loaded, of, selector, backend);
  });
  std::fflush(nullptr);
  return status;
}

const char* attnfuzz_confine_zygote(void) {
  static std::string why;
  const auto reason = attnfuzz::worker::confine_zygote(attnfuzz::available_measures());
  why = reason.value_or("");
  return reason ? why.c_str() : nullptr;
}

void attnfuzz_compiling(int32_t begins) { attnfuzz::worker::compiling(begins != 0); }

int32_t attnfuzz_backend(void) { return attnfuzz::worker::kBackend; }
}
