// <cuda/pipeline>, <cuda/barrier> and <cuda_pipeline.h> on the executor: asynchronous copies of a thread or of
// a block, in their common uses. Copies land late or early, as the schedule says (schedule.h), like those of
// cp.async.
#pragma once

#include "kernels/cuda_source/cuda/api.h"
#include "kernels/cuda_source/cuda/cooperative_groups.h"
#include "kernels/executor/hopper.h"

inline void __pipeline_memcpy_async(void* shared, const void* global, size_t bytes, size_t zeros = 0,
                                    simt::Place here = simt::Place::now()) {
#if SIMT_ASAN
  for (size_t i = 0; i + zeros < bytes; ++i) (void)static_cast<const volatile char*>(global)[i];
#endif
  simt::copy_async(shared, global, static_cast<uint32_t>(bytes), static_cast<uint32_t>(bytes - zeros), here);
}
inline void __pipeline_commit() { simt::copy_commit(); }
inline void __pipeline_wait_prior(size_t groups) { simt::copy_wait(static_cast<uint32_t>(groups)); }

namespace cuda {

enum thread_scope { thread_scope_system, thread_scope_device, thread_scope_block, thread_scope_thread };

template <size_t kAlign>
struct aligned_size_t {
  size_t value;
  constexpr explicit aligned_size_t(size_t bytes) : value(bytes) {}
  constexpr operator size_t() const { return value; }
};

enum class pipeline_role { producer, consumer };

// The stages of a pipeline of a block. A stage is full when all threads have committed and their copies have
// landed, and empty when all have released it.
struct pipeline_stage {
  alignas(8) char full[8], empty[8];
};

template <thread_scope kScope, unsigned kStages>
struct pipeline_shared_state {
  static_assert(kScope == thread_scope_block,
                "cuda::pipeline: the executor has those of a thread and of a block");
  pipeline_stage stages[kStages];
};

// A pipeline of a block whose threads all produce and consume.
template <thread_scope kScope>
class pipeline {
 public:
  pipeline(pipeline_stage* stages, unsigned count) : stages_(stages), count_(count) {}
  void producer_acquire(simt::Place here = simt::Place::now()) {
    simt::mbarrier_wait(stages_[head_ % count_].empty, (head_ / count_ + 1) % 2, here);
  }
  void producer_commit(simt::Place here = simt::Place::now()) {
    simt::copy_commit_to(stages_[head_++ % count_].full, here);
  }
  // Waits for the oldest stage that was not released.
  void consumer_wait(simt::Place here = simt::Place::now()) {
    simt::mbarrier_wait(stages_[tail_ % count_].full, tail_ / count_ % 2, here);
    if (head_ > tail_) simt::copy_wait(head_ - tail_ - 1);
  }
  void consumer_release(simt::Place here = simt::Place::now()) {
    simt::mbarrier_arrive(stages_[tail_++ % count_].empty, here);
  }
  void quit() {}

 private:
  pipeline_stage* stages_;
  unsigned count_;
  unsigned head_ = 0, tail_ = 0;  // how many stages this thread has committed, and released
};

// A pipeline of one thread: groups of cp.async.
template <>
class pipeline<thread_scope_thread> {
 public:
  void producer_acquire() {}
  void producer_commit() {
    simt::copy_commit();
    ++under_way_;
  }
  // Waits for the oldest stage that was not waited for.
  void consumer_wait() {
    if (under_way_ > 0) simt::copy_wait(--under_way_);
  }
  void wait_prior(unsigned stages) {
    simt::copy_wait(stages);
    under_way_ = stages;
  }
  void consumer_release() {}
  void quit() {}

 private:
  unsigned under_way_ = 0;
};

inline pipeline<thread_scope_thread> make_pipeline() { return {}; }
template <class Group, thread_scope kScope, unsigned kStages>
inline pipeline<kScope> make_pipeline(const Group& group, pipeline_shared_state<kScope, kStages>* state,
                                      simt::Place here = simt::Place::now()) {
  if (group.thread_rank() == 0) {
    for (pipeline_stage& stage : state->stages) {
      simt::pipeline_barrier_init(stage.full, group.size(), here);
      simt::pipeline_barrier_init(stage.empty, group.size(), here);
    }
  }
  group.sync(here);
  return {state->stages, kStages};
}

template <unsigned kPrior>
inline void pipeline_consumer_wait_prior(pipeline<thread_scope_thread>& pipe) {
  pipe.wait_prior(kPrior);
}

namespace detail {

template <class Size>
inline void copy(void* to, const void* from, Size bytes, size_t first, size_t step_threads, simt::Place here) {
  const size_t count = bytes;
  const uintptr_t both = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from) | count;
  const size_t step = both % 16 == 0 ? 16 : both % 8 == 0 ? 8 : both % 4 == 0 ? 4 : 1;
  for (size_t at = first * step; at < count; at += step_threads * step) {
    char* out = static_cast<char*>(to) + at;
    const char* in = static_cast<const char*>(from) + at;
    if (step == 1) {
      *out = *in;
    } else {
      __pipeline_memcpy_async(out, in, step, 0, here);
    }
  }
}

}  // namespace detail

// A copy by one thread, and one by the threads of a group.
template <class T, class Size, thread_scope kScope>
inline void memcpy_async(T* to, const T* from, Size bytes, pipeline<kScope>&,
                         simt::Place here = simt::Place::now()) {
  detail::copy(to, from, bytes, 0, 1, here);
}
template <class Group, class T, class Size, thread_scope kScope>
inline void memcpy_async(const Group& group, T* to, const T* from, Size bytes, pipeline<kScope>&,
                         simt::Place here = simt::Place::now()) {
  detail::copy(to, from, bytes, group.thread_rank(), group.size(), here);
}

// A barrier of a block, in shared memory. A waiting thread lets others run until the phase is over.
template <thread_scope kScope>
class barrier {
 public:
  using arrival_token = unsigned;
  arrival_token arrive() {
    const arrival_token now = __atomic_load_n(&phase_, __ATOMIC_ACQUIRE);
    simt::copy_wait(0);  // the arrival includes the thread's copies
    if (__atomic_sub_fetch(&pending_, 1, __ATOMIC_ACQ_REL) == 0) {
      __atomic_store_n(&pending_, expected_, __ATOMIC_RELEASE);
      __atomic_store_n(&phase_, now + 1, __ATOMIC_RELEASE);
    }
    return now;
  }
  void wait(arrival_token token) const {
    while (__atomic_load_n(&phase_, __ATOMIC_ACQUIRE) == token) simt::yield();
  }
  void arrive_and_wait() { wait(arrive()); }
  friend void init(barrier* b, int count) {
    b->expected_ = b->pending_ = count;
    b->phase_ = 0;
  }

 private:
  int expected_, pending_;
  unsigned phase_;
};

template <class Group, class T, class Size, thread_scope kScope>
inline void memcpy_async(const Group& group, T* to, const T* from, Size bytes, barrier<kScope>&,
                         simt::Place here = simt::Place::now()) {
  detail::copy(to, from, bytes, group.thread_rank(), group.size(), here);
  simt::copy_commit();
}
template <class T, class Size, thread_scope kScope>
inline void memcpy_async(T* to, const T* from, Size bytes, barrier<kScope>&,
                         simt::Place here = simt::Place::now()) {
  detail::copy(to, from, bytes, 0, 1, here);
  simt::copy_commit();
}

}  // namespace cuda
