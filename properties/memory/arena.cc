#include "properties/memory/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>

namespace attnfuzz {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), "guarded memory: " + what);
}

// Reserves kFence bytes of addresses for the arena, and returns where it begins.
std::byte* fence() {
  static_assert(Arena::kBytes <= Arena::kFence - Arena::kFenceBefore);
  void* all = mmap(nullptr, 2 * Arena::kFence, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED)
    fail("cannot reserve " + std::to_string(2 * Arena::kFence >> 40) +
         " TiB of address space; raise `ulimit -v`");
  auto* const begin = static_cast<std::byte*>(all);
  const uint64_t below = -reinterpret_cast<uintptr_t>(begin) & (Arena::kFence - 1);
  if (below > 0) munmap(begin, below);
  munmap(begin + below + Arena::kFence, Arena::kFence - below);
  return begin + below + Arena::kFenceBefore;
}

std::byte* map(int fd, bool fenced = false) {
  // Only touched pages exist; NORESERVE keeps the rest out of the commit charge.
  void* base = mmap(fenced ? fence() : nullptr, Arena::kBytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_NORESERVE | (fenced ? MAP_FIXED : 0), fd, 0);
  if (base == MAP_FAILED) {
    fail("cannot map " + std::to_string(Arena::kBytes >> 30) +
         " GiB of address space; raise `ulimit -v` and vm.overcommit_memory must not be 2");
  }
  // With huge pages, one touched byte would cost 2 MiB, and a core dump would contain the whole mapping. Not
  // every Linux kernel knows these flags, and correctness does not need them.
  (void)madvise(base, Arena::kBytes, MADV_NOHUGEPAGE);
  (void)madvise(base, Arena::kBytes, MADV_DONTDUMP);
  auto* bytes = static_cast<std::byte*>(base);
  for (uint64_t fence = 0; fence < Arena::kBytes; fence += Arena::kSlotBytes + Arena::kPage) {
    if (mprotect(bytes + fence, Arena::kPage, PROT_NONE) != 0) {
      const int why = errno;
      munmap(base, Arena::kBytes);
      errno = why;
      fail("cannot unmap the page beside a slot");
    }
  }
  return bytes;
}

}  // namespace

Arena::Arena() : owned_(true) {
  fd_ = memfd_create("shared", MFD_CLOEXEC);
  if (fd_ < 0) fail("cannot create an anonymous file");
  try {
    if (ftruncate(fd_, static_cast<off_t>(kBytes)) != 0)
      fail("cannot size the anonymous file; see `ulimit -f`");
    base_ = map(fd_);
  } catch (...) {
    close(fd_);
    throw;
  }
}

Arena::Arena(int fd, bool fenced) : fd_(fd) {
  struct stat status;
  if (fstat(fd, &status) != 0) fail("file descriptor " + std::to_string(fd) + " is not open");
  if (static_cast<uint64_t>(status.st_size) != kBytes) {
    throw std::system_error(EINVAL, std::generic_category(),
                            "guarded memory: file descriptor " + std::to_string(fd) + " holds " +
                                std::to_string(status.st_size) + " bytes, not an arena's " +
                                std::to_string(kBytes) + "; was it made by another version?");
  }
  base_ = map(fd, fenced);
}

Arena::~Arena() {
  if (base_) munmap(base_, kBytes);
  if (owned_ && fd_ >= 0) close(fd_);
}

uint64_t Arena::offset(const void* p) const {
  if (!p) return kNowhere;
  const auto at = reinterpret_cast<uintptr_t>(p) - reinterpret_cast<uintptr_t>(base_);
  // One past the end is a valid address for an empty tensor.
  if (at > kBytes) throw std::out_of_range("the offset of an address outside guarded memory was requested");
  return at;
}

void* Arena::at(uint64_t offset) const {
  if (offset == kNowhere) return nullptr;
  if (offset > kBytes)
    throw std::out_of_range("offset " + std::to_string(offset) + " is outside guarded memory");
  return base_ + offset;
}

bool Arena::keep(TensorId t, const std::byte* begin, const std::byte* end) {
  const auto n = static_cast<size_t>(t);
  const std::byte* const lead = slot(t) + kLead;
  if (end > lead - kPage && end <= lead)
    kept_[n] = std::max(kept_[n], static_cast<uint64_t>(lead - begin));
  else if (end == slot_end(t))
    kept_at_end_[n] = std::max(kept_at_end_[n], static_cast<uint64_t>(end - begin));
  else
    return false;
  return true;
}

uint64_t Arena::existing() const {
  struct stat status;
  if (fstat(fd_, &status) != 0) fail("cannot find out how much of the anonymous file exists");
  return static_cast<uint64_t>(status.st_blocks) * 512;
}

std::optional<Arena::Part> Arena::first_existing(uint64_t begin, uint64_t end) const {
  if (begin >= end) return std::nullopt;
  const off_t data = lseek(fd_, static_cast<off_t>(begin), SEEK_DATA);
  if (data < 0 || static_cast<uint64_t>(data) >= end) return std::nullopt;
  const uint64_t from = static_cast<uint64_t>(data) / kPage * kPage;
  const off_t hole = lseek(fd_, static_cast<off_t>(from), SEEK_HOLE);
  return Part{from, hole < 0 ? end : std::min(end, (static_cast<uint64_t>(hole) + kPage - 1) / kPage * kPage)};
}

void Arena::for_each_new_page(TensorId t, const std::function<void(std::byte*)>& visit) const {
  const auto n = static_cast<size_t>(t);
  const uint64_t begin = slot_offset(t), end = begin + kSlotBytes;
  const uint64_t lead = begin + kLead, kept = (lead - kept_[n]) / kPage * kPage,
                 kept_at_end = (end - kept_at_end_[n]) / kPage * kPage;
  for (auto part = first_existing(begin, end); part; part = first_existing(part->end, end)) {
    for (uint64_t at = part->begin; at < part->end; at += kPage) {
      const bool is_kept = (at >= kept && at < lead) || at >= kept_at_end;
      if (!is_kept) visit(base_ + at);
    }
  }
}

void Arena::give_back(uint64_t begin, uint64_t end) {
  if (fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(begin),
                static_cast<off_t>(end - begin)) != 0)
    fail("cannot give pages back");
}

void Arena::forget_page(std::byte* page) { give_back(offset(page), offset(page) + kPage); }

void Arena::forget(TensorId t) {
  kept_[static_cast<size_t>(t)] = kept_at_end_[static_cast<size_t>(t)] = 0;
  const uint64_t end = slot_offset(t) + kSlotBytes;
  // If a whole slot is given back at once, the system looks through the page tables of every place in it that an
  // earlier case has touched, here and in the worker. That takes longer and longer: a millisecond after some
  // thousand cases.
  int parts = 0;
  for (auto part = first_existing(slot_offset(t), end); part; part = first_existing(part->end, end)) {
    if (++parts > kMostParts) return give_back(part->begin, end);
    give_back(part->begin, part->end);
  }
}

}  // namespace attnfuzz
