#include "properties/sequences/run/tell.h"

#include "base/json.h"
#include "properties/sequences/session/codec.h"

namespace attnfuzz::sequences {
namespace {

Json told(const Setup& setup, bool begins, size_t n, const Step& step) {
  return {{"begins", begins}, {"setup", json_of(setup)}, {"step", n}, {"sequences", step.entries}};
}

}  // namespace

std::string tell_call(const Setup& setup, bool begins, size_t n, const Call& call) {
  Json json = told(setup, begins, n, call.step);
  json["call"] = call.name;
  json["planned"] = call.planned;
  return json_text(json, -1);
}

std::string tell_step(const Setup& setup, bool begins, size_t n, const Step& step) {
  Json json = told(setup, begins, n, step);
  json["do"] = kVerbNames[static_cast<size_t>(step.verb)];
  json["count"] = step.count;
  return json_text(json, -1);
}

}  // namespace attnfuzz::sequences
