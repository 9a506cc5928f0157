#include "properties/sequences/relations.h"

#include <algorithm>

#include "properties/judge/judge.h"
#include "properties/sequences/model.h"

namespace attnfuzz::sequences {
namespace {

// Appends these tokens: runs of neighbouring numbers, an append each.
void append_runs(int64_t entry, const std::vector<int64_t>& tokens, const Step& like, std::vector<Step>& to) {
  for (size_t n = 0; n < tokens.size();) {
    size_t end = n + 1;
    while (end < tokens.size() && tokens[end] == tokens[end - 1] + 1) ++end;
    to.push_back({Verb::kAppend, {entry}, static_cast<int64_t>(end - n), tokens[n], like.kernel, like.stream});
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

}  // namespace

std::optional<Session> related(const Session& session) {
  Session other = session;
  other.relation = Relation::kNone;
  if (session.relation == Relation::kNone) return std::nullopt;
  if (session.relation == Relation::kRenumbered) {
    other.setup.order = session.setup.order == 0 ? 1 : 0;
    return other;
  }
  other.steps.clear();
  Model model(session.setup);
  std::vector<int64_t> place;  // of each step in the other session
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
      other.steps.push_back({Verb::kNew, {step.entries[1]}, 0, 0, 0, 0});
      append_runs(step.entries[1], model.tokens(step.entries[0]), step, other.steps);
    } else {
      if (step.verb == Verb::kReplay) step.count = place[static_cast<size_t>(step.count)];
      other.steps.push_back(step);
    }
    model.copy(model.make_room(made));
    model.finish(made);
  }
  if (other.steps == session.steps || objection(other)) return std::nullopt;
  return other;
}

SessionResult check_session(const Session& session, const SessionTargets& targets) {
  SessionResult result = run_session(session, targets);
  if (result.verdict.outcome == Outcome::kFail) return result;
  const std::optional<Session> other = related(session);
  if (!other) return result;
  SessionResult second = run_session(*other, targets);
  result.calls += second.calls;
  const std::string name = kRelationNames[static_cast<size_t>(session.relation)];
  if (second.verdict.outcome == Outcome::kFail) {
    result.verdict = second.verdict;
    result.verdict.message = "in the session of the relation '" + name + "': " + second.verdict.message;
    result.call = second.call, result.kernel = second.kernel;
    return result;
  }
  for (size_t n = 0; n < std::min(result.attends.size(), second.attends.size()); ++n) {
    if (!result.attends[n] || !second.attends[n]) continue;
    for (const TensorId t : {TensorId::kO, TensorId::kLse}) {
      const auto at = first_difference((*result.attends[n])[t], (*second.attends[n])[t]);
      if (!at) continue;
      fail(result.verdict, Kind::kRelation,
           "relation '" + name + "': " + kTensorNames[static_cast<size_t>(t)] + " of attend " + std::to_string(n) +
               " has other bits, first at element " + std::to_string(*at));
      result.call = "relation";
      return result;
    }
  }
  return result;
}

}  // namespace attnfuzz::sequences
