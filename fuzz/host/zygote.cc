#include "fuzz/host/zygote.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <system_error>

#include "base/subprocess.h"
#include "fuzz/host/confinement.h"
#include "kernels/attention.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

constexpr int kSocketFd = 3;

// The folder of the package attnfuzz: it holds bin/ in a wheel, and is beside bin/ in a build tree.
fs::path package_root() {
  const fs::path home = program_folder().parent_path();
  std::error_code error;
  for (const fs::path& root : {home.parent_path(), home / "python"}) {
    if (fs::exists(root / "attnfuzz" / "worker.py", error)) return root;
  }
  return "";
}

}  // namespace

bool is_python(const std::string& path) { return path.ends_with(".py"); }

std::string host_library(int32_t backend) {
  const fs::path path = program_folder().parent_path() / "lib" /
                        (std::string("libattnfuzz-hosted-") + (backend == ATTN_CUDA ? "cuda" : "cpu") + ".so");
  std::error_code error;
  return fs::exists(path, error) ? path.string() : "";
}

Zygote& zygote_of(const std::string& file, bool confined) {
  static std::map<std::pair<std::string, bool>, Zygote> zygotes;
  return zygotes.try_emplace({file, confined}, file, confined).first->second;
}

Zygote::~Zygote() { close_all(); }

void Zygote::close_all() {
  for (int* fd : {&socket_, &output_}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
  // The zygote ends when no process can send it requests any more. A fork of this process may still do so.
  if (pid_ > 0 && started_by_ == getpid()) waitpid(pid_, nullptr, WNOHANG);
  pid_ = -1;
}

void Zygote::start() {
  close_all();
  const fs::path root = package_root();
  if (root.empty())
    throw std::runtime_error(
        "the Python package attnfuzz is not beside this program: build it (python-package)");
  const char* given = std::getenv("ATTNFUZZ_PYTHON");
  const std::string python = given && *given ? given : "python3";
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw_errno("socketpair");
  socket_ = ends[0];
  output_ = memfd_create("attnfuzz-zygote", MFD_CLOEXEC);
  if (output_ < 0) throw_errno("memfd_create");
  fcntl(output_, F_SETFL, O_APPEND);
  const int high = fcntl(ends[1], F_DUPFD_CLOEXEC, 64), printed = fcntl(output_, F_DUPFD_CLOEXEC, 64);
  close(ends[1]);
  started_by_ = getpid();
  // sys.path's '' is the current folder, which may belong to the untrusted submission.
  const std::string boot =
      confined_ ? "import sys; sys.path = sys.argv[1:2] + [p for p in sys.path if p]; "
                  "from attnfuzz.worker import zygote; zygote(sys.argv[2], confined_by=sys.argv[3])"
                : "import sys; sys.path.insert(0, sys.argv[1]); from attnfuzz.worker import zygote; "
                  "zygote(sys.argv[2])";
  std::vector<std::string> environment;
  if (confined_) {
    environment = bare_environment();
    for (const char* name : {"PYTHONPATH", "PYTHONHOME", "ATTNFUZZ_READABLE", "ATTNFUZZ_POISON"}) {
      if (const char* value = std::getenv(name)) environment.push_back(std::string(name) + "=" + value);
    }
  } else {
    for (char** one = environ; *one != nullptr; ++one) environment.emplace_back(*one);
  }
  // The thread cache of malloc hands memory out again without poison (attnfuzz/poison.py).
  if (std::getenv("GLIBC_TUNABLES") == nullptr)
    environment.emplace_back("GLIBC_TUNABLES=glibc.malloc.tcache_count=0");
  SpawnOptions options = {
      .descriptors = {{printed, STDOUT_FILENO}, {printed, STDERR_FILENO}, {high, kSocketFd}},
      .close_from = kSocketFd + 1,
      .no_input = true,
      .own_group = true,
      .environment = &environment};
  try {
    pid_ = spawn_program({python, "-c", boot, root.string(), file_, host_library(ATTN_CPU)}, options);
  } catch (...) {
    close(high);
    close(printed);
    throw;
  }
  close(high);
  close(printed);
}

bool Zygote::send(const std::string& words, const std::array<int, kDescriptors>& descriptors) {
  iovec text = {const_cast<char*>(words.data()), words.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kDescriptors)] = {};
  msghdr message = {};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * kDescriptors);
  memcpy(CMSG_DATA(header), descriptors.data(), sizeof(int) * kDescriptors);
  ssize_t n;
  while ((n = sendmsg(socket_, &message, MSG_NOSIGNAL)) < 0 && errno == EINTR) {
  }
  return n == static_cast<ssize_t>(words.size());
}

void Zygote::fork_worker(const std::string& library, const std::string& kernel,
                         const std::array<int, kDescriptors>& descriptors) {
  const std::string words = library + '\0' + kernel;
  if (socket_ >= 0 && send(words, descriptors)) return;
  start();
  if (!send(words, descriptors)) throw_errno("the zygote cannot be asked for a worker");
}

std::string Zygote::output() const {
  char text[4096];
  const off_t size = output_ < 0 ? 0 : lseek(output_, 0, SEEK_END);
  const off_t from = size > static_cast<off_t>(sizeof text) ? size - static_cast<off_t>(sizeof text) : 0;
  const ssize_t n = size > 0 ? pread(output_, text, sizeof text, from) : 0;
  return std::string(text, n > 0 ? static_cast<size_t>(n) : 0);
}

}  // namespace attnfuzz
