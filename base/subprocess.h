// Programs that are started: the one way to start them, to take down what they
// print, and to say how they ended. (processes.h has children that are forks.)
//
//   Ran ran = run_program({"c++filt", name}, {.take_output = true, .silent = true});
//   if (ran.status != 0) complain(describe_status(ran.status));
//
// It stands alone: the workers' guard and the build's own tools use it too.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace attnfuzz {

struct SpawnOptions {
  std::vector<std::pair<int, int>> descriptors = {};  // {ours, the number it finds it at}
  int close_from = -1;                                // it finds none from this number on
  bool no_input = false;                              // its input is empty
  bool silent = false;                                // its errors go nowhere
  // A group of its own, to be killed with whatever it starts; and signals as at a program's start.
  bool own_group = false;
  std::string directory = {};                             // to begin in; empty: ours
  std::string name = {};                                  // its argv[0]; empty: words[0]
  const std::vector<std::string>* environment = nullptr;  // "NAME=value"; null: ours
};

// Looks for words[0] on the PATH if it has no '/'. Throws std::system_error if it cannot be started.
pid_t spawn_program(const std::vector<std::string>& words, const SpawnOptions& options = {});

// A status as waitpid() gives it: "SIGSEGV", "exit status 3".
std::string describe_status(int status);

// Waits, whatever interrupts it.
int wait_for_child(pid_t pid);

struct RunOptions {
  bool take_output = false;  // into Ran::output; else it goes where ours goes
  bool silent = false;
  size_t most = ~size_t{0};  // bytes of output that are kept
  std::string directory = {};
};

struct Ran {
  int status = -1;  // as waitpid() gives it; -1: it could not be started
  std::string output;
};

// The folder of the program that is running; what was installed with it lies around that.
std::filesystem::path program_folder();

// What errno says of `what`, as std::system_error.
[[noreturn]] void throw_errno(const char* what);

Ran run_program(const std::vector<std::string>& words, const RunOptions& options = {});

}  // namespace attnfuzz
