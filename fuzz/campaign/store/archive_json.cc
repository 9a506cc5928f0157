#include "fuzz/campaign/store/archive_json.h"

#include <stdexcept>

#include "fuzz/campaign/store/json_text.h"
#include "properties/case/codec.h"

namespace attnfuzz {
namespace {

// One list of names a record serves both directions.
struct Write {
  Json& j;
  template <class T>
  void operator()(const char* name, const T& value) {
    j[name] = value;
  }
};
struct Read {
  const Json& j;
  template <class T>
  void operator()(const char* name, T& value) {
    j.at(name).get_to(value);
  }
};

template <class R, class F>
void fields(R& r, F f)
  requires std::is_same_v<std::remove_const_t<R>, TargetRecord>
{
  f("name", r.name), f("kernel", r.kernel), f("backend", r.backend), f("lane", r.lane), f("build", r.build);
  f("worker_build", r.worker_build), f("compiler", r.compiler), f("flags", r.flags), f("device", r.device);
  f("calibration", r.calibration), f("canary", r.canary);
}

template <class R, class F>
void fields(R& r, F f)
  requires std::is_same_v<std::remove_const_t<R>, Machine>
{
  f("host", r.host), f("cpu", r.cpu), f("os", r.os), f("cores", r.cores), f("gpus", r.gpus);
}

template <class R, class F>
void fields(R& r, F f)
  requires std::is_same_v<std::remove_const_t<R>, Session>
{
  f("started", r.started), f("from", r.from), f("asked", r.asked), f("seconds", r.seconds), f("ended", r.ended);
  f("jobs", r.jobs), f("gpus", r.gpus), f("builds", r.builds), f("notes", r.notes), f("machine", r.machine);
}

template <class R, class F>
void fields(R& r, F f)
  requires std::is_same_v<std::remove_const_t<R>, CampaignHeader>
{
  f("format", r.format), f("version", r.version), f("signals", r.signals), f("seed", r.seed),
      f("started", r.started);
  f("command", r.command), f("targets", r.targets), f("sessions", r.sessions);
}

template <class R, class F>
void fields(R& r, F f)
  requires std::is_same_v<std::remove_const_t<R>, SeriesLine>
{
  f("t", r.t), f("target", r.target), f("cases", r.cases), f("passed", r.passed), f("rejected", r.rejected);
  f("uninformative", r.uninformative), f("failed", r.failed), f("signals", r.signals);
  f("coverage", r.coverage), f("corpus", r.corpus), f("crashes", r.crashes), f("restarts", r.restarts);
  f("since_new", r.since_new), f("wall", r.wall), f("kernel", r.kernel), f("gpu", r.gpu);
}

template <class R, class F>
void fields(R& r, F f)
  requires std::is_same_v<std::remove_const_t<R>, CorpusEntry>
{
  f("id", r.id), f("kernel", r.kernel), f("target", r.target), f("property", r.property);
  f("origin", r.origin), f("t", r.t), f("seconds", r.seconds), f("signals", r.signals);
}

template <class R, class F>
void fields(R& r, F f)
  requires std::is_same_v<std::remove_const_t<R>, Finding>
{
  f("name", r.name), f("key", r.key), f("target", r.target), f("property", r.property), f("kind", r.kind);
  f("message", r.message), f("shape", r.shape), f("found", r.found), f("minimal", r.minimal);
  f("needs", r.needs), f("indifferent", r.indifferent), f("guess", r.guess), f("failed", r.failed);
  f("runs", r.runs), f("t", r.t), f("count", r.count), f("reduced", r.reduced);
  f("evaluations", r.evaluations), f("reduce_seconds", r.reduce_seconds), f("tolerated", r.tolerated);
  f("also", r.also), f("crashes", r.crashes);
}

template <class R, class F>
void fields(R& r, F f)
  requires std::is_same_v<std::remove_const_t<R>, Canary>
{
  f("target", r.target), f("session", r.session), f("found", r.found), f("cases", r.cases);
  f("seconds", r.seconds), f("finding", r.finding), f("message", r.message);
}

template <class R, class F>
void fields(R& r, F f)
  requires std::is_same_v<std::remove_const_t<R>, PropertyStats>
{
  f("cases", r.cases), f("passed", r.passed), f("rejected", r.rejected), f("uninformative", r.uninformative);
  f("failed", r.failed), f("worst", r.worst);
}

// JSON has no keys but strings.
std::map<std::string, uint64_t> by_text(const std::map<int, uint64_t>& counts) {
  std::map<std::string, uint64_t> result;
  for (const auto& [key, n] : counts) result[std::to_string(key)] = n;
  return result;
}

std::map<int, uint64_t> by_number(const std::map<std::string, uint64_t>& counts) {
  std::map<int, uint64_t> result;
  for (const auto& [key, n] : counts) result[std::stoi(key)] = n;
  return result;
}

constexpr Repeats kRepeats[] = {Repeats::kAlways, Repeats::kSometimes, Repeats::kAfterOthers, Repeats::kNever};

}  // namespace

void to_json(Json& j, const TargetRecord& r) { fields(r, Write{j}); }
void from_json(const Json& j, TargetRecord& r) { fields(r, Read{j}); }
void to_json(Json& j, const Machine& r) { fields(r, Write{j}); }
void from_json(const Json& j, Machine& r) { fields(r, Read{j}); }
void to_json(Json& j, const Session& r) { fields(r, Write{j}); }
void from_json(const Json& j, Session& r) { fields(r, Read{j}); }
void to_json(Json& j, const CampaignHeader& r) { fields(r, Write{j}); }
void from_json(const Json& j, CampaignHeader& r) { fields(r, Read{j}); }
void to_json(Json& j, const SeriesLine& r) { fields(r, Write{j}); }
void from_json(const Json& j, SeriesLine& r) { fields(r, Read{j}); }
void to_json(Json& j, const CorpusEntry& r) {
  fields(r, Write{j});
  j["edges"] = r.edges;
}
// Lines that were written before there were edges have none.
void from_json(const Json& j, CorpusEntry& r) {
  fields(r, Read{j});
  r.edges = j.value("edges", std::vector<uint32_t>{});
}
void to_json(Json& j, const Canary& r) { fields(r, Write{j}); }
void from_json(const Json& j, Canary& r) { fields(r, Read{j}); }

void to_json(Json& j, const Finding& r) {
  fields(r, Write{j});
  j["repeats"] = to_string(r.repeats);
  j["sites"] = r.sites;
}

void from_json(const Json& j, Finding& r) {
  fields(r, Read{j});
  r.sites = j.value("sites", std::vector<std::string>{});  // none in folders of before there were sites
  const std::string text = j.at("repeats");
  for (Repeats repeats : kRepeats) {
    if (text == to_string(repeats)) r.repeats = repeats;
  }
}

void to_json(Json& j, const Crash& r) {
  j = Json{{"id", r.id},
           {"target", r.target},
           {"property", r.property},
           {"kind", r.kind},
           {"message", r.message},
           {"shape", r.shape},
           {"site", r.site},
           {"t", r.t},
           {"shard", r.shard},
           {"index", r.index},
           {"case", Json::parse(encode(r.c))}};
}

void from_json(const Json& j, Crash& r) {
  j.at("id").get_to(r.id), j.at("target").get_to(r.target), j.at("property").get_to(r.property);
  j.at("kind").get_to(r.kind), j.at("message").get_to(r.message), j.at("shape").get_to(r.shape);
  r.site = j.value("site", "");
  j.at("t").get_to(r.t), j.at("shard").get_to(r.shard), j.at("index").get_to(r.index);
  auto decoded = decode(j.at("case").dump());
  if (auto* error = std::get_if<DecodeError>(&decoded)) throw std::runtime_error(error->message);
  r.c = std::get<Case>(decoded);
}

void to_json(Json& j, const TargetStats& r) {
  for (const auto& [name, p] : r.properties) {
    Json one;
    fields(p, Write{one});
    one["ratios"] = by_text(p.ratios);
    j["properties"][name] = std::move(one);
  }
  if (r.properties.empty()) j["properties"] = Json::object();
  j["rejections"] = in_utf8(r.rejections);
  j["features"] = {{"cases", r.features.cases},
                   {"rejected", r.features.rejected},
                   {"uninformative", r.features.uninformative},
                   {"counts", r.features.counts}};
  j["heat"] = Json::array();
  for (const auto& [at, cell] : r.heat) j["heat"].push_back({at.first, at.second, cell.cases, cell.worst});
  j["origins"] = r.origins;
  j["not_filed"] = r.not_filed;
  j["quarantined"] = r.quarantined;
  j["rows"] = r.rows;
  j["dead_rows"] = r.dead_rows;
  j["uninformative_rows"] = r.uninformative_rows;
  j["unconstrained_rows"] = r.unconstrained_rows;
  j["seconds"] = {
      {"wall", r.wall}, {"lay_out", r.lay_out}, {"kernel", r.kernel}, {"oracle", r.oracle}, {"judge", r.judge}};
}

void from_json(const Json& j, TargetStats& r) {
  for (const auto& [name, one] : j.at("properties").items()) {
    PropertyStats& p = r.properties[name];
    fields(p, Read{one});
    p.ratios = by_number(one.at("ratios"));
  }
  j.at("rejections").get_to(r.rejections);
  const Json& features = j.at("features");
  features.at("cases").get_to(r.features.cases);
  features.at("rejected").get_to(r.features.rejected);
  features.at("uninformative").get_to(r.features.uninformative);
  features.at("counts").get_to(r.features.counts);
  for (const Json& cell : j.at("heat"))
    r.heat[{cell.at(0).get<int>(), cell.at(1).get<int>()}] = {cell.at(2).get<uint64_t>(),
                                                              cell.at(3).get<double>()};
  j.at("origins").get_to(r.origins);
  j.at("not_filed").get_to(r.not_filed);
  j.at("quarantined").get_to(r.quarantined);
  j.at("rows").get_to(r.rows);
  j.at("dead_rows").get_to(r.dead_rows);
  j.at("uninformative_rows").get_to(r.uninformative_rows);
  j.at("unconstrained_rows").get_to(r.unconstrained_rows);
  const Json& seconds = j.at("seconds");
  seconds.at("wall").get_to(r.wall);
  seconds.at("lay_out").get_to(r.lay_out);
  seconds.at("kernel").get_to(r.kernel);
  seconds.at("oracle").get_to(r.oracle);
  seconds.at("judge").get_to(r.judge);
}

void to_json(Json& j, const ShardStats& r) {
  j["last"] = r.last;
  j["next"] = r.next;
  j["targets"] = Json::object();
  for (const auto& [name, stats] : r.targets) j["targets"][name] = stats;
}

void from_json(const Json& j, ShardStats& r) {
  j.at("last").get_to(r.last);
  j.at("next").get_to(r.next);
  for (const auto& [name, stats] : j.at("targets").items()) stats.get_to(r.targets[name]);
}

}  // namespace attnfuzz
