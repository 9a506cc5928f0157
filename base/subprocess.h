// Starts programs, collects their output, and says how they ended. (processes.h
// has children that are forked.)
//
//   Ran ran = run_program({"c++filt", name}, {.take_output = true, .silent = true});
//   if (ran.status != 0) complain(describe_status(ran.status));
//
// This header includes no other header of ours: workers and build tools compile it too.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace attnfuzz {

struct SpawnOptions {
  std::vector<std::pair<int, int>> descriptors = {};  // {our number, the child's number}
  int close_from = -1;                                // the child inherits no descriptor from this number on
  bool no_input = false;                              // the child's standard input is empty
  bool silent = false;                                // the child's standard error is discarded
  // True: the child gets its own process group, which can be killed as a whole, and default signal
  // handling.
  bool own_group = false;
  std::string directory = {};                             // the child's working directory; empty: ours
  std::string name = {};                                  // the child's argv[0]; empty: words[0]
  const std::vector<std::string>* environment = nullptr;  // "NAME=value"; null: ours
};

// Looks for words[0] on the PATH if it has no '/'. Throws std::system_error if it cannot be started.
pid_t spawn_program(const std::vector<std::string>& words, const SpawnOptions& options = {});

// A status as waitpid() gives it: "SIGSEGV", "exit status 3".
std::string describe_status(int status);

// Waits until the child ends, also if signals interrupt the wait. Returns the status.
int wait_for_child(pid_t pid);

struct RunOptions {
  bool take_output = false;  // into Ran::output; otherwise it goes to our output
  bool silent = false;
  size_t most = ~size_t{0};  // bytes of output that are kept
  std::string directory = {};
};

struct Ran {
  int status = -1;  // as waitpid() gives it; -1: it could not be started
  std::string output;
};

// The folder of the running program. Everything installed with it lies at fixed paths from there.
std::filesystem::path program_folder();

// Throws errno as a std::system_error about `what`.
[[noreturn]] void throw_errno(const char* what);

Ran run_program(const std::vector<std::string>& words, const RunOptions& options = {});

}  // namespace attnfuzz
