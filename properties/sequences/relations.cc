#include "properties/sequences/relations.h"

#include <algorithm>

#include "properties/judge/judge.h"
#include "properties/judge/same_work.h"
#include "properties/sequences/model.h"

namespace attnfuzz::sequences {
namespace {

// Adds appends of these tokens to a session: one append for each run of consecutive numbers.
void append_runs(int64_t entry, const std::vector<int64_t>& tokens, const Step& like, std::vector<Step>& to) {
  for (size_t n = 0; n < tokens.size();) {
    size_t end = n + 1;
    while (end < tokens.size() && tokens[end] == tokens[end - 1] + 1) ++end;
    to.push_back({.verb = Verb::kAppend,
                  .entries = {entry},
                  .count = static_cast<int64_t>(end - n),
                  .token = tokens[n],
                  .kernel = like.kernel,
                  .stream = like.stream});
    n = end;
  }
}

void split(const Step& step, std::vector<Step>& to) {
  Step first = step, second = step;
  first.count = step.count / 2;
  second.count -= first.count;
  second.token += first.count;
  to.push_back(first);
  to.push_back(second);
}

// True if a later step replays step n.
bool is_replayed(const std::vector<Step>& steps, size_t n) {
  return std::ranges::any_of(
      steps, [&](const Step& s) { return s.verb == Verb::kReplay && s.count == static_cast<int64_t>(n); });
}

// Adds the counts of a second session to those of the first.
void add_calls(const SessionResult& from, SessionResult& to) {
  to.calls += from.calls;
  to.calls_of.resize(std::max(to.calls_of.size(), from.calls_of.size()));
  for (size_t n = 0; n < from.calls_of.size(); ++n) to.calls_of[n] += from.calls_of[n];
  to.worst = std::max(to.worst, from.worst);
  for (const auto& [why, n] : from.left_out) to.left_out[why] += n;
}

// Removes "step 3: " from "step 3: there are too few free pages", so that equal reasons are counted together.
std::string without_step(const std::string& why) {
  const size_t colon = why.find(": ");
  return why.starts_with("step ") && colon != why.npos ? why.substr(colon + 2) : why;
}

}  // namespace

std::optional<Session> related(const Session& session, std::string* why) {
  Session other = session;
  other.relation = Relation::kNone;
  if (session.relation == Relation::kNone) return std::nullopt;
  if (session.relation == Relation::kRenumbered) {
    other.setup.order = session.setup.order == 0 ? 1 : 0;
    return other;
  }
  other.steps.clear();
  Model model(session.setup);
  std::vector<int64_t> place;  // the index of each step in the other session
  for (size_t n = 0; n < session.steps.size(); ++n) {
    Step step = session.steps[n];
    const Step made = repeated(session.steps, n);
    place.push_back(static_cast<int64_t>(other.steps.size()));
    if (session.relation == Relation::kSplit && step.verb == Verb::kAppend && step.count > 1 &&
        !is_replayed(session.steps, n)) {
      split(step, other.steps);
    } else if (session.relation == Relation::kFresh && step.verb == Verb::kReplay) {
      other.steps.push_back(made);
    } else if (session.relation == Relation::kUnshared && step.verb == Verb::kFork) {
      other.steps.push_back({.verb = Verb::kNew, .entries = {step.entries[1]}});
      append_runs(step.entries[1], model.tokens(step.entries[0]), step, other.steps);
    } else {
      if (step.verb == Verb::kReplay) step.count = place[static_cast<size_t>(step.count)];
      other.steps.push_back(step);
    }
    model.take(made);
  }
  const std::optional<std::string> wrong =
      other.steps == session.steps ? "it changes no step of the session" : objection(other);
  if (!wrong) return other;
  if (why != nullptr) *why = *wrong;
  return std::nullopt;
}

void compare_attends(SessionResult& first, const SessionResult& second, Relation relation) {
  for (size_t n = 0; n < std::min(first.attends.size(), second.attends.size()); ++n) {
    const auto &a = first.attends[n], &b = second.attends[n];
    if (!a || !b) continue;
    if (!std::ranges::equal(a->plans, b->plans, same_work)) {
      ++first.bounded;
      continue;
    }
    for (const TensorId t : {TensorId::kO, TensorId::kLse}) {
      const auto at = first_difference(a->outputs[t], b->outputs[t]);
      if (!at) continue;
      fail(first.verdict, Kind::kRelation,
           std::string("relation '") + kRelationNames[static_cast<size_t>(relation)] +
               "': " + kTensorNames[static_cast<size_t>(t)] + " of attend " + std::to_string(n) +
               " has other bits, first at element " + std::to_string(*at));
      first.call = "relation";
      return;
    }
  }
}

SessionResult check_session(const Session& session, const SessionTargets& targets) {
  SessionResult result = run_session(session, targets);
  if (result.verdict.outcome == Outcome::kFail) return result;
  const std::string relation = std::string("relation '") + kRelationNames[static_cast<size_t>(session.relation)] + "'";
  std::string why;
  const std::optional<Session> other = related(session, &why);
  if (!other) {
    if (!why.empty()) ++result.left_out[relation + ": " + without_step(why)];
    return result;
  }
  const SessionResult second = run_session(*other, targets);
  add_calls(second, result);
  if (second.verdict.outcome == Outcome::kFail) {
    result.verdict = second.verdict;
    result.verdict.message = "in the second session of the " + relation + ": " + second.verdict.message;
    result.call = second.call, result.kernel = second.kernel, result.step = second.step;
    result.second = true;
    return result;
  }
  compare_attends(result, second, session.relation);
  return result;
}

SessionResult check_chain(const Chain& chain, const SessionTargets& targets) {
  targets.renew();
  for (const Session& session : chain.before) check_session(session, targets);
  return check_session(chain.last, targets);
}

}  // namespace attnfuzz::sequences
