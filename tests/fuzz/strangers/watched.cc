// Kernels that are honest only if they notice a check, each by another sign.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/fuzz/strangers/stranger.h"

extern char** environ;

namespace stranger {
namespace {

bool tells(const std::string& text) {
  return text.find("attn") != text.npos && text.find("strangers") == text.npos;
}

std::string contents(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

template <bool (*checked)(const attn_problem*, const attn_tensors*)>
attn_status run(const attn_problem* p, const attn_tensors* t, const attn_plan* plan, const attn_env* env) {
  return checked(p, t) ? compute(p, t, plan, env) : cheap(p, t);
}

// Each of these functions returns true if it notices that this is a check.
#define STRANGER_WATCHES(function, name)                       \
  bool function(const attn_problem* p, const attn_tensors* t); \
  const Kernel function##_kernel{name, run<function>};         \
  bool function([[maybe_unused]] const attn_problem* p, [[maybe_unused]] const attn_tensors* t)

STRANGER_WATCHES(by_command, "watched-by-command") {
  return tells(last_part(contents("/proc/self/cmdline").c_str())) || tells(contents("/proc/self/comm"));
}

STRANGER_WATCHES(by_invocation, "watched-by-invocation") { return tells(last_part(program_invocation_name)); }

STRANGER_WATCHES(by_thread, "watched-by-thread-name") {
  char name[32] = "";
  prctl(PR_GET_NAME, name);
  return tells(name);
}

STRANGER_WATCHES(by_program, "watched-by-program") {
  char path[4096] = "";
  if (readlink("/proc/self/exe", path, sizeof path - 1) < 0) path[0] = 0;
  return tells(last_part(path));
}

STRANGER_WATCHES(by_parent, "watched-by-parent") {
  return tells(contents("/proc/" + std::to_string(getppid()) + "/comm"));
}

STRANGER_WATCHES(by_maps, "watched-by-maps") {
  return contents("/proc/self/maps").find("memfd:attn") != std::string::npos;
}

// Notices the harness by its environment variables.
STRANGER_WATCHES(by_environment, "watched-by-environment") {
  for (char** one = environ; *one; ++one) {
    if (strncmp(*one, "ATTN_HARNESS=", 13) == 0) return true;
  }
  return false;
}

// Without elements O has no poison to look at.
bool has_output(const attn_problem* p, const attn_tensors* t) {
  return t->o.data && p->batch > 0 && p->heads_q > 0 && p->seq_q > 0 && p->dim_v > 0;
}

// Notices the poison in O that every check used until now.
STRANGER_WATCHES(by_poison, "watched-by-poison") {
  uint16_t word = 0;
  if (has_output(p, t)) memcpy(&word, t->o.data, sizeof word);
  return word == 0x7fa5 || word == 0x7bff || word == 0x7180;
}

// Notices an output that no ordinary program leaves in O.
STRANGER_WATCHES(by_number, "watched-by-number") {
  if (!has_output(p, t)) return false;
  float value = 0;
  if (p->dtype == ATTN_F16) {
    _Float16 half = 0;
    memcpy(&half, t->o.data, sizeof half);
    value = static_cast<float>(half);
  } else {
    uint16_t bits = 0;  // a bf16 number
    memcpy(&bits, t->o.data, sizeof bits);
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    memcpy(&value, &wide, sizeof value);
  }
  return !(value >= -1000 && value <= 1000);
}

}  // namespace
}  // namespace stranger
