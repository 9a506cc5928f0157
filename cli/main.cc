#include <csignal>
#include <cstdio>
#include <exception>

#include "cli/command.h"

int main(int argc, char** argv) {
  using namespace attnfuzz;
  std::signal(SIGPIPE, SIG_IGN);  // a worker that dies closes its pipe: that is an answer, not our end
  CLI::App app("attnfuzz: finds, shrinks and replays failures of attention kernels.", "attnfuzz");
  app.require_subcommand(1);
  app.set_version_flag("--version", ATTNFUZZ_VERSION);
  Action action;
  for (const auto add : {add_list, add_check, add_replay, add_reduce, add_explain, add_calibrate, add_bench,
                         add_campaign, add_export, add_report, add_status, add_merge}) {
    add(app, action);
  }
  try {
    app.parse(argc, argv);
    return action();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kHeld : kBadUse;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attnfuzz: %s\n", error.what());
    return kBadUse;
  }
}
