// Lets threads take turns with an object that they share. The first thread to ask is the first to get it.
//
//   Turns turns;
//   {
//     const Turn mine = turns.take();  // waits for all who asked before; throws if this thread has the turn already
//     ...
//   }
//   const Turn none;  // a turn with an object that is not shared
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

namespace attnfuzz {

class Turns;

// Ends with its scope.
class Turn {
 public:
  Turn() = default;
  Turn(Turn&& other) noexcept : of_(std::exchange(other.of_, nullptr)) {}
  Turn& operator=(Turn&&) = delete;
  ~Turn();

 private:
  friend class Turns;
  explicit Turn(Turns* of) : of_(of) {}
  Turns* of_ = nullptr;
};

class Turns {
 public:
  Turn take() {
    std::unique_lock lock(mutex_);
    if (holder_ == std::this_thread::get_id()) throw std::logic_error("a thread that waits for its own turn");
    const uint64_t number = asked_++;
    changed_.wait(lock, [&] { return number == ended_; });
    holder_ = std::this_thread::get_id();
    return Turn(this);
  }
  // Threads that have asked and do not have it yet.
  uint64_t waiting() const {
    const std::lock_guard lock(mutex_);
    return asked_ - ended_ - (holder_ != std::thread::id() ? 1 : 0);
  }
  // True if this thread has the turn.
  bool mine() const {
    const std::lock_guard lock(mutex_);
    return holder_ == std::this_thread::get_id();
  }

 private:
  friend class Turn;
  void end() {
    {
      const std::lock_guard lock(mutex_);
      holder_ = {};
      ++ended_;
    }
    changed_.notify_all();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::thread::id holder_;
  uint64_t asked_ = 0, ended_ = 0;  // turns
};

inline Turn::~Turn() {
  if (of_) of_->end();
}

}  // namespace attnfuzz
