#include "properties/sequences/reduce/canonical.h"

#include <algorithm>

#include "properties/sequences/session/model.h"

namespace attnfuzz::sequences {
namespace {

using Form = std::vector<Step>;  // without the numbers of tokens

const Step kBegin = {.verb = Verb::kNew, .entries = {0}},
           kOne = {.verb = Verb::kAppend, .entries = {0}, .count = 1},
           kTwo = {.verb = Verb::kAppend, .entries = {0}, .count = 2},
           kLook = {.verb = Verb::kAttend, .entries = {0}, .count = 1};
Step cut(int64_t left) { return {.verb = Verb::kTruncate, .entries = {0}, .count = left}; }
Step replay(int64_t step) { return {.verb = Verb::kReplay, .count = step}; }

const std::vector<Form>& forms_of_append() {
  static const std::vector<Form> forms = {
      {kBegin, kOne},
      {kBegin, kTwo},
      {kBegin, kOne, kOne},
      {kBegin, kOne, replay(1)},
      {kBegin, kOne, cut(0), kOne},
      {kBegin, kTwo, cut(1), kOne},
  };
  return forms;
}

const std::vector<Form>& forms_of_attend() {
  static const std::vector<Form> forms = {
      {kBegin, kLook},
      {kBegin, kOne, kLook},
      {kBegin, kTwo, kLook},
      {kBegin, kOne, kLook, kLook},
      {kBegin, kOne, kLook, kOne, kLook},
      {kBegin, kOne, kLook, kOne, replay(2)},
      {kBegin, kTwo, kLook, cut(1), kLook},
  };
  return forms;
}

Form with_tokens(Form steps) {
  int64_t token = 0;
  for (Step& step : steps) {
    if (step.verb == Verb::kAppend || step.verb == Verb::kAttend || step.verb == Verb::kReplay)
      step.token = ++token * kMostEntries * kTokensOfEntry;
  }
  return steps;
}

// The verbs of all steps. A session before the last one ends with a further step, which frees its sequences, as
// a truncate to 0 does.
std::vector<Verb> verbs_of(const Chain& chain) {
  std::vector<Verb> verbs;
  for (const Session& session : chain.before) {
    for (const Step& step : session.steps) verbs.push_back(step.verb);
    verbs.push_back(Verb::kTruncate);
  }
  for (const Step& step : chain.last.steps) verbs.push_back(step.verb);
  return verbs;
}

bool is_usual(Verb verb) { return verb == Verb::kNew || verb == Verb::kAppend || verb == Verb::kAttend; }

// True if the form may show the bug of a chain with these verbs: it has fewer steps, or as many of the same
// verbs, and no special verb of its own. A bug of forks is otherwise replaced by another one of truncates.
bool may_replace(const std::vector<Verb>& verbs, const Form& form) {
  const auto known = [&](const Step& step) {
    return is_usual(step.verb) || std::ranges::find(verbs, step.verb) != verbs.end();
  };
  if (!std::ranges::all_of(form, known)) return false;
  return form.size() < verbs.size() || std::ranges::is_permutation(form, verbs, {}, &Step::verb);
}

bool has_verbs(const Session& session, const Form& form) {
  return std::ranges::equal(session.steps, form, {}, &Step::verb, &Step::verb);
}

}  // namespace

std::vector<Session> canonical_sessions(const Chain& chain, std::string_view call) {
  static const std::vector<Form> kNone;
  const std::vector<Form>& forms = call == "append"    ? forms_of_append()
                                   : call == "forward" ? forms_of_attend()
                                                       : kNone;
  const std::vector<Verb> verbs = verbs_of(chain);
  Setup setup = chain.last.setup;
  for (const Session& session : chain.before) setup.capacity = std::max(setup.capacity, session.setup.capacity);
  setup.pages = std::max<int64_t>(setup.pages, 4);
  std::vector<Session> sessions;
  for (const Form& form : forms) {
    if (chain.before.empty() && has_verbs(chain.last, form)) break;
    const Session session = {setup, with_tokens(form)};
    if (may_replace(verbs, form) && !objection(session)) sessions.push_back(session);
  }
  return sessions;
}

}  // namespace attnfuzz::sequences
