#include "python/native/cases.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <variant>

#include "cli/options/terms.h"
#include "properties/case/codec/codec.h"
#include "properties/case/features/domain.h"
#include "properties/case/features/feature.h"
#include "properties/case/words.h"
#include "properties/draw/covering.h"
#include "properties/draw/draw.h"
#include "properties/draw/generator.h"
#include "properties/memory/layout.h"
#include "properties/operations/operation.h"

using namespace attnfuzz;

struct attnfuzz_cases {
  Terms terms;
  GeneratorConfig config;
  const Operation* operation = nullptr;
  attn_plan plan = {};  // its lse_base and lse_dead are the domain's
  Arena arena;
  std::optional<LaidOut> laid;
  std::string json, words;
};

namespace {

attn_domain everything() {
  attn_domain domain = {};
  domain.size = sizeof domain;
  return domain;
}

Terms terms_of(const std::string& words) {
  Terms terms;
  terms.domain = everything();
  return words.empty() ? terms : parse_domain(words);
}

// The intersection of both domains. Throws std::invalid_argument if it is empty.
attn_domain both(const attn_domain& declared, const attn_domain& asked) {
  const auto within = narrowed(declared, asked);
  if (const auto* why = std::get_if<std::string>(&within))
    throw std::invalid_argument("no case is left within: " + *why);
  return std::get<attn_domain>(within);
}

Case moved_inside(Case c, const attn_domain& domain, const Refused& refused) {
  strip_refused(refused, c);
  fit(domain, c);
  lay_within(domain, c);
  tidy(c);
  if (illegal(c)) {
    // Strides of the drawn case need not fit the smaller one.
    c.layout = {};
    lay_within(domain, c);
  }
  if (const auto why = illegal(c)) throw std::runtime_error("no such case can be laid out: " + *why);
  return c;
}

// Turns a drawn forward call into a call of the operation.
Case as_operation(Case c, const attnfuzz_cases& cases, const attn_domain& domain) {
  if (cases.operation->shape == nullptr) return c;
  make_call(*cases.operation, c, cases.config.features);
  shaped_within(domain, c);
  lay_within(domain, c);
  if (const auto why = illegal(c)) throw std::runtime_error("no such case of the operation: " + *why);
  return c;
}

Case drawn_case(const attnfuzz_cases& cases, uint64_t seed, uint64_t index, const std::string& within) {
  Case c = moved_inside(draw(cases.config, seed, index), cases.terms.domain, cases.terms.refused);
  if (within.empty()) return as_operation(c, cases, cases.terms.domain);
  const Terms narrower = parse_domain(within);
  Refused refused = cases.terms.refused;
  refused.those.insert(refused.those.end(), narrower.refused.those.begin(), narrower.refused.those.end());
  const attn_domain domain = both(cases.terms.domain, narrower.domain);
  return as_operation(moved_inside(c, domain, refused), cases, domain);
}

// Fills in the inputs that are computed from other inputs: a saved O and LSE.
void prepare(attnfuzz_cases& cases) {
  LaidOut& laid = *cases.laid;
  laid.follow(cases.plan);
  if (cases.operation->prepare == nullptr) return;
  cases.operation->prepare(
      laid.problem(), laid.tensors(), cases.plan,
      [&](TensorId t, std::vector<std::byte> elements) { laid.derive(t, std::move(elements)); });
}

}  // namespace

attnfuzz_cases* attnfuzz_cases_open(const char* domain, int64_t tile_q, int64_t tile_k, int64_t work,
                                    uint64_t features, char* text, uint64_t size) {
  try {
    if (std::min({tile_q, tile_k, work}) < 1) throw std::invalid_argument("tiles and work must be at least 1");
    auto cases = std::make_unique<attnfuzz_cases>();
    cases->terms = terms_of(domain);
    cases->config = {.tiles_q = {tile_q}, .tiles_k = {tile_k}};
    cases->config.never = cases->terms.refused.those;
    cases->config.domain = cases->terms.domain;
    cases->config.features = features;
    cases->operation = operation_for(0, features);
    if (cases->operation == nullptr) throw std::invalid_argument("there is no operation of these features");
    cases->plan = parse_errors(cases->terms.errors);
    cases->plan.tile_q = tile_q;
    cases->plan.tile_k = tile_k;
    cases->config.work = std::max(work, least_work(cases->terms.domain));
    cases->config.covering = std::make_shared<Covering>(cases->config);
    return cases.release();
  } catch (const std::exception& e) {
    std::snprintf(text, size, "%s", e.what());
    return nullptr;
  }
}

int32_t attnfuzz_cases_draw(attnfuzz_cases* cases, uint64_t seed, uint64_t index, const char* within,
                            attnfuzz_drawn* drawn, char* text, uint64_t size) {
  try {
    cases->laid.reset();
    const Case c = drawn_case(*cases, seed, index, within);
    cases->laid.emplace(c, cases->arena);
    prepare(*cases);
    cases->json = encode(c);
    cases->words = describe(c);
    *drawn = {cases->laid->problem(), cases->laid->tensors(), c.env.sm_count, 0,
              cases->json.c_str(),    cases->words.c_str()};
    return 0;
  } catch (const std::exception& e) {
    std::snprintf(text, size, "%s", e.what());
    return -1;
  }
}

void attnfuzz_cases_close(attnfuzz_cases* cases) { delete cases; }
