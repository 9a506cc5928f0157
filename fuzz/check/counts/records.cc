#include "fuzz/check/counts/records.h"

#include <limits>
#include <stdexcept>

#include "base/json.h"
#include "properties/case/codec/codec.h"

namespace attnfuzz {

void to_json(Json& j, const Case& c) { j = json_of(encode(c)); }

void from_json(const Json& j, Case& c) {
  auto decoded = decode(json_text(j));
  if (auto* error = std::get_if<DecodeError>(&decoded)) throw std::runtime_error(error->message);
  c = std::get<Case>(std::move(decoded));
}

void to_json(Json& j, const RatioHistogram& r) {
  j = {{"runs", r.count()}, {"median", r.median()}, {"worst", r.worst()}, {"buckets", r.buckets()}};
}

void to_json(Json& j, const Covered::Share& share) {
  j = {{"met", share.met}, {"legal", share.legal}, {"percent", share.percent()}};
}

void from_json(const Json& j, Covered::Share& share) {
  j.at("met").get_to(share.met);
  j.at("legal").get_to(share.legal);
}

void from_json(const Json& j, RatioHistogram& r) {
  const Json& worst = j.at("worst");
  r = {j.at("buckets").get<RatioHistogram::Buckets>(),
       worst.is_null() ? std::numeric_limits<double>::infinity() : worst.get<double>()};
}

}  // namespace attnfuzz
