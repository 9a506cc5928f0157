// A process that has imported a Python file and forks workers from itself on request: an import takes seconds,
// a fork milliseconds.
//
//   zygote_of("/home/me/sdpa.py").fork_worker(host_library(ATTN_CPU), "efficient", descriptors);
//
// If workers are confined, the zygote does not import the file, because it is not confined itself. It imports
// the installed modules that the file names, and each worker imports the file.
//
// It never runs a kernel and never uses a device. The process that starts it, and all forks of that
// process, may request workers. It ends when the last of these processes has gone. If it dies, the
// next request starts another. A worker's supervisor (worker/supervisor.h) is the zygote's child,
// not ours, so we reach it only through wire::kStatusFd.
#pragma once

#include <sys/types.h>

#include <array>
#include <string>

namespace attnfuzz {

class Zygote {
 public:
  // A file NAME.py, by an absolute path. Nothing is started yet.
  Zygote(std::string file, bool confined) : file_(std::move(file)), confined_(confined) {}
  ~Zygote();
  Zygote(const Zygote&) = delete;
  Zygote& operator=(const Zygote&) = delete;

  // Forks a worker that loads `host_library` (worker/hosted.h) and finds these
  // descriptors at 1 and 2, and at kWireFd to kStatusFd (wire.h). Throws
  // std::system_error, or std::runtime_error with Python's message, if no zygote can be started.
  static constexpr int kDescriptors = 6;
  void fork_worker(const std::string& host_library, const std::string& kernel,
                   const std::array<int, kDescriptors>& descriptors);

  // The zygote's output, to be shown if a worker did not start.
  std::string output() const;

 private:
  void start();
  bool send(const std::string& words, const std::array<int, kDescriptors>& descriptors);
  void close_all();

  std::string file_;
  bool confined_;
  int socket_ = -1, output_ = -1;
  pid_t pid_ = -1, started_by_ = -1;
};

// The zygote for a file, shared by this process and its forks. Later kernels of the same file need
// no new import.
Zygote& zygote_of(const std::string& file, bool confined);

// True if a path names a file of Python kernels.
bool is_python(const std::string& path);
// The library that hosts workers for a back end in Python; empty: this build has none.
std::string host_library(int32_t backend);

}  // namespace attnfuzz
