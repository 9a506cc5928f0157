#include "properties/sequences/session/codec.h"

#include <algorithm>
#include <span>

#include "base/json.h"
#include "base/printable.h"
#include "properties/sequences/session/model.h"

namespace attnfuzz::sequences {
namespace {

constexpr const char* kMark = "attnfuzz_calls";

struct Wrong {
  std::string message;
};

// Reads an object field by field. finish() refuses fields that were not read.
class Reader {
 public:
  Reader(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) throw Wrong{where_ + " is no object"};
  }
  void integer(const char* name, int64_t& to) {
    if (const Json* value = find(name)) to = whole(name, *value);
  }
  void integers(const char* name, size_t most, std::vector<int64_t>& to) {
    if (const Json* values = list(name, most)) {
      for (const Json& value : *values) to.push_back(whole(name, value));
    }
  }
  void flag(const char* name, bool& to) {
    if (const Json* value = find(name)) {
      if (!value->is_boolean()) throw Wrong{where_ + ": '" + name + "' is neither true nor false"};
      to = value->get<bool>();
    }
  }
  void text(const char* name, std::string& to) {
    if (const Json* value = find(name)) {
      if (!value->is_string()) throw Wrong{where_ + ": '" + name + "' is no string"};
      to = value->get<std::string>();
    }
  }
  template <class Enum>
  void word(const char* name, std::span<const char* const> names, Enum& to) {
    if (find(name) == nullptr) return;
    std::string given;
    text(name, given);
    const auto at = std::ranges::find_if(names, [&](const char* each) { return given == each; });
    if (at == names.end())
      throw Wrong{where_ + ": '" + name + "' is no word that is known: " + printable(given, 40)};
    to = static_cast<Enum>(at - names.begin());
  }
  // The array of this name; nullptr if there is none.
  const Json* list(const char* name, size_t most) {
    const Json* value = find(name);
    if (value != nullptr && (!value->is_array() || value->size() > most))
      throw Wrong{where_ + ": '" + name + "' is no list of at most " + std::to_string(most)};
    return value;
  }
  const Json* find(const char* name) {
    known_.push_back(name);
    const auto at = object_.find(name);
    return at == object_.end() ? nullptr : &*at;
  }
  void finish() const {
    for (const auto& [name, value] : object_.items()) {
      if (std::ranges::find(known_, name) == known_.end())
        throw Wrong{where_ + " has the unknown field '" + printable(name, 60) + "'"};
    }
  }

 private:
  int64_t whole(const char* name, const Json& value) const {
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t{1} << 62);
    if (!fits) throw Wrong{where_ + ": '" + name + "' is no integer: " + brief(value)};
    return value.get<int64_t>();
  }

  const Json& object_;
  const std::string where_;
  std::vector<std::string> known_;
};

constexpr const char* kDtypes[] = {"f16", "bf16"};
constexpr const char* kWidths[] = {"index_64", "index_32"};

// The integer fields of a setup and of a step, by name.
constexpr std::pair<const char*, int64_t Setup::*> kSizes[] = {
    {"heads_q", &Setup::heads_q},   {"heads_kv", &Setup::heads_kv},   {"dim_qk", &Setup::dim_qk},
    {"dim_v", &Setup::dim_v},       {"page_size", &Setup::page_size}, {"pages", &Setup::pages},
    {"capacity", &Setup::capacity}, {"beyond", &Setup::beyond}};
constexpr std::pair<const char*, int64_t Step::*> kNumbers[] = {{"count", &Step::count},
                                                                {"token", &Step::token},
                                                                {"kernel", &Step::kernel},
                                                                {"stream", &Step::stream},
                                                                {"split", &Step::split}};

Setup setup_of(const Json& json) {
  Reader in(json, "setup");
  Setup s;
  for (const auto& [name, member] : kSizes) in.integer(name, s.*member);
  auto order = static_cast<int64_t>(s.order);
  in.integer("order", order);
  if (order < 0) throw Wrong{"setup: 'order' is negative"};
  s.order = static_cast<uint64_t>(order);
  in.word("dtype", kDtypes, s.dtype);
  in.word("index_dtype", kWidths, s.index_dtype);
  in.flag("slots_first", s.slots_first);
  in.word("tail", kTailNames, s.tail);
  in.word("workspace", kWorkspaceNames, s.workspace);
  in.finish();
  return s;
}

Step step_of(const Json& json, size_t n) {
  Reader in(json, "step " + std::to_string(n));
  Step step;
  const Json* verb = in.find("do");
  if (verb == nullptr) throw Wrong{"step " + std::to_string(n) + " has no 'do'"};
  in.word("do", kVerbNames, step.verb);
  for (const auto& [name, member] : kNumbers) in.integer(name, step.*member);
  in.integers("sequences", static_cast<size_t>(kMostEntries), step.entries);
  in.integers("counts", static_cast<size_t>(kMostEntries), step.counts);
  in.finish();
  return step;
}

