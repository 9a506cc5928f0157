// A child process of the supervisor: forked, watched, ended.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

namespace attnfuzz {

// How a child ended: "SIGKILL", "exit status 1"; empty: well.
struct Ending {
  std::string how;
};

// Runs `work` in a child, which ends with status 0, or with 1 and *message (in
// shared memory, `room` bytes) if it throws. The child dies with this process,
// and leaves the signals of Interrupts, which are blocked here, to it.
pid_t start_child(const std::function<void()>& work, char* message, size_t room);

// Nothing while it runs.
std::optional<Ending> ended(pid_t pid);
// Kills it and waits for it.
void end_child(pid_t pid);

// Bytes of memory it holds itself; 0 if that cannot be found out.
double resident_bytes(pid_t pid);

// SIGINT, SIGTERM and SIGHUP (unless that is ignored, as under nohup) as a question,
// while this lives.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;
  bool came() const { return signal() != 0; }
  int signal() const;  // the first that came; 0: none

 private:
  int fd_ = -1;
  mutable int signal_ = 0;
  unsigned char old_mask_[128];
};

}  // namespace attnfuzz
