#include "base/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

extern char** environ;

namespace attnfuzz {

pid_t spawn_program(const std::vector<std::string>& words, const SpawnOptions& options) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  if (options.no_input) posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (options.silent) posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  for (const auto& [ours, its] : options.descriptors) posix_spawn_file_actions_adddup2(&files, ours, its);
  if (options.close_from >= 0) posix_spawn_file_actions_addclosefrom_np(&files, options.close_from);
  if (!options.directory.empty()) posix_spawn_file_actions_addchdir_np(&files, options.directory.c_str());
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  if (options.own_group) {
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
  }
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  if (!options.name.empty()) argv[0] = const_cast<char*>(options.name.c_str());
  std::vector<char*> environment;
  if (options.environment != nullptr) {
    for (const std::string& one : *options.environment) environment.push_back(const_cast<char*>(one.c_str()));
    environment.push_back(nullptr);
  }
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, words[0].c_str(), &files, &attributes, argv.data(),
                                 options.environment != nullptr ? environment.data() : environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) throw std::system_error(error, std::generic_category(), "cannot start " + words[0]);
  return pid;
}

std::string describe_status(int status) {
  if (!WIFSIGNALED(status)) return "exit status " + std::to_string(WEXITSTATUS(status));
  const char* name = sigabbrev_np(WTERMSIG(status));
  return name ? std::string("SIG") + name : "signal " + std::to_string(WTERMSIG(status));
}

int wait_for_child(pid_t pid) {
  int status = -1;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

Ran run_program(const std::vector<std::string>& words, const RunOptions& options) {
  Ran ran;
  int fds[2] = {-1, -1};
  if (options.take_output && pipe2(fds, O_CLOEXEC) != 0) return ran;
  std::fflush(nullptr);
  SpawnOptions spawn = {
      .no_input = options.take_output, .silent = options.silent, .directory = options.directory};
  if (options.take_output) spawn.descriptors = {{fds[1], STDOUT_FILENO}};
  pid_t pid = -1;
  try {
    pid = spawn_program(words, spawn);
  } catch (const std::system_error&) {
  }
  if (options.take_output) {
    close(fds[1]);
    char buffer[1 << 16];
    for (;;) {
      const ssize_t n = pid < 0 ? 0 : read(fds[0], buffer, sizeof buffer);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      ran.output.append(buffer, std::min(static_cast<size_t>(n), options.most - ran.output.size()));
    }
    close(fds[0]);
  }
  if (pid >= 0) ran.status = wait_for_child(pid);
  return ran;
}

std::filesystem::path program_folder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

void throw_errno(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

}  // namespace attnfuzz
