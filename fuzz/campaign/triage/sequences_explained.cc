#include "fuzz/campaign/triage/sequences_explained.h"

#include "properties/sequences/reduce/reduce.h"

namespace attnfuzz {
namespace {

constexpr const char *kPackedWord = "packed", *kDividedWord = "divided";

std::string relation_word(const sequences::Session& session) {
  return std::string("relation ") + sequences::kRelationNames[static_cast<size_t>(session.relation)];
}

std::string verb_word(const sequences::Step& step) {
  return sequences::kVerbNames[static_cast<size_t>(step.verb)];
}

bool is_usual(sequences::Verb verb) {
  return verb == sequences::Verb::kNew || verb == sequences::Verb::kAppend || verb == sequences::Verb::kAttend;
}

sequences::Session without(sequences::Session session, const std::set<std::string>& words) {
  if (words.contains(relation_word(session))) session.relation = sequences::Relation::kNone;
  for (size_t n = session.steps.size(); n-- > 0;) {
    sequences::Step& step = session.steps[n];
    if (words.contains(kDividedWord)) step.split = 0;
    const bool special = !is_usual(step.verb) && words.contains(verb_word(step));
    if (special || (!step.counts.empty() && words.contains(kPackedWord))) sequences::drop_step(session, n);
  }
  return sequences::repaired(session);
}

}  // namespace

std::set<std::string> words_of(const sequences::Session& session) {
  std::set<std::string> words;
  if (session.relation != sequences::Relation::kNone) words.insert(relation_word(session));
  for (const sequences::Step& step : session.steps) {
    words.insert(verb_word(step));
    if (!step.counts.empty()) words.insert(kPackedWord);
    if (step.split > 0) words.insert(kDividedWord);
  }
  return words;
}

std::optional<sequences::Chain> without_special(const sequences::Chain& chain,
                                                const std::set<std::string>& words) {
  sequences::Chain other = {without(chain.last, words), {}};
  for (const sequences::Session& session : chain.before) other.before.push_back(without(session, words));
  if (other == chain) return std::nullopt;
  return other;
}

}  // namespace attnfuzz
