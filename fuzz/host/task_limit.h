// Limits the threads and processes of an untrusted worker by its own pids cgroup.
//
// If this process may make a cgroup (as root, or in a delegated one), a worker that starts too many threads
// gets EAGAIN. Otherwise the parent counts the worker's threads while it waits (WorkerProcess::threads).
//
//   TaskLimit limit(kMostTasks);
//   limit.take(pid);            // from now on its threads and children are limited
#pragma once

#include <sys/types.h>

#include <string>

namespace attnfuzz {

class TaskLimit {
 public:
  explicit TaskLimit(int most);
  // Removes the cgroup, which must have no process any more.
  ~TaskLimit();
  TaskLimit(const TaskLimit&) = delete;
  TaskLimit& operator=(const TaskLimit&) = delete;

  bool there() const { return !folder_.empty(); }
  // False if the process could not be limited, for instance because there is no cgroup.
  bool take(pid_t process) const;

 private:
  std::string folder_;
};

// The folder in which this process may make pids cgroups, by the texts of /proc/self/mountinfo and
// /proc/self/cgroup; empty if there is none. With cgroup v1 it is in the hierarchy of pids, with v2 in the
// process's own cgroup.
std::string pids_cgroup(const std::string& mountinfo, const std::string& cgroup);

}  // namespace attnfuzz
