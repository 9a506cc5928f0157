// The campaign's records as JSON. The names are those in the files.
#pragma once

#include "fuzz/campaign/store/archive.h"
#include "fuzz/check/counts/records.h"

namespace attnfuzz {

void fields(Is<TargetRecord> auto& r, auto f) {
  f("name", r.name), f("kernel", r.kernel), f("backend", r.backend), f("lane", r.build_kind),
      f("build", r.build);
  f("worker_build", r.worker_build), f("compiler", r.compiler), f("flags", r.flags), f("device", r.device);
  f("calibration", r.calibration), f("canary", r.seeded_bug), f.later("twin", r.peer),
      f.later("properties", r.properties), f.later("sequences", r.sequences),
      f.later("no_sequences", r.no_sequences);
}

void fields(Is<Machine> auto& r, auto f) {
  f("host", r.host), f("cpu", r.cpu), f("os", r.os), f("cores", r.cores), f("gpus", r.gpus);
}

void fields(Is<Session> auto& r, auto f) {
  f("started", r.started), f("from", r.from), f("asked", r.asked), f("seconds", r.seconds), f("ended", r.ended);
  f("jobs", r.jobs), f("gpus", r.gpus), f("builds", r.builds), f("notes", r.notes), f("machine", r.machine);
  f.later("gpu_busy", r.gpu_busy), f.later("shards", r.shards), f.later("job_shards", r.job_shards);
}

void fields(Is<MergedCampaign> auto& r, auto f) {
  f("dir", r.dir), f("targets", r.targets), f("shards", r.shards), f("sessions", r.sessions);
}

void fields(Is<CampaignHeader> auto& r, auto f) {
  f("format", r.format), f("version", r.version), f("signals", r.situations), f("seed", r.seed);
  f("started", r.started), f("command", r.command), f("targets", r.targets), f("sessions", r.sessions);
  f.later("merged", r.merged);
}

void fields(Is<SeriesLine> auto& r, auto f) {
  f("t", r.t), f("target", r.target), f("cases", r.cases), f("passed", r.passed), f("rejected", r.rejected);
  f("uninformative", r.uninformative), f("failed", r.failed), f("signals", r.situations);
  f("coverage", r.coverage), f("corpus", r.corpus), f("crashes", r.crashes), f("restarts", r.restarts);
  f("since_new", r.since_new), f("wall", r.wall), f("kernel", r.kernel), f("gpu", r.gpu);
}

void fields(Is<HeatCell> auto& r, auto f) { f("cases", r.cases), f("worst", r.worst); }

void fields(Is<SequenceStats> auto& r, auto f) {
  f("sequences", r.sequences), f("steps", r.steps), f("calls", r.calls), f("failed", r.failed);
  f("bounded", r.bounded), f("asked", r.asked), f("judged", r.judged), f("left_out", r.left_out);
  f("not_filed", r.not_filed), f("worst", r.worst), f("wall", r.wall), f.later("of_one_site", r.of_one_site);
}

// The members of Statistics, followed by a target's own.
void fields(Is<TargetStats> auto& r, auto f) {
  using Base =
      std::conditional_t<std::is_const_v<std::remove_reference_t<decltype(r)>>, const Statistics, Statistics>;
  fields(static_cast<Base&>(r), f);
  f("heat", r.heat), f("origins", r.origins), f("not_filed", r.not_filed), f("quarantined", r.quarantined);
  f("wall", r.wall), f.later("long_parents", r.long_parents), f.later("sequences", r.sequences);
  f.later("of_one_site", r.of_one_site);
}

void fields(Is<ShardStats> auto& r, auto f) {
  f("last", r.last), f("next", r.next), f("targets", r.targets), f.later("next_sequence", r.next_sequence);
}

void fields(Is<CorpusEntry> auto& r, auto f) {
  f("id", r.id), f("kernel", r.kernel), f("target", r.target), f("property", r.property);
  f("origin", r.origin), f("t", r.t), f("seconds", r.seconds), f("signals", r.situations);
  f.later("edges", r.edges);
}

void fields(Is<Crash> auto& r, auto f) {
  f("id", r.id), f("target", r.target), f("property", r.property), f("kind", r.kind), f("message", r.message);
  f("shape", r.shape), f.later("site", r.site), f.later("death", r.exit_reason), f("t", r.t),
      f("shard", r.shard), f("index", r.index), f("case", r.c), f.later("calls", r.calls);
}

inline void to_json(Json& j, const Repeats& repeats) { j = to_string(repeats); }
inline void from_json(const Json& j, Repeats& repeats) {
  for (const Repeats one : {Repeats::kAlways, Repeats::kSometimes, Repeats::kAfterOthers, Repeats::kNever}) {
    if (j == to_string(one)) repeats = one;
  }
}

void fields(Is<Finding> auto& r, auto f) {
  f("name", r.name), f("key", r.key), f("target", r.target), f("property", r.property), f("kind", r.kind);
  f("message", r.message), f("shape", r.shape), f("found", r.found), f("minimal", r.minimal);
  f("needs", r.needs), f("indifferent", r.indifferent), f("guess", r.guess), f("repeats", r.repeats);
  f("failed", r.failed), f("runs", r.runs), f("t", r.t), f("count", r.count), f("reduced", r.reduced);
  f("evaluations", r.evaluations), f("reduce_seconds", r.reduce_seconds), f("tolerated", r.tolerated);
  f("also", r.also), f.later("sites", r.sites), f.later("lanes", r.votes), f("crashes", r.crashes);
}

void fields(Is<FindingsFile> auto& r, auto f) { f("findings", r.findings), f("never_again", r.never_again); }

void fields(Is<SeededBugResult> auto& r, auto f) {
  f("target", r.target), f("session", r.session), f("found", r.found), f("cases", r.cases);
  f("seconds", r.seconds), f("finding", r.finding), f("message", r.message), f.later("cut_short", r.cut_short);
}

}  // namespace attnfuzz
