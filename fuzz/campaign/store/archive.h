// The folder of a campaign: its layout, and how it is read and written.
//
//   campaign.json                 CampaignHeader: options, targets and their builds, machine, sessions
//   findings.json                 FindingsFile: findings by key; failures seen once. It is written before
//                                 campaign.json, so if only campaign.json is there, findings.json was lost
//   canary.json                   vector<SeededBugResult>: found or not, by session
//   findings/NAME.attn.json, .md  reproducer and issue text of each finding; NAME.picture.json: the
//                                 picture of its error (triage/files/case_picture.h); NAME.trace.jsonl if it fails
//                                 only after the cases before it
//   findings/NAME.calls.json, .md a failing sequence of calls (docs/sequences.md) and its issue text
//   never_again/NAME.*            the same, for failures that no later run showed
//   canary/NAME.*                 the same, for seeded bugs
//   suspicious/TARGET-SIGN.attn.json   the first case of each warning (warnings.h)
//   crashing/ID/                  found, not yet reduced: crash.json (Crash), trace.jsonl, and best.attn.json
//                                 or best.calls.json while it is being reduced
//   corpus/KERNEL/ID.case.json    the archive: cases that showed something new, ID = digest of the case
//   coverage/TARGET.met, .json    the part of the table of axes that the target met (coverage_file.h)
//   shards/N/series.jsonl         SeriesLine: one about every 5 s, and at the end of each slice
//   shards/N/stats.json           ShardStats, cumulative: at most 5 s old after a kill
//   shards/N/corpus.jsonl         CorpusEntry: what each entry of this shard showed first
//   shards/N/confirmed.jsonl      {"id","target"}: entries of other targets that have been run on this one
//   shards/N/trace-{0,1}.jsonl    journal (journal.h): the case in flight, and the last 64
//   shards/N/sequences.jsonl      journal of sequences of calls (sequence_journal.h): the one in flight, and those
//                                 before it in the same process
//   lock                          held by the one supervisor that works here
//
// A shard is one job: one process at a time, restarted for each slice of time. Only this process
// writes the shard's files. A whole file is replaced: the new one is written beside it, flushed and
// renamed. Lines are appended; a last line that a kill cut short is ignored. The folder can
// therefore be read at any moment, also while a campaign runs, and from another host: readers write
// nothing and share no memory with it. docs/campaigns.md says why this is no database. A folder of
// an unknown format is refused. Times are seconds of the campaign and continue where an earlier
// session stopped.
//
//   const CampaignHeader header = *read_header(dir);
//   for (int n : shards_of(dir)) for (const SeriesLine& line : read_series(dir, n)) ...
//   for (const Finding& f : read_findings(dir).findings) puts(f.minimal.c_str());
//
// All readers throw std::runtime_error that names the file and the fault. They do so also if a name in a file
// is not a plain file name ("../x"), because a folder may be untrusted. Writers throw std::system_error (a full
// disk: ENOSPC, EDQUOT).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/check/counts/statistics.h"
#include "properties/case/case.h"
#include "properties/judge/verdict.h"
#include "properties/reduce/need.h"

