#include "fuzz/targets/unit.h"

#include "properties/case/codec/codec.h"
#include "properties/draw/mutate.h"
#include "properties/reduce/reproducer.h"

namespace attnfuzz {
namespace {

constexpr int kTries = 8;

// The first of a few texts that is short enough; else that of the simplest case.
template <class Make>
std::string short_enough(size_t most, Make make) {
  for (uint64_t i = 0; i < kTries; ++i) {
    std::string text = encode(make(i));
    if (text.size() <= most) return text;
  }
  std::string simplest = encode(Case{});
  return simplest.size() <= most ? simplest : "";
}

}  // namespace

std::optional<Case> case_of(std::string_view unit, std::string* why) {
  auto bare = decode(unit);
  if (auto* c = std::get_if<Case>(&bare)) return std::move(*c);
  auto whole = decode_reproducer(unit);
  if (auto* r = std::get_if<Reproducer>(&whole)) return std::move(r->c);
  if (why) {
    *why = "neither a case (" + std::get<DecodeError>(bare).message + ") nor a reproducer (" +
           std::get<DecodeError>(whole).message + ")";
  }
  return std::nullopt;
}

std::string mutated(std::string_view unit, const GeneratorConfig& config, uint64_t seed, size_t most) {
  const std::optional<Case> c = case_of(unit);
  return short_enough(most, [&](uint64_t i) {
    const uint64_t other = seed + i * 0x9e3779b97f4a7c15;
    return c ? mutate(*c, config, other) : draw(config, other, unit.size());
  });
}

std::string crossed(std::string_view a, std::string_view b, const GeneratorConfig& config, uint64_t seed,
                    size_t most) {
  const std::optional<Case> mother = case_of(a), father = case_of(b);
  if (!mother || !father) return mutated(mother ? a : b, config, seed, most);
  return short_enough(
      most, [&](uint64_t i) { return cross(*mother, *father, config, seed + i * 0x9e3779b97f4a7c15); });
}

}  // namespace attnfuzz
