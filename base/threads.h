// Runs work(0), ..., work(count - 1), each in a thread of its own, and rethrows the first exception.
//
//   in_threads(jobs, [&](int job) { while (const auto n = next()) judge(*n, kernels[job]); });
//
// Each thread ends only when all have finished: a process that a thread has started, such as a worker, is
// killed when that thread ends.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

namespace attnfuzz {

inline void in_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::exception_ptr> thrown(static_cast<size_t>(count));
  std::latch all_done(count);
  {
    std::vector<std::jthread> threads;
    for (int n = 0; n < count; ++n) {
      threads.emplace_back([&, n] {
        try {
          work(n);
        } catch (...) {
          thrown[static_cast<size_t>(n)] = std::current_exception();
        }
        all_done.arrive_and_wait();
      });
    }
  }
  for (const std::exception_ptr& one : thrown) {
    if (one) std::rethrow_exception(one);
  }
}

}  // namespace attnfuzz
