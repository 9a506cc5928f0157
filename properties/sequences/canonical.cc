#include "properties/sequences/canonical.h"

#include <algorithm>

#include "properties/sequences/model.h"

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

// A few pages of several keys, so that neither a page nor the capacity is full.
Setup roomy(Setup setup) {
  setup.page_size = 4, setup.pages = 4, setup.capacity = 12;
  setup.beyond = 0;
  setup.order = 0;
  setup.tail = Tail::kFirst;
  return setup;
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
  size_t steps = chain.last.steps.size();
  for (const Session& session : chain.before) steps += session.steps.size();
  std::vector<Session> sessions;
  for (const Form& form : forms) {
    if (chain.before.empty() && has_verbs(chain.last, form)) break;
    if (form.size() > steps) continue;
    for (const Setup& setup : {roomy(chain.last.setup), chain.last.setup}) {
      const Session session = {setup, with_tokens(form)};
      if (!objection(session)) sessions.push_back(session);
    }
  }
  return sessions;
}

}  // namespace attnfuzz::sequences
