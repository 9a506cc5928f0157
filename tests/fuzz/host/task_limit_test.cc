#include "fuzz/host/task_limit.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace attnfuzz {
namespace {

constexpr const char* kV1 =
    "30 25 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "31 25 0:27 / /sys/fs/cgroup/pids rw,relatime shared:9 - cgroup cgroup rw,pids\n"
    "32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

TEST(PidsCgroup, PrefersVersion1) {
  EXPECT_EQ(pids_cgroup(kV1, "9:cpu:/\n8:pids:/job/7\n0::/other\n"), "/sys/fs/cgroup/pids/job/7");
  EXPECT_EQ(pids_cgroup(kV1, "8:pids:/\n"), "/sys/fs/cgroup/pids");
}

TEST(PidsCgroup, TakesVersion2IfThereIsNoVersion1) {
  const char* mounts = "32 25 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(pids_cgroup(mounts, "0::/user.slice/session\n"), "/sys/fs/cgroup/user.slice/session");
}

// In a container the mount's root is the container's own cgroup.
TEST(PidsCgroup, LeavesOutTheRootOfTheMount) {
  const char* mounts = "31 25 0:27 /docker/1 /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
  EXPECT_EQ(pids_cgroup(mounts, "8:pids:/docker/1/worker\n"), "/sys/fs/cgroup/pids/worker");
}

TEST(PidsCgroup, IsNoneWithoutAHierarchy) {
  EXPECT_EQ(pids_cgroup("", "8:pids:/\n"), "");
  EXPECT_EQ(pids_cgroup(kV1, ""), "");
  EXPECT_EQ(pids_cgroup("nonsense\n", "nonsense\n"), "");
}

// A child process that waits, and then tries to fork. Its exit status is 0 if it can fork, and 1 if not.
pid_t child_that_forks(int& start) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    char go = 0;
    close(ends[1]);
    [[maybe_unused]] const ssize_t n = read(ends[0], &go, 1);
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(0);
    _exit(grandchild < 0 ? 1 : 0);
  }
  close(ends[0]);
  start = ends[1];
  return child;
}

TEST(TaskLimit, LetsNoMoreProcessesBegin) {
  const TaskLimit limit(1);
  int start = -1, status = 0;
  const pid_t child = child_that_forks(start);
  ASSERT_GT(child, 0);
  EXPECT_EQ(limit.take(child), limit.there());
  close(start);
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), limit.there() ? 1 : 0);
}

}  // namespace
}  // namespace attnfuzz
