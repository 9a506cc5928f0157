// Statistics, and the verdict of a failure, as JSON. A job of a check sends them to its parent, a
// campaign keeps them in its folder, and `check --json` prints them.
//
// A verdict has only the fields that a failure's report needs. Only the same program reads it.
#pragma once

#include "base/json.h"
#include "base/json_record.h"
#include "fuzz/check/counts/statistics.h"

namespace attnfuzz {

// Write and read a case as codec.h does. from_json() throws std::runtime_error for a case that cannot be read.
void to_json(Json& j, const Case& c);
void from_json(const Json& j, Case& c);

// {"runs", "median", "worst", "buckets": [[bucket, runs], ...]}; an infinite "worst" is null
void to_json(Json& j, const RatioHistogram& r);
void from_json(const Json& j, RatioHistogram& r);

void fields(Is<PropertyStats> auto& r, auto f) {
  f("cases", r.cases), f("passed", r.passed), f("rejected", r.rejected);
  f("uninformative", r.uninformative), f("failed", r.failed), f("ratios", r.ratios);
  f.later("by_bits", r.by_bits), f.later("by_bounds", r.by_bounds);
}

void fields(Is<Classification> auto& r, auto f) {
  f("cases", r.cases), f("rejected", r.rejected), f("uninformative", r.uninformative), f("counts", r.counts);
}

void fields(Is<StageSeconds> auto& r, auto f) {
  f("lay_out", r.lay_out), f("kernel", r.kernel), f("oracle", r.oracle), f("judge", r.judge);
}

void fields(Is<OracleUse> auto& r, auto f) {
  f("device", r.device), f("fast", r.fast), f("both", r.both), f("left", r.left);
}

void fields(Is<BatchUse> auto& r, auto f) {
  f("screened", r.cleared), f("both", r.both), f("doubted", r.doubted), f("lost", r.lost), f("left", r.left);
  f.later("prepare_s", r.prepare_s), f.later("plan_s", r.plan_s), f.later("run_s", r.run_s);
  f.later("launch_s", r.launch_s), f.later("again_s", r.again_s);
  f.later("wait_s", r.wait_s), f.later("again_by", r.again_by);
  f.later("map_s", r.map_s), f.later("send_s", r.send_s), f.later("flight_s", r.flight_s);
  f.later("own_wait_s", r.own_wait_s);
}

void fields(Is<Statistics> auto& r, auto f) {
  f("properties", r.properties), f.later("ways", r.paths), f("rejections", r.rejections),
      f("features", r.features);
  f("rows", r.rows), f("dead_rows", r.dead_rows), f("uninformative_rows", r.uninformative_rows);
  f("unconstrained_rows", r.unconstrained_rows), f("stage_seconds", r.stages);
  f.later("oracle", r.oracle), f.later("screen", r.batch), f.later("suspicious", r.warning_counts),
      f.later("lanes", r.build_kinds), f.later("refused", r.refused),
      f.later("by_bounds", r.by_bounds);
}

// {"met", "legal", "percent"}; reading computes the percentage from the other two
void to_json(Json& j, const Covered::Share& share);
void from_json(const Json& j, Covered::Share& share);

void fields(Is<Covered> auto& r, auto f) {
  f("classes", r.classes), f("pairs", r.pairs), f("triples", r.triples);
  f("classes_missing", r.classes_missing), f("pairs_missing", r.pairs_missing);
}

void fields(Is<Shape> auto& r, auto f) { f("text", r.text), f("kind", r.kind); }

void fields(Is<Where> auto& r, auto f) {
  f("tensor", r.tensor), f("b", r.b), f("h", r.h), f("q", r.q), f("d", r.d), f("tile_q", r.tile_q);
  f("got", r.got), f("expected", r.expected), f("bound", r.bound), f("bad", r.bad), f("of", r.of);
}

void fields(Is<Fault> auto& r, auto f) {
  f("kind", r.kind), f("block", r.block), f("thread", r.thread), f("message", r.message), f("file", r.file);
  f("line", r.line), f("detail", r.detail), f("shared_bytes", r.shared_bytes);
}

void fields(Is<StatisticalWarning> auto& r, auto f) {
  f("sign", r.sign), f("message", r.message), f("case", r.c);
}

void fields(Is<Assumption> auto& r, auto f) { f("part", r.part), f("assumed", r.assumed); }

void fields(Is<Verdict> auto& r, auto f) {
  f("outcome", r.outcome), f("kind", r.kind), f("property", r.property), f("message", r.message);
  f("death", r.exit_reason), f("site", r.site), f("shapes", r.shapes), f("where", r.where), f("fault", r.fault);
  f("failing", r.failing), f("call", r.call), f("worst", r.worst), f.bytes("plan", r.plan);
  f("rows", r.rows), f("sampled", r.sampled), f("assumptions", r.assumptions);
  f("declared", r.declared), f("cheat", r.exploit);
}

}  // namespace attnfuzz
