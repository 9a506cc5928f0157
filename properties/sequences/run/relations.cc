#include "properties/sequences/run/relations.h"

#include <algorithm>
#include <span>
#include <utility>

#include "properties/judge/judge.h"
#include "properties/judge/same_work.h"
#include "properties/sequences/session/model.h"

namespace attnfuzz::sequences {
namespace {

// Adds appends of these tokens to a session: one append for each run of consecutive numbers.
void append_runs(int64_t entry, const std::vector<int64_t>& tokens, const Step& like, std::vector<Step>& to) {
  for (size_t n = 0; n < tokens.size();) {
    size_t end = n + 1;
    while (end < tokens.size() && std::cmp_less(end - n, kMostRows) && tokens[end] == tokens[end - 1] + 1)
      ++end;
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

// Writes a truncation as a new sequence: free, new, and appends of the tokens that stay.
void refill(const Step& step, std::vector<int64_t> tokens, std::vector<Step>& to) {
  tokens.resize(static_cast<size_t>(step.count));
  to.push_back({.verb = Verb::kFree, .entries = step.entries});
  to.push_back({.verb = Verb::kNew, .entries = step.entries});
  append_runs(step.entries[0], tokens, step, to);
}

// Returns the number of queries of the decode, which is the second of two attends. It has half of the step's
// queries, or one query if their number is odd. The first attend is the prefill.
int64_t queries_decoded(const Step& step) { return step.count % 2 == 0 ? step.count / 2 : 1; }

// True if the step is an attend that can be divided in two: it is one call over one sequence, and each of its
// queries has a token.
bool decodes(const Step& step, const Model& model) {
  return step.verb == Verb::kAttend && step.entries.size() == 1 && step.counts.empty() && step.split == 0 &&
         step.count > 1 && model.live(step.entries[0]) && step.count <= model.length(step.entries[0]);
}

// Writes an attend as two. The sequence's last tokens are cut off before the first attend, and appended again
// before the second.
void decode_last(const Step& step, const std::vector<int64_t>& tokens, std::vector<Step>& to) {
  const int64_t last = queries_decoded(step), kept = std::ssize(tokens) - last;
  to.push_back({.verb = Verb::kTruncate, .entries = step.entries, .count = kept});
  Step first = step, second = step;
  first.count -= last, second.count = last, second.token += first.count;
  to.push_back(first);
  append_runs(step.entries[0], {tokens.begin() + kept, tokens.end()}, step, to);
  to.push_back(second);
}

// True if a later step replays step n.
bool is_replayed(const std::vector<Step>& steps, size_t n) {
  return std::ranges::any_of(
      steps, [&](const Step& s) { return s.verb == Verb::kReplay && s.count == static_cast<int64_t>(n); });
}

// Joins consecutive attends of one sequence: each head gets the rows of the first, then those of the next.
// Returns nothing if one of the attends was left out.
std::optional<Attended> joined(std::span<const std::optional<Attended>> parts, int64_t heads) {
  if (parts.size() == 1) return parts[0];
  Attended all;
  for (const std::optional<Attended>& part : parts) {
    if (!part) return std::nullopt;
    all.plans.insert(all.plans.end(), part->plans.begin(), part->plans.end());
  }
  for (const TensorId t : {TensorId::kO, TensorId::kLse}) {
    for (int64_t h = 0; h < heads; ++h) {
      for (const std::optional<Attended>& part : parts) {
        const std::vector<float>& from = part->outputs[t];
        const std::ptrdiff_t of_head = std::ssize(from) / heads;
        all.outputs[t].insert(all.outputs[t].end(), from.begin() + h * of_head,
                              from.begin() + (h + 1) * of_head);
      }
    }
  }
  return all;
}

// True if the plans of both attends promise equal bits. If `b` was joined from two parts, the plan of each part
// is compared with the one plan of `a`.
bool same_plans(const Attended& a, const Attended& b) {
  if (a.plans.size() == b.plans.size()) return std::ranges::equal(a.plans, b.plans, same_work);
  return a.plans.size() == 1 &&
         std::ranges::all_of(b.plans, [&](const attn_plan& p) { return same_work(a.plans[0], p); });
}

// Adds the counts of a second session to those of the first.
void add_calls(const SessionResult& from, SessionResult& to) {
  to.calls += from.calls;
  to.told += from.told;
  add(from.counts, to.counts);
  to.worst = std::max(to.worst, from.worst);
  for (const auto& [why, n] : from.left_out) to.left_out[why] += n;
}

std::string name_of(Relation relation) {
  return std::string("relation '") + kRelationNames[static_cast<size_t>(relation)] + "'";
}

// Removes "step 3: " from "step 3: there are too few free pages", so that equal reasons are counted together.
std::string without_step(const std::string& why) {
  const size_t colon = why.find(": ");
  return why.starts_with("step ") && colon != why.npos ? why.substr(colon + 2) : why;
}

}  // namespace

std::optional<SecondSession> related(const Session& session, std::string* why) {
  if (session.relation == Relation::kNone) return std::nullopt;
  SecondSession second{.session = session, .parts = {}};
  Session& other = second.session;
  other.relation = Relation::kNone;
  if (session.relation == Relation::kRenumbered) {
    other.setup.order = session.setup.order == 0 ? 1 : 0;
    return second;
  }
  other.steps.clear();
  Model model(session.setup);
  std::vector<int64_t> place;  // the index of each step in the other session
  for (size_t n = 0; n < session.steps.size(); ++n) {
    Step step = session.steps[n];
    const Step made = repeated(session.steps, n);
    place.push_back(static_cast<int64_t>(other.steps.size()));
    size_t parts = 1;
    if (session.relation == Relation::kSplit && step.verb == Verb::kAppend && step.count > 1 &&
        !is_replayed(session.steps, n)) {
      split(step, other.steps);
    } else if (session.relation == Relation::kFresh && step.verb == Verb::kReplay) {
      other.steps.push_back(made);
    } else if (session.relation == Relation::kUnshared && step.verb == Verb::kFork) {
      other.steps.push_back({.verb = Verb::kNew, .entries = {step.entries[1]}});
      append_runs(step.entries[1], model.tokens(step.entries[0]), step, other.steps);
    } else if (session.relation == Relation::kRefilled && step.verb == Verb::kTruncate) {
      refill(step, model.tokens(step.entries[0]), other.steps);
    } else if (session.relation == Relation::kDecoded && decodes(step, model) &&
               !is_replayed(session.steps, n)) {
      decode_last(step, model.tokens(step.entries[0]), other.steps);
      parts = 2;
    } else {
      if (step.verb == Verb::kReplay) step.count = place[static_cast<size_t>(step.count)];
      other.steps.push_back(step);
    }
    if (made.verb == Verb::kAttend) second.parts.push_back(parts);
    model.take(made);
  }
  const std::optional<std::string> wrong = other.steps == session.steps ? "it changes no step of the session"
                                           : other.steps.size() > kMostSteps ? "its second session is too long"
                                                                             : objection(other);
  if (!wrong) return second;
  if (why != nullptr) *why = *wrong;
  return std::nullopt;
}

void compare_attends(SessionResult& first, const SessionResult& second, const Session& session,
                     const std::vector<size_t>& parts) {
  const std::string relation = name_of(session.relation);
  size_t next = 0;  // attend of the second session
  for (size_t n = 0; n < first.attends.size(); ++n) {
    const size_t count = n < parts.size() ? parts[n] : 1, begin = std::exchange(next, next + count);
    if (next > second.attends.size()) {
      first.left_out[relation + ": the second form ended early"] += first.attends.size() - n;
      return;
    }
    const std::optional<Attended>& a = first.attends[n];
    const std::optional<Attended> b = joined({&second.attends[begin], count}, session.setup.heads_q);
    if (!a || !b) continue;
    if (!same_plans(*a, *b)) {
      ++first.bounded;
      continue;
    }
    for (const TensorId t : {TensorId::kO, TensorId::kLse}) {
      if (a->outputs[t].empty() || b->outputs[t].empty()) continue;  // an LSE that a kernel does not give
      const auto at = first_difference(a->outputs[t], b->outputs[t]);
      if (!at) continue;
      fail(first.verdict, Kind::kRelation,
           relation + ": " + kTensorNames[static_cast<size_t>(t)] + " of attend " + std::to_string(n) +
               " has other bits, first at element " + std::to_string(*at));
      first.call = "relation";
      return;
    }
  }
}

SessionResult check_session(const Session& session, const SessionTargets& targets) {
  SessionResult result = run_session(session, targets);
  if (result.verdict.outcome == Outcome::kFail) return result;
  const std::string relation = name_of(session.relation);
  std::string why;
  const std::optional<SecondSession> other = related(session, &why);
  if (!other) {
    if (!why.empty()) ++result.left_out[relation + ": " + without_step(why)];
    return result;
  }
  const SessionResult second = run_session(other->session, targets);
  add_calls(second, result);
  if (second.verdict.outcome == Outcome::kFail) {
    result.verdict = second.verdict;
    result.verdict.message = "in the second session of the " + relation + ": " + second.verdict.message;
    result.call = second.call, result.kernel = second.kernel, result.step = second.step;
    result.second = true;
    return result;
  }
  compare_attends(result, second, session, other->parts);
  return result;
}

SessionResult check_chain(const Chain& chain, const SessionTargets& targets) {
  targets.renew();
  for (const Session& session : chain.before) check_session(session, targets);
  return check_session(chain.last, targets);
}

}  // namespace attnfuzz::sequences
