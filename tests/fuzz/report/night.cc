#include "tests/fuzz/report/night.h"

#include <cmath>
#include <filesystem>
#include <limits>

#include "base/files.h"
#include "fuzz/campaign/store/lines.h"
#include "fuzz/campaign/triage/files/case_picture.h"
#include "fuzz/check/counts/records.h"
#include "properties/case/codec/codec.h"
#include "properties/case/words.h"
#include "properties/data/fills.h"
#include "properties/reduce/reproducer.h"

namespace attnfuzz {
namespace {

constexpr int kShards = 3, kLines = 240;

double noise(uint64_t a, uint64_t b) { return static_cast<double>(mix(7, a, b, 0, 0) >> 11) * 0x1p-53; }

std::string marked(const Night& night, const std::string& text) {
  return night.hostile ? text + "</td></style><script>alert(\"x\")</script> & 'quoted' \x01" : text;
}

CampaignHeader header(const Night& night) {
  const double seconds = night.hours * 3600;
  CampaignHeader h;
  h.version = "attnfuzz 0.1.0";
  h.seed = 42;
  h.started = marked(night, "2026-03-01T22:15:00Z");
  h.command = {"attnfuzz", "campaign", "fa1", "splitk", "--for", "8h", "--out", marked(night, "night")};
  for (const char* kernel : {"fa1", "splitk"}) {
    TargetRecord t;
    t.name = std::string(kernel) + ".cpu.plain";
    t.kernel = kernel;
    t.backend = "cpu";
    t.build_kind = "plain";
    t.build = "4595dd640de204c188bb18debaa0f1ba";
    t.worker_build = "d76760b74323da358a377d35476aeb88";
    t.compiler = marked(night, "clang version 19.1.7");
    t.flags = "-O2 -g1 -march=x86-64-v3";
    t.calibration = "executor";
    h.targets.push_back(t);
  }
  Session s;
  s.machine = {marked(night, "node-1"), "an x86-64 with two cores", "Linux 6.1", 2, {}};
  s.started = "2026-03-01T22:15:00Z";
  s.asked = seconds;
  s.seconds = seconds * 0.4;
  s.jobs = kShards;
  s.gpu_busy = {0.5};
  h.sessions.push_back(s);
  s.started = "2026-03-02T03:02:11Z";
  s.from = seconds * 0.4;
  s.asked = s.seconds = seconds * 0.6;
  s.gpu_busy = {0.9};
  s.ended = "time";
  s.notes = {marked(night, "fa1.cpu.plain was built anew: 9c1e.. -> 4595..")};
  h.sessions.push_back(s);
  return h;
}

// The share that a campaign has seen after `share` of its time: it grows fast at first.
double grown(double share) { return 1 - std::exp(-4 * share); }

void write_shard(const std::string& dir, int shard, const Night& night) {
  LineFile file(shard_dir(dir, shard) + "/series.jsonl");
  ShardStats stats;
  SeriesLine line;
  for (int n = 1; n <= kLines; ++n) {
    const double share = static_cast<double>(n) / kLines, step = night.hours * 3600 / kLines;
    line.t = share * night.hours * 3600;
    line.target = (n / 20 + shard) % 2 ? "splitk.cpu.plain" : "fa1.cpu.plain";
    const auto cases = static_cast<uint64_t>(
        step * (180 + 60 * noise(static_cast<uint64_t>(n), static_cast<uint64_t>(shard))));
    line.cases += cases;
    line.passed += cases * 96 / 100;
    line.rejected += cases / 100;
    line.uninformative += cases * 3 / 100;
    const bool fa1 = line.target == "fa1.cpu.plain";
    line.situations = static_cast<uint64_t>((fa1 ? 610 : 740) * grown(share));
    line.coverage = static_cast<uint64_t>((fa1 ? 2900 : 4100) * grown(share));
    line.corpus = static_cast<uint64_t>(240 * grown(share));
    line.crashes = night.green ? 0 : static_cast<uint64_t>(3 * share);
    line.restarts = n > 150 ? 1 : 0;
    line.since_new = static_cast<uint64_t>(1000 * share * noise(3, static_cast<uint64_t>(n)));
    line.wall = line.t;
    line.kernel = line.t * 0.62;
    line.gpu = shard == 2 ? 0 : -1;
    file.append(line_of(line));
  }
  stats.last = line;
  for (const char* name : {"fa1.cpu.plain", "splitk.cpu.plain"}) {
    TargetStats& t = stats.targets[name];
    for (const char* property :
         {"reference", "repeat", "contract", "dead_rows", "nan_visible", "exact_mean", "gqa"}) {
      PropertyStats& p = t.properties[property];
      p = {line.cases / 14, line.passed / 14, line.rejected / 14, line.uninformative / 14, 0, {}};
      for (int k = -8; k < 0; ++k) {
        for (int n = 0; n < 100 * (9 + k); ++n) p.ratios.add(std::exp2(k));
      }
      p.ratios.add(0.7 + 0.29 * noise(1, p.cases + std::string(property).size()));
    }
    if (!night.green && shard == 0) t.warning_counts["bias"] = 2;
    t.paths[marked(night, "wgmma")] = t.properties["reference"];
    t.properties["softcap"] = {12, 0, 12, 0, 0, {}};
    if (!night.green && std::string(name).starts_with("fa1")) t.properties["reference"].failed = 3;
    t.rejections[marked(night, "reference: dim_qk 257 is not supported")] = 400;
    t.rejections["softcap: the case has no softcap to speak of"] = 90;
    t.features.cases = line.cases / 2;
    for (const auto& [feature, share] :
         std::initializer_list<std::pair<const char*, double>>{{"kv tail", .89},
                                                               {"causal", .43},
                                                               {"kv tiles >= 3", .41},
                                                               {"gqa", .25},
                                                               {"dead rows", .17},
                                                               {"bias", .22},
                                                               {"mask", .27},
                                                               {"window", .13},
                                                               {"softcap", .08},
                                                               {"zero length", .03}})
      t.features.counts[feature] = static_cast<uint64_t>(share * static_cast<double>(t.features.cases));
    for (int q = 0; q < 11; ++q) {
      for (int k = 0; k < 13; ++k) {
        if (q + k > 19 || noise(static_cast<uint64_t>(q), static_cast<uint64_t>(k)) < 0.08) continue;
        t.heat[{q, k}] = {
            static_cast<uint64_t>(5000 / (1 + q + k)),
            q * k == 0 ? 0 : 0.3 + 0.045 * k + 0.1 * noise(static_cast<uint64_t>(k), static_cast<uint64_t>(q))};
      }
    }
    t.origins = {{"drawn", line.cases / 4}, {"mutated", line.cases / 5}, {"crossed", line.cases / 20}};
    t.rows = line.cases * 70;
    t.dead_rows = t.rows / 5;
    t.uninformative_rows = t.rows / 400;
    t.wall = line.wall / 2;
    t.stages = {t.wall * .04, t.wall * .8, t.wall * .13, t.wall * .03};
  }
  write_stats(dir, shard, stats);
}

void write_finding(const std::string& dir, const Night& night, FindingsFile& file, const std::string& kind,
                   const Case& c, double t, const std::string& tolerated) {
  Reproducer r;
  r.c = c;
  r.property = "reference";
  r.kernel = night.kernel;
  r.kind = kind;
  r.message = marked(night, kind == "non-finite" ? "o(b=0,h=0,q=0,d=0) is nan, must be 0 +- 2.98023224e-08"
                                                 : "o(b=0,h=1,q=64,d=0) is 1.00195312, must be 1 +- 0.00098");
  r.shape = marked(night, kind == "non-finite" ? "all NaN" : "rows 64 and up only; one ratio 1.002");
  r.needs = {
      {.part = "seq_k", .relation = Relation::kAtLeast, .value = 65, .text = marked(night, "seq_k >= 65")},
      {.part = "mask", .text = "mask: only the first key"}};
  r.indifferent = {"batch", "dtype", "values of v"};
  Finding f;
  f.name = reproducer_name(r);
  f.key = marked(night, dedupe_key(r));
  f.target = "fa1.cpu.plain";
  f.property = r.property;
  f.kind = kind;
  f.message = r.message;
  f.shape = r.shape;
  f.found = marked(
      night, "B=2 H=4/2 S=130/321 D=64/64 bf16 causal (bottom-right), window [-8, +132]; Q gaussian (seed 12)");
  f.minimal = describe(c);
  f.needs = r.needs;
  f.indifferent = r.indifferent;
  f.guess = marked(night, "masked, empty or unscaled softmax: a query sees no key of a tile");
  f.repeats = tolerated.empty() ? Repeats::kAlways : Repeats::kSometimes;
  f.failed = 3;
  f.runs = tolerated.empty() ? 3 : 5;
  f.t = t;
  f.count = 17;
  f.evaluations = 1401;
  f.reduce_seconds = 6.5;
  f.tolerated = tolerated;
  f.also = {marked(night, "splitk.cpu.plain: wrong")};
  const std::string path = dir + "/findings/" + f.name + ".attn.json";
  write_file(path, encode(r, path));
  if (tolerated.empty()) {
    CasePicture picture = picture_without_error(c, "");
    picture.error.assign(static_cast<size_t>(picture.rows.cells()), 0.5);
    picture.error.back() = kind == "non-finite" ? std::numeric_limits<double>::infinity() : 2.5;
    picture.said = {marked(night, "With position-coded V: key 64 counts twice")};
    write_picture(dir + "/findings/" + f.name + ".picture.json", picture);
  }
  file.findings.push_back(f);
}

}  // namespace

void make_night(const std::string& dir, const Night& night) {
  for (const char* folder : {"findings", "canary", "crashing", "corpus/fa1"})
    std::filesystem::create_directories(dir + "/" + folder);
  write_header(dir, header(night));
  for (int n = 0; n < kShards; ++n) {
    std::filesystem::create_directories(shard_dir(dir, n));
    write_shard(dir, n, night);
  }
  std::filesystem::create_directories(dir + "/coverage");
  const Covered covered = {{520, 525},
                           {121000, 132550},
                           {9000000, 21425146},
                           {marked(night, "seq_q 257")},
                           {marked(night, "dtype bf16 with seq_q 31")}};
  write_file(dir + "/coverage/fa1.cpu.plain.json",
             json_text(Json({{"cases", 1250000}, {"covered", covered}})) + "\n");
  LineFile corpus(shard_dir(dir, 0) + "/corpus.jsonl");
  for (int n = 0; n < 20; ++n) {
    Case c;
    c.problem.seq_k = 3 + n * n;
    CorpusEntry entry;
    entry.id = digest(c);
    entry.kernel = "fa1";
    entry.target = "fa1.cpu.plain";
    entry.property = marked(night, "reference");
    entry.origin = n % 3 ? "mutated" : "drawn";
    entry.t = night.hours * 3600 * n / 25;
    entry.situations = {1, 2};
    entry.edges.assign(static_cast<size_t>(30 - n), 5);
    write_file(corpus_file(dir, "fa1", entry.id), encode(c));
    corpus.append(line_of(entry));
  }
  FindingsFile findings;
  if (!night.green) {
    Case dead;
    dead.problem.seq_k = 65;
    dead.problem.mask = Mask{.visible = {PatternKind::kFirstKey, 1, 0}, .broadcast = {}};
    dead.q.kind = dead.k.kind = dead.v.kind = FillKind::kZero;
    write_finding(dir, night, findings, "non-finite", dead, night.hours * 700, "");
    Case causal;
    causal.problem.heads_q = causal.problem.heads_kv = 2;
    causal.problem.seq_q = 130;
    causal.problem.seq_k = 200;
    causal.problem.dim_qk = causal.problem.dim_v = 8;
    causal.problem.causal = true;
    causal.problem.align = ATTN_BOTTOM_RIGHT;
    causal.problem.window_left = 90;
    write_finding(dir, night, findings, "wrong", causal, night.hours * 1900, "");
    Case few;
    few.problem.seq_q = 3;
    few.problem.seq_k = 5;
    few.problem.causal = true;
    write_finding(dir, night, findings, "race", few, night.hours * 2500,
                  marked(night, "atomics: the order of sums is not promised"));
    Finding gone = findings.findings.back();
    gone.repeats = Repeats::kNever;
    findings.never_again.push_back(gone);
  }
  write_findings(dir, findings);
  std::vector<SeededBugResult> seeded_bugs(2);
  seeded_bugs[0] = {"fa1.cpu.plain", 0, true, 38, 0.4, "seeded-bug-non-finite-d8d49d", ""};
  seeded_bugs[1] = {"fa1.cpu.plain",
                    1,
                    night.seeded_bug,
                    52,
                    0.6,
                    night.seeded_bug ? "seeded-bug-non-finite-d8d49d" : "",
                    night.seeded_bug ? "" : marked(night, "no case of 4000 failed")};
  write_seeded_bugs(dir, seeded_bugs);
}

}  // namespace attnfuzz
