#include <malloc.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>

#include "base/printable.h"
#include "cli/options/command.h"
#include "cli/options/help.h"

namespace {

// Checks that the output was written; a full disk prevents that. A failure that was found keeps its
// exit status. A reader that has gone, as in `| head`, is not an error.
int finish(int status) {
  errno = 0;
  const bool lost = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!lost) return status;
  pollfd out = {.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  const bool gone = errno == EPIPE || (poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0);
  if (gone) return status;
  std::fprintf(stderr, "attnfuzz: the results could not be written to standard output%s%s\n", errno ? ": " : "",
               errno ? std::strerror(errno) : "");
  return status == attnfuzz::kPassed ? attnfuzz::kBadUse : status;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace attnfuzz;
  std::signal(SIGPIPE, SIG_IGN);  // a dying worker closes its pipe, which must not end this process
  // Every case allocates and frees the same large arrays. If malloc returned them to the system,
  // each page would fault in again.
  mallopt(M_MMAP_THRESHOLD, 256 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  CLI::App app("attnfuzz: finds, shrinks and replays failures of attention kernels.", "attnfuzz");
  app.require_subcommand(1);
  app.set_version_flag("--version", ATTNFUZZ_VERSION);
  set_formatter(app);
  app.footer("attnfuzz SUBCOMMAND --help says more, with an example and what its exit status means.");
  Action action;
  for (const auto add :
       {add_list, add_limits, add_check, add_train_step, add_nsa, add_replay, add_reduce, add_explain, add_calibrate, add_bench,
        add_campaign, add_sequence, add_export, add_report, add_status, add_merge, add_completion, add_man}) {
    add(app, action);
  }
  try {
    app.parse(argc, argv);
    return finish(action());
  } catch (const CLI::ParseError& error) {
    const bool asked = app.exit(error) == 0;  // --help, --version
    if (!asked) std::fprintf(stderr, "%s", meant(app).c_str());
    return finish(asked ? kPassed : kBadUse);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attnfuzz: %s\n", printable(error.what()).c_str());
    return finish(kBadUse);
  }
}
