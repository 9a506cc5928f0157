// Tests that workers leave no zombies, no descriptors and no orphans.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "tests/fuzz/fakes/open_fake.h"

namespace attnfuzz {
namespace {

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

std::vector<pid_t> children_of(pid_t parent) {
  const std::string id = std::to_string(parent);
  std::ifstream in("/proc/" + id + "/task/" + id + "/children");
  return {std::istream_iterator<pid_t>(in), {}};
}

// Has the process ended? It may still be a zombie that its new parent has not reaped yet.
bool gone(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string id, name, state;
  return !(in >> id >> name >> state) || state == "Z" || state == "X";
}

bool soon(auto condition) {
  for (int i = 0; i < 500; ++i) {
    if (condition()) return true;
    usleep(10'000);
  }
  return false;
}

TEST(WorkerProcesses, LeaveNothingAfterManyRestarts) {
  const size_t before = open_descriptors();
  {
    FakeCall call("null");
    call.run();
    const size_t running = open_descriptors();
    const auto start = std::chrono::steady_clock::now();
    constexpr int kRestarts = 200;
    for (int i = 0; i < kRestarts; ++i) EXPECT_TRUE(call.run().crash);
    const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("a crash and a new worker: %.2f ms\n", s / kRestarts * 1e3);
    EXPECT_EQ(open_descriptors(), running);
    EXPECT_TRUE(children_of(getpid()).empty()) << "the last worker was reaped with its crash";
  }
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(WorkerProcesses, TakeTheirChildrenWithThem) {
  // The fake forks a child that sleeps for ever. If it outlived the worker, init or this test would adopt it.
  FakeCall call("fork-hang");
  const auto workers = children_of(children_of(getpid()).at(0));  // this process's child is the supervisor
  ASSERT_EQ(workers.size(), 1u);
  EXPECT_TRUE(call.run().crash);
  EXPECT_TRUE(soon([&] { return kill(-workers[0], 0) != 0; })) << "its group still has a process";
}

TEST(WorkerProcesses, TakeProcessesOfOtherSessionsWithThem) {
  for (const bool crashes : {false, true}) {
    FakeCall call("daemon");
    auto* const who = static_cast<pid_t*>(call.tensors.o.data);
    *who = 0;
    ASSERT_EQ(call.run().status, ATTN_OK);
    const pid_t daemon = *who;
    ASSERT_FALSE(gone(daemon));
    if (crashes) {
      kill(children_of(children_of(getpid()).at(0)).at(0), SIGSEGV);
      *who = 1;
      EXPECT_TRUE(call.run().crash);
    } else {
      call.target.reset();
    }
    EXPECT_TRUE(gone(daemon)) << crashes;
  }
}

TEST(WorkerProcesses, ContinueWhenTheirKernelStopsItsParent) {
  FakeCall call("stop-parent");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(call.run().status, ATTN_OK);
  const pid_t supervisor = children_of(getpid()).at(0);
  call.target.reset();
  EXPECT_TRUE(gone(supervisor));
}

TEST(WorkerProcesses, DieWithTheirParent) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    FakeCall call("hang");
    char byte = 1;
    if (write(ready[1], &byte, 1) != 1) _exit(1);
    call.target->run(Stage::kAll, call.problem, call.tensors, call.planned, call.env, 0);
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const auto supervisors = children_of(parent);
  ASSERT_EQ(supervisors.size(), 1u);
  const auto workers = children_of(supervisors[0]);
  ASSERT_EQ(workers.size(), 1u);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  EXPECT_TRUE(soon([&] { return gone(supervisors[0]) && gone(workers[0]); }));
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace attnfuzz