namespace attnfuzz {

inline constexpr int kCampaignFormat = 2;

// One kernel on one back end in one build.
struct TargetRecord {
  std::string name;    // "fa1.cpu.plain": its name in all other files
  std::string kernel;  // as `attnfuzz replay --kernel` takes it: a name, or a plug-in's path
  std::string backend, build_kind;
  std::string build, worker_build;  // hashes of their sources
  std::string compiler, flags, device;
  std::string calibration;
  std::string peer;  // the peer build named by --peer; empty: none
  // the properties that the user named, each of which must judge something; empty: all properties judge
  std::vector<std::string> properties;
  bool seeded_bug = false;
  bool sequences = false;    // sequences of calls are explored too
  std::string no_sequences;  // if --sequences was given and the target has none: why; else empty
};

struct Machine {
  std::string host, cpu, os;
  int cores = 0;
  std::vector<std::string> gpus;  // name and driver of each
};

inline constexpr const char* kDiskFull = "disk full";

// One run of the command, from start to end.
struct Session {
  std::string started;  // UTC, ISO 8601
  double from = 0;      // campaign time at its start
  double asked = 0;     // seconds that were requested
  double seconds = 0;   // seconds so far
  std::string ended;    // "time", "interrupted", kDiskFull; empty: it still runs, or was killed
  int jobs = 0, gpus = 0;
  std::vector<int> shards;      // those that had statistics at its end, with those of earlier sessions
  std::vector<int> job_shards;  // the shard of each job on the CPU, which a merge renumbers (shards_of_jobs())
  std::vector<double>
      gpu_busy;  // share of the time in which a kernel ran, by GPU (gpu_sampler.h); empty: not known
  std::map<std::string, std::string> builds;  // target -> hash
  std::vector<std::string> notes;             // "fa1.cpu.plain was built anew: ..."
  Machine machine;
};

// A campaign that a merge has taken over.
struct MergedCampaign {
  std::string dir;
  std::vector<TargetRecord> targets;
  std::vector<int> shards;  // their numbers in the merged folder
  int sessions = 0;         // the merged folder has the sessions of one campaign after those of the other
};

struct CampaignHeader {
  int format = kCampaignFormat;
  std::string version;     // the version of attnfuzz
  std::string situations;  // the table of situations whose ids corpus.jsonl uses
  uint64_t seed = 1;
  std::string started;
  std::vector<std::string> command;   // of the first session, word by word
  std::vector<TargetRecord> targets;  // of all sessions, as last built
  std::vector<Session> sessions;
  // Only in a merged folder. A session after those of the merged campaigns belongs to a campaign that went on
  // there.
  std::vector<MergedCampaign> merged;
};

// Everything except target, since_new and t is a sum over the life of the shard.
struct SeriesLine {
  double t = 0;
  std::string target;  // the target that it works on
  uint64_t cases = 0, passed = 0, rejected = 0, uninformative = 0, failed = 0;
  uint64_t situations = 0, coverage = 0;  // situations and edges of this target known to all shards together
  uint64_t corpus = 0;                    // entries added by this shard
  uint64_t crashes = 0;                   // failing cases filed by it (Crash)
  uint64_t restarts = 0;                  // unplanned restarts of the shard's process
  uint64_t since_new = 0;                 // cases of the shard since one showed something new
  double wall = 0;                        // seconds that the shard worked ...
  double kernel = 0;                      // ... and spent in a kernel's run()
  int gpu = -1;                           // of a CUDA target
};

struct HeatCell {
  uint64_t cases = 0;
  double worst = 0;  // error/bound
};
// The bucket of a length. Buckets hold the lengths 0, 1, 2, 3..4, 5..8, ...; a length above 0 is in the bucket
// numbered 1 + (bits of length - 1).
int heat_bucket(int64_t length);

// Sequences of calls on one kernel (docs/sequences.md).
struct SequenceStats {
  uint64_t sequences = 0, steps = 0, calls = 0, failed = 0;
  uint64_t bounded = 0;                    // attends of relations that were compared within the bound only
  std::map<std::string, uint64_t> asked;   // calls that the kernel was asked for, by operation
  std::map<std::string, uint64_t> judged;  // those of them that were judged
  // By the reason: calls that the kernel did not make, and relations that were not judged. Further reasons are
  // counted together after the first 64.
  std::map<std::string, uint64_t> left_out;
  std::map<std::string, uint64_t> not_filed;  // as in TargetStats
  uint64_t of_one_site = 0;                   // likewise
  double worst = 0;                           // error/bound
  double wall = 0;                            // seconds
  void leave_out(const std::string& why, uint64_t n);
  void merge(const SequenceStats& other);
};

// Ratios count only for passing runs.
struct TargetStats : Statistics {
  std::map<std::pair<int, int>, HeatCell> heat;  // heat_bucket of (seq_q, seq_k)
  std::map<std::string, uint64_t> origins;       // "drawn", "mutated", "crossed", "confirmed" -> cases
  std::map<std::string, uint64_t> not_filed;     // failures that were dropped because many of their kind wait
  uint64_t of_one_site = 0;  // failures that were not filed because others at their place in the code were
  uint64_t quarantined = 0;  // cases drawn but not launched (ledger.h)
  uint64_t long_parents =
      0;            // cases of the corpus that were picked but not mutated, because their rows are too long
  double wall = 0;  // seconds, those of the sequences included
  SequenceStats sequences;
  void add(const Case& c, const Verdict& verdict);
  void merge(const TargetStats& other);
};

// Failures that were dropped, of cases and of sequences of calls. Each may be a bug of its own.
uint64_t never_looked_at(const TargetStats& stats);

struct ShardStats {
  SeriesLine last;
  std::map<std::string, uint64_t> next;           // target -> number of the next case of its stream
  std::map<std::string, uint64_t> next_sequence;  // the same for its stream of sequences of calls
  std::map<std::string, TargetStats> targets;
};

// A case of the archive.
struct CorpusEntry {
  std::string id, kernel;  // digest; folder
  std::string target, property, origin;
  double t = 0;
  double seconds = 0;                // time to judge it
  std::vector<uint16_t> situations;  // situations that it showed first (properties/judge/situations.h)
  std::vector<uint32_t> edges;       // edges of the kernel's code that it took first
};

// The property of crashes and findings that are sequences of calls.
inline constexpr const char* kOfSequences = "sequences";

// A failing case, or a failing sequence of calls, as a job filed it.
struct Crash {
  std::string id;
  std::string target, property;
  Case c = {};
  std::string kind = {}, message = {}, shape = {};
  std::string site = {};  // where it died or is stuck (fuzz/host/site.h); empty: not known
  double t = 0;
  int shard = 0;
  uint64_t index = 0;
  ExitReason exit_reason = ExitReason::kNone;
  // The file of the sequence of calls that failed, after those that ran before it in the same process
  // (properties/sequences/session/codec.h); `c` then means nothing. Empty: a case failed.
  std::string calls = {};
};
inline bool is_of_sequences(const Crash& crash) { return !crash.calls.empty(); }

enum class Repeats { kAlways, kSometimes, kAfterOthers, kNever };
const char* to_string(Repeats repeats);  // "deterministic", "flaky", "dependent on state", "never again"

struct Finding {
  std::string name;  // the name of its files
  std::string key;   // dedupe_key() of the reduced case
  std::string target, property, kind, message, shape;
  std::string found, minimal;  // describe() of both cases
  std::vector<Need> needs;
  std::vector<std::string> indifferent;
  std::string guess;  // the likely class of fault
  std::string votes;  // the results of other thread orders and sanitizer builds; empty: none was asked
  Repeats repeats = Repeats::kAlways;
  int failed = 0, runs = 0;  // in fresh processes
  double t = 0;              // campaign time of its first occurrence
  uint64_t count = 0;        // failing cases that were reduced to it
  bool reduced = true;       // false: the clock ran out
  int64_t evaluations = 0;
  double reduce_seconds = 0;
  std::string tolerated;             // the ledger's reason; empty if the finding is new
  std::vector<std::string> also;     // other targets and kinds that showed it
  std::vector<std::string> sites;    // where it dies or is stuck
  std::vector<std::string> crashes;  // ids of crashes that are still in the folder
};

inline bool is_of_sequences(const Finding& finding) { return finding.property == kOfSequences; }
// NAME.attn.json or NAME.calls.json
std::string file_name_of(const Finding& finding);

struct FindingsFile {
  std::vector<Finding> findings;
  std::vector<Finding> never_again;  // failed once, and in no later run
};

// The seeded bug of one target in one session.
struct SeededBugResult {
  std::string target;
  int session = 0;
  bool found = false;
  uint64_t cases = 0;
  double seconds = 0;
  std::string finding;  // name in canary/
  std::string message;  // why it was not found
  // A signal ended the session before it could be found, which says nothing of the harness.
  bool cut_short = false;
};

// Nothing if there is no campaign in this folder.
std::optional<CampaignHeader> read_header(const std::string& dir);
void write_header(const std::string& dir, const CampaignHeader& header);

std::vector<int> shards_of(const std::string& dir);  // ascending
std::vector<SeriesLine> read_series(const std::string& dir, int shard);
bool has_stats(const std::string& dir, int shard);
ShardStats read_stats(const std::string& dir, int shard);  // empty if there is none
void write_stats(const std::string& dir, int shard, const ShardStats& stats);

// The entries of all shards, oldest first. If a kill has lost the line of a case, its entry has no situations.
std::vector<CorpusEntry> read_corpus(const std::string& dir);
Case read_corpus_case(const std::string& dir, const CorpusEntry& entry);

// Also throws if the file is missing, because the findings are then unknown.
FindingsFile read_findings(const std::string& dir);
void write_findings(const std::string& dir, const FindingsFile& findings);
std::vector<Crash> read_crashes(const std::string& dir);  // oldest first
// Written atomically. `trace`: encoded cases, oldest first.
void write_crash(const std::string& dir, const Crash& crash, const std::string& trace);
std::vector<SeededBugResult> read_seeded_bugs(const std::string& dir);
void write_seeded_bugs(const std::string& dir, const std::vector<SeededBugResult>& seeded_bugs);

// One line each, as in the files. The parse_ functions return nothing for a line that is cut short or
// contains an invalid file name.
std::string line_of(const SeriesLine& line);
std::string line_of(const CorpusEntry& entry);
std::optional<SeriesLine> parse_series_line(const std::string& text);
std::optional<CorpusEntry> parse_corpus_line(const std::string& text);

// Paths inside the folder.
std::string shard_dir(const std::string& dir, int shard);
std::string corpus_file(const std::string& dir, const std::string& kernel, const std::string& id);

// "2026-03-01T22:15:00Z", now.
std::string utc_now();

}  // namespace attnfuzz
