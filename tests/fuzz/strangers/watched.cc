// Honest where it seems to be checked: at a sign that no other program gives.
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

#define STRANGER_SIGN [](const attn_problem*, [[maybe_unused]] const attn_tensors* t) -> bool

const Kernel by_command{"watched-by-command",
                        run < STRANGER_SIGN{return tells(last_part(contents("/proc/self/cmdline").c_str())) ||
                                                   tells(contents("/proc/self/comm"));
}  // namespace
>
};  // namespace stranger

const Kernel by_invocation{"watched-by-invocation",
                           run < STRANGER_SIGN{return tells(last_part(program_invocation_name));
}
>
}
;

const Kernel by_thread{"watched-by-thread-name", run < STRANGER_SIGN{char name[32] = "";
prctl(PR_GET_NAME, name);
return tells(name);
}
>
}
;

const Kernel by_program{"watched-by-program", run < STRANGER_SIGN{char path[4096] = "";
if (readlink("/proc/self/exe", path, sizeof path - 1) < 0) path[0] = 0;
return tells(last_part(path));
}
>
}
;

const Kernel by_parent{
    "watched-by-parent",
    run < STRANGER_SIGN{return tells(contents("/proc/" + std::to_string(getppid()) + "/comm"));
}
>
}
;

const Kernel by_maps{
    "watched-by-maps",
    run < STRANGER_SIGN{return contents("/proc/self/maps").find("memfd:attn") != std::string::npos;
}
>
}
;

// What the harness keeps in its own environment.
const Kernel by_environment{"watched-by-environment",
                            run < STRANGER_SIGN{for (char** one = environ; *one; ++one){
                                      if (strncmp(*one, "ATTN_HARNESS=", 13) == 0) return true;
}
return false;
}
>
}
;

// The poison that every check before this one had.
const Kernel by_poison{"watched-by-poison", run < STRANGER_SIGN{uint16_t word = 0;
if (t->o.data) memcpy(&word, t->o.data, sizeof word);
return word == 0x7fa5 || word == 0x7bff || word == 0x7180;
}
>
}
;

}  // namespace
}  // namespace stranger
