// Child processes that are forked: started, watched and ended.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>

namespace attnfuzz {

// The end of a child: `how` is "SIGKILL" or "exit status 1", or empty if the child ended with status 0.
struct Ending {
  std::string how;
};

// Runs `work` in a forked child. The child ends with status 0; if `work` throws, it
// ends with 1 and writes the message to *message (shared memory, `room` bytes). It
// dies with this process. Signals that Interrupts blocks stay blocked in the child; the parent handles them.
pid_t start_child(const std::function<void()>& work, char* message, size_t room);

// Empty while the child runs.
std::optional<Ending> ended(pid_t pid);
// Kills the child and waits for it.
void end_child(pid_t pid);

// Bytes of private memory; 0 if they cannot be read.
double resident_bytes(pid_t pid);

// While this object lives, SIGINT, SIGTERM and SIGHUP do not end the process: came() reports them.
// SIGHUP stays ignored if it was, as under nohup.
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
