// The campaign's records as JSON: for archive.cc alone.
#pragma once

#include <nlohmann/json.hpp>

#include "fuzz/campaign/store/archive.h"

namespace attnfuzz {

using Json = nlohmann::ordered_json;

// Each pair: to_json never fails; from_json throws nlohmann::json::exception on
// what is missing or of the wrong type.
void to_json(Json& j, const TargetRecord& r);
void from_json(const Json& j, TargetRecord& r);
void to_json(Json& j, const Machine& r);
void from_json(const Json& j, Machine& r);
void to_json(Json& j, const Session& r);
void from_json(const Json& j, Session& r);
void to_json(Json& j, const CampaignHeader& r);
void from_json(const Json& j, CampaignHeader& r);
void to_json(Json& j, const SeriesLine& r);
void from_json(const Json& j, SeriesLine& r);
void to_json(Json& j, const TargetStats& r);
void from_json(const Json& j, TargetStats& r);
void to_json(Json& j, const ShardStats& r);
void from_json(const Json& j, ShardStats& r);
void to_json(Json& j, const CorpusEntry& r);
void from_json(const Json& j, CorpusEntry& r);
void to_json(Json& j, const Crash& r);
void from_json(const Json& j, Crash& r);
void to_json(Json& j, const Finding& r);
void from_json(const Json& j, Finding& r);
void to_json(Json& j, const Canary& r);
void from_json(const Json& j, Canary& r);

}  // namespace attnfuzz
