#include "fuzz/campaign/store/jobs/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "base/hash.h"
#include "fuzz/campaign/store/coverage_file.h"
#include "fuzz/campaign/store/jobs/corpus_view.h"
#include "fuzz/campaign/store/machine.h"
#include "properties/judge/situations.h"

namespace attnfuzz {
namespace {

namespace fs = std::filesystem;

void note_builds(CampaignHeader& header, const std::vector<CampaignTarget>& targets, Session& session) {
  for (const CampaignTarget& target : targets) {
    const TargetRecord& now = target.record;
    session.builds[now.name] = now.build;
    if (!now.no_sequences.empty())
      session.notes.push_back(now.name + ": no sequences of calls: " + now.no_sequences);
    const auto old = std::ranges::find(header.targets, now.name, &TargetRecord::name);
    if (old == header.targets.end()) {
      if (!header.sessions.empty()) session.notes.push_back(now.name + " is new to this campaign");
      header.targets.push_back(now);
      continue;
    }
    if (old->build != now.build) {
      session.notes.push_back(now.name + " was built anew: " + old->build.substr(0, 12) + " -> " +
                              now.build.substr(0, 12) + "; findings and corpus of the old build are kept");
    }
    *old = now;
  }
  for (const TargetRecord& old : header.targets) {
    if (find_target(targets, old.name) == nullptr)
      session.notes.push_back(old.name + " is left out of this session");
  }
}

double time_so_far(const std::string& dir, const CampaignHeader& header) {
  double t = 0;
  for (const Session& session : header.sessions) t = std::max(t, session.from + session.seconds);
  for (int shard : shards_of(dir)) {
    const std::vector<SeriesLine> lines = read_series(dir, shard);
    if (!lines.empty()) t = std::max(t, lines.back().t);
  }
  return t;
}

// The new session begins where the last one stopped. If the last one was broken off, the new one lasts at most
// the remaining time.
void follow(const std::string& dir, CampaignHeader& header, Session& session) {
  session.from = time_so_far(dir, header);
  Session& last = header.sessions.back();
  const double lasted = session.from - last.from, left = last.asked - lasted;
  if (last.ended.empty()) {
    last.seconds = lasted;
    last.ended = "killed";
  }
  if (last.ended != "time" && left > 0 && left < session.asked) {
    session.asked = left;
    session.notes.push_back("continues a session that was broken off");
  }
}

void make_folders(const std::string& dir, const std::vector<CampaignTarget>& targets) {
  for (const char* folder :
       {"/shards", "/corpus", "/crashing", "/findings", "/never_again", "/canary", "/suspicious"})
    fs::create_directories(dir + folder);
  for (const CampaignTarget& target : targets) {
    if (!target.record.seeded_bug) fs::create_directories(dir + "/corpus/" + target.folder);
  }
  // Removes folders that a kill left incomplete.
  for (const auto& entry : fs::directory_iterator(dir + "/crashing")) {
    if (entry.path().filename().string().starts_with('.')) fs::remove_all(entry.path());
  }
}

}  // namespace

FolderLock::FolderLock(const std::string& dir) {
  const std::string path = dir + "/lock";
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "cannot open " + path);
  // Jobs of a killed supervisor hold the lock until they end.
  for (int tries = 0; tries < 20; ++tries) {
    if (::flock(fd_, LOCK_EX | LOCK_NB) == 0) {
      const std::string holder = std::to_string(::getpid()) + " " + this_machine().host + "\n";
      // Only `status` needs this, so a campaign continues without it on a full disk.
      if (::ftruncate(fd_, 0) == 0 && ::pwrite(fd_, holder.data(), holder.size(), 0) < 0) errno = 0;
      return;
    }
    ::usleep(100'000);
  }
  ::close(fd_);
  throw std::runtime_error("another campaign works in " + dir + ": end it first, or use another folder");
}

FolderLock::~FolderLock() { ::close(fd_); }

FolderHolder holder_of(const std::string& dir) {
  FolderHolder holder;
  const int fd = ::open((dir + "/lock").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return holder;
  holder.works = ::flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  char text[512] = {};
  if (::pread(fd, text, sizeof text - 1, 0) > 0) std::istringstream(text) >> holder.pid >> holder.host;
  ::close(fd);
  return holder;
}

std::string situation_table() {
  uint64_t hash = text_hash("");
  for (uint16_t id = 0; id < situation_count(); ++id) hash = text_hash(situation_name(id) + "\n", hash);
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

namespace {

// Throws if a shard has lost its statistics: a job would begin anew under its number, and the loss would not
// show.
void expect_stats(const std::string& dir, const CampaignHeader& header) {
  for (const Session& session : header.sessions) {
    for (const int n : session.shards) {
      if (!has_stats(dir, n))
        throw std::runtime_error(shard_dir(dir, n) +
                                 "/stats.json is missing: restore a copy of it, or use another folder");
    }
  }
}

}  // namespace

CampaignHeader begin_session(const CampaignOptions& options, const std::vector<CampaignTarget>& targets) {
  const std::string& dir = options.dir;
  CampaignHeader header;
  auto old = read_header(dir);
  if (old) {
    header = std::move(*old);
    read_findings(dir), read_coverage(dir);  // they throw if a file is lost or not a campaign's
    expect_stats(dir, header);
  }
  Session session;
  session.started = utc_now();
  session.asked = options.seconds;
  session.jobs = cpu_jobs(options, targets);
  for (int n = 0; n < session.jobs; ++n) session.job_shards.push_back(n);
  session.gpus = options.gpus;
  session.machine = this_machine();
  if (header.sessions.empty()) {
    header.seed = options.seed;
    header.started = session.started;
    header.command = options.command;
  } else {
    if (header.seed != options.seed) {
      throw std::runtime_error(dir + " holds a campaign of seed " + std::to_string(header.seed) + ", not " +
                               std::to_string(options.seed) + ": say --seed " + std::to_string(header.seed) +
                               " to go on with it, or use another folder");
    }
    follow(dir, header, session);
  }
  note_builds(header, targets, session);
  header.version = options.version;
  header.situations = situation_table();
  header.sessions.push_back(std::move(session));
  make_folders(dir, targets);
  // Written before the header, so that a folder with a header always has this file.
  if (!old && !fs::exists(dir + "/findings.json")) write_findings(dir, {});
  write_header(dir, header);
  return header;
}

std::vector<int> groups_of(const std::vector<CampaignTarget>& targets) {
  std::vector<std::string> names;
  std::vector<int> groups;
  for (const CampaignTarget& target : targets) {
    const std::string name = target.folder + " " + target.record.backend;
    auto at = std::ranges::find(names, name);
    if (at == names.end()) at = names.insert(names.end(), name);
    groups.push_back(static_cast<int>(at - names.begin()));
  }
  return groups;
}

void load_shared_state(const std::string& dir, const std::vector<CampaignTarget>& targets,
                       const std::vector<int>& group_of, const std::optional<CampaignHeader>& old,
                       SharedState& shared) {
  const auto number_of = [&](const std::string& name) {
    const CampaignTarget* target = find_target(targets, name);
    return target == nullptr ? targets.size() : static_cast<size_t>(target - targets.data());
  };
  const bool same_situations = old && old->situations == situation_table();
  const auto same_build = [&](const TargetRecord& now) {
    if (!old) return false;
    const auto then = std::ranges::find(old->targets, now.name, &TargetRecord::name);
    return then != old->targets.end() && then->build == now.build;
  };
  const auto learn_situations = [&](const CorpusEntry& entry, size_t n) {
    Group& group = shared.groups[group_of[n]];
    for (uint16_t id : entry.situations) {
      if (same_situations && id < kMostSituations) group.known_situations += mark(group.situations[id]);
    }
  };
  const auto confirmed = read_confirmed(dir);
  for (const CorpusEntry& entry : read_corpus(dir)) {
    // Situations follow from the case and not from the verdict, so each target that confirmed the entry met
    // them.
    for (auto [at, end] = confirmed.equal_range(entry.id); at != end; ++at) {
      if (const size_t n = number_of(at->second); n < targets.size()) learn_situations(entry, n);
    }
    const size_t n = number_of(entry.target);
    if (n == targets.size()) continue;
    Group& group = shared.groups[group_of[n]];
    ++group.entries;
    learn_situations(entry, n);
    if (entry.edges.empty() || !same_build(targets[n].record)) continue;
    for (uint32_t edge : entry.edges) {
      if (edge < kMostEdges) group.known_edges += mark(group.edges[edge]);
    }
  }
  for (const Crash& crash : read_crashes(dir)) {
    const size_t n = number_of(crash.target);
    if (n == targets.size()) continue;
    if (const auto kind = waiting_kind(crash.kind, is_of_sequences(crash))) ++shared.waiting[n][*kind];
  }
}

}  // namespace attnfuzz
