#include "properties/reduce/need.h"

#include <array>
#include <stdexcept>

namespace attnfuzz {
namespace {

constexpr std::array<const char*, 5> kRelations = {"as it is", "at least", "exactly", "remainder",
                                                   "other than"};

}  // namespace

const char* to_string(Relation relation) { return kRelations[static_cast<size_t>(relation)]; }

std::string line_of(const Need& need) {
  return "needs " + need.text + (need.refused ? " (the kernel refuses it otherwise)" : "");
}

std::vector<std::string> lines_of(const std::vector<Need>& needs) {
  std::vector<std::string> lines;
  for (const Need& need : needs) lines.push_back(line_of(need));
  return lines;
}

void to_json(Json& json, const Need& need) {
  json = {{"part", need.part}, {"relation", to_string(need.relation)}};
  if (need.value != 0) json["value"] = need.value;
  if (need.period != 0) json["period"] = need.period;
  if (need.least != 0) json["least"] = need.least;
  if (need.refused) json["refused"] = true;
  json["text"] = need.text;
}

void from_json(const Json& json, Need& need) {
  need = {};
  if (json.is_string()) {
    // An earlier version wrote a line for people, without a part.
    need.text = json.get<std::string>();
    constexpr std::string_view kBegin = "needs ";
    if (need.text.starts_with(kBegin)) need.text.erase(0, kBegin.size());
    return;
  }
  json.at("part").get_to(need.part);
  const std::string relation = json.at("relation").get<std::string>();
  size_t n = 0;
  while (n < kRelations.size() && relation != kRelations[n]) ++n;
  if (n == kRelations.size())
    throw std::invalid_argument("there is no relation \"" + relation.substr(0, 40) + "\"");
  need.relation = static_cast<Relation>(n);
  need.value = json.value("value", int64_t{0});
  need.period = json.value("period", int64_t{0});
  need.least = json.value("least", int64_t{0});
  need.refused = json.value("refused", false);
  json.at("text").get_to(need.text);
}

}  // namespace attnfuzz