// Reads the fields of a session. They are the same for the last session of a file and for those before it.
Session session_of(Reader& in) {
  Session session;
  if (const Json* setup = in.find("setup")) session.setup = setup_of(*setup);
  if (const Json* steps = in.list("steps", kMostSteps)) {
    for (size_t n = 0; n < steps->size(); ++n) session.steps.push_back(step_of((*steps)[n], n));
  }
  in.word("relation", kRelationNames, session.relation);
  return session;
}

FoundSession found_of(const Json& json) {
  Reader in(json, "found");
  FoundSession found;
  in.text("kind", found.kind);
  in.text("message", found.message);
  in.text("backend", found.backend);
  in.text("build", found.build);
  in.text("call", found.call);
  if (const Json* kernels = in.list("kernels", 64)) {
    for (const Json& kernel : *kernels) {
      if (!kernel.is_string()) throw Wrong{"found: a kernel is no string"};
      found.kernels.push_back(kernel.get<std::string>());
    }
  }
  in.finish();
  return found;
}

SessionFile file_of(const Json& json) {
  Reader in(json, "the file");
  int64_t version = 0;
  in.integer(kMark, version);
  if (in.find(kMark) == nullptr)
    throw Wrong{"this is no file of a sequence of calls: it has no field '" + std::string(kMark) + "'"};
  if (version != kSessionVersion)
    throw Wrong{"'" + std::string(kMark) + "' is version " + std::to_string(version) +
                "; this attnfuzz reads version " + std::to_string(kSessionVersion)};
  SessionFile file;
  if (const Json* before = in.list("before", kMostBefore)) {
    for (size_t n = 0; n < before->size(); ++n) {
      const std::string where = "before, sequence of calls " + std::to_string(n);
      Reader of((*before)[n], where);
      file.chain.before.push_back(session_of(of));
      of.finish();
      if (const auto why = objection(file.chain.before.back())) throw Wrong{where + ": " + *why};
    }
  }
  file.chain.last = session_of(in);
  if (const Json* found = in.find("found")) file.found = found_of(*found);
  in.finish();
  if (const auto why = objection(file.chain.last)) throw Wrong{*why};
  return file;
}

}  // namespace

Json json_of(const Setup& s) {
  const Setup none;
  Json setup = Json::object();
  for (const auto& [name, member] : kSizes) {
    if (s.*member != none.*member) setup[name] = s.*member;
  }
  if (s.dtype != none.dtype) setup["dtype"] = kDtypes[s.dtype == ATTN_BF16 ? 1 : 0];
  if (s.index_dtype != none.index_dtype) setup["index_dtype"] = kWidths[s.index_dtype];
  if (s.order != none.order) setup["order"] = s.order;
  if (s.slots_first) setup["slots_first"] = true;
  if (s.tail != none.tail) setup["tail"] = kTailNames[static_cast<size_t>(s.tail)];
  if (s.workspace != none.workspace) setup["workspace"] = kWorkspaceNames[static_cast<size_t>(s.workspace)];
  return setup;
}

namespace {

Json json_of(const Session& session) {
  Json json = {{"setup", json_of(session.setup)}, {"steps", Json::array()}};
  for (const Step& step : session.steps) {
    Json j = {{"do", kVerbNames[static_cast<size_t>(step.verb)]}};
    if (!step.entries.empty()) j["sequences"] = step.entries;
    if (!step.counts.empty()) j["counts"] = step.counts;
    for (const auto& [name, member] : kNumbers) {
      if (step.*member != 0) j[name] = step.*member;
    }
    json["steps"].push_back(j);
  }
  if (session.relation != Relation::kNone)
    json["relation"] = kRelationNames[static_cast<size_t>(session.relation)];
  return json;
}

}  // namespace

std::string encode(const Chain& chain, const FoundSession& found) {
  Json json = {{kMark, kSessionVersion}};
  for (const Session& session : chain.before) json["before"].push_back(json_of(session));
  json.update(json_of(chain.last));
  if (found != FoundSession{}) {
    json["found"] = Json::object();
    if (!found.kernels.empty()) json["found"]["kernels"] = found.kernels;
    if (!found.kind.empty()) json["found"]["kind"] = found.kind;
    if (!found.message.empty()) json["found"]["message"] = found.message;
    if (!found.backend.empty()) json["found"]["backend"] = found.backend;
    if (!found.build.empty()) json["found"]["build"] = found.build;
    if (!found.call.empty()) json["found"]["call"] = found.call;
  }
  return json_text(json, 1) + "\n";
}

std::variant<SessionFile, DecodeError> decode_session(std::string_view text) {
  auto parsed = parse_json(text);
  if (auto* error = std::get_if<DecodeError>(&parsed)) return *error;
  try {
    return file_of(std::get<Json>(parsed));
  } catch (const Wrong& wrong) {
    return DecodeError{wrong.message};
  }
}

bool holds_session(std::string_view text) {
  auto parsed = parse_json(text);
  const Json* json = std::get_if<Json>(&parsed);
  return json != nullptr && json->is_object() && json->contains(kMark);
}

}  // namespace attnfuzz::sequences
