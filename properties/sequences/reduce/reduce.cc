#include "properties/sequences/reduce/reduce.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "properties/sequences/session/model.h"

namespace attnfuzz::sequences {
namespace {

class Reduction {
 public:
  Reduction(const Session& session, const SessionResult& failed, const CheckSession& check, double seconds)
      : best_{session, failed},
        check_(check),
        end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}

  ReducedSession run() {
    // Steps after the failing one are not needed.
    if (best_.session.relation == Relation::kNone) {
      Session shorter = best_.session;
      shorter.steps.resize(std::min(shorter.steps.size(), best_.result.step + 1));
      take(std::move(shorter));
    }
    while (in_time()) {
      const Session before = best_.session;
      without_relation();
      fewer_steps();
      fewer_appends();
      joined_appends();
      fewer_sequences();
      simpler_steps();
      smaller_setup();
      if (best_.session == before) break;
    }
    return std::move(best_);
  }

 private:
  using Clock = std::chrono::steady_clock;

  bool in_time() const { return Clock::now() < end_; }

  // Keeps a candidate that differs and fails in the same way.
  bool take(Session candidate) {
    if (!in_time()) return false;
    candidate = repaired(candidate);
    if (candidate == best_.session || candidate.steps.empty() || objection(candidate)) return false;
    ++best_.evaluations;
    SessionResult result = check_(candidate);
    if (!same_failure(result, best_.result)) return false;
    best_.session = std::move(candidate);
    best_.result = std::move(result);
    return true;
  }

  void without_relation() {
    Session candidate = best_.session;
    candidate.relation = Relation::kNone;
    take(std::move(candidate));
  }

  void fewer_steps() {
    for (size_t chunk = std::max<size_t>(best_.session.steps.size() / 2, 1); chunk > 0; chunk /= 2) {
      for (size_t end = best_.session.steps.size(); end > 0;) {
        const size_t begin = end > chunk ? end - chunk : 0;
        Session candidate = best_.session;
        for (size_t n = begin; n < end; ++n) drop_step(candidate, begin);
        const bool fewer = take(candidate);
        // Without the removed step, pages get other numbers. So also try other orders of pages.
        for (uint64_t order = 1; !fewer && chunk == 1 && candidate.setup.order != 0 && order <= 3; ++order) {
          candidate.setup.order = order;
          if (take(candidate)) break;
        }
        end = std::min(begin, best_.session.steps.size());
      }
    }
  }

  // Merges two consecutive appends into one, also if the second replays the first.
  void fewer_appends() {
    for (size_t n = best_.session.steps.size(); n-- > 1;) {
      if (n >= best_.session.steps.size()) continue;
      Session candidate = best_.session;
      Step& first = candidate.steps[n - 1];
      const Step second = repeated(candidate.steps, n);
      if (first.verb != Verb::kAppend || second.verb != Verb::kAppend || first.entries != second.entries)
        continue;
      if (!first.counts.empty() || !second.counts.empty()) continue;
      first.count += second.count;
      drop_step(candidate, n);
      take(std::move(candidate));
    }
  }

  // Joins two appends to different sequences into one append, at the place of the later one.
  void joined_appends() {
    for (size_t n = best_.session.steps.size(); n-- > 1;) {
      for (size_t m = std::min(n, best_.session.steps.size()); m-- > 0 && n < best_.session.steps.size();) {
        Session candidate = best_.session;
        Step& later = candidate.steps[n];
        const Step first = candidate.steps[m];
        if (first.verb != Verb::kAppend || later.verb != Verb::kAppend || first.count != later.count) continue;
        if (!first.counts.empty() || !later.counts.empty()) continue;
        if (std::ranges::find_first_of(first.entries, later.entries) != first.entries.end()) continue;
        later.entries.insert(later.entries.begin(), first.entries.begin(), first.entries.end());
        drop_step(candidate, m);
        if (take(std::move(candidate))) break;
      }
    }
  }

  // Merges two sequences into one. Steps that are no longer legal, such as the second `new`, are removed.
  void fewer_sequences() {
    for (int64_t from = kMostEntries - 1; from > 0; --from) {
      Session candidate = best_.session;
      for (Step& step : candidate.steps) std::ranges::replace(step.entries, from, from - 1);
      if (candidate != best_.session) take(std::move(candidate));
    }
  }

  template <class Change>
  bool try_step(size_t n, Change change) {
    if (n >= best_.session.steps.size()) return false;
    Session candidate = best_.session;
    change(candidate.steps[n]);
    return take(std::move(candidate));
  }

  // Makes a number smaller: tries `least`, then half, then one less.
  template <class Get>
  void less(int64_t least, Get get) {
    for (bool smaller = true; smaller && in_time();) {
      smaller = false;
      const int64_t now = get(best_.session);
      for (const int64_t value : {least, least + (now - least) / 2, now - 1}) {
        if (value < least || value >= now || smaller) continue;
        Session candidate = best_.session;
        get(candidate) = value;
        smaller = take(std::move(candidate));
      }
    }
  }

  void simpler_steps() {
    for (size_t n = 0; n < best_.session.steps.size(); ++n) {
      try_step(n, [](Step& s) { s.kernel = 0; });
      try_step(n, [](Step& s) { s.stream = 0; });
      if (n >= best_.session.steps.size()) break;
      for (size_t e = best_.session.steps[n].entries.size(); e-- > 0;) {
        if (n >= best_.session.steps.size()) break;
        const Verb verb = best_.session.steps[n].verb;
        if (verb != Verb::kAppend && verb != Verb::kAttend) break;
        if (e >= best_.session.steps[n].entries.size()) continue;
        try_step(n, [&](Step& s) {
          s.entries.erase(s.entries.begin() + static_cast<std::ptrdiff_t>(e));
          if (!s.counts.empty()) s.counts.erase(s.counts.begin() + static_cast<std::ptrdiff_t>(e));
        });
      }
      try_step(n, [](Step& s) {
        if (s.verb == Verb::kFork) s = {.verb = Verb::kNew, .entries = {s.entries[1]}};
      });
      try_step(n, [](Step& s) {
        if (s.verb == Verb::kMove || s.verb == Verb::kFree)
          s = {.verb = Verb::kTruncate, .entries = {s.entries[0]}};
      });
      try_step(n, [](Step& s) {
        for (int64_t& entry : s.entries) entry = std::min<int64_t>(entry, entry > 0 ? entry - 1 : 0);
      });
      if (n < best_.session.steps.size() && best_.session.steps[n].verb == Verb::kReplay)
        try_step(n, [call = repeated(best_.session.steps, n)](Step& s) { s = call; });
      simpler_rows(n);
      if (n >= best_.session.steps.size()) break;
      const Verb verb = best_.session.steps[n].verb;
      const bool counted = verb == Verb::kAppend || verb == Verb::kAttend;
      if ((counted && best_.session.steps[n].counts.empty()) || verb == Verb::kTruncate || verb == Verb::kMove)
        less(counted ? 1 : 0,
             [n](Session& s) -> int64_t& { return s.steps[std::min(n, s.steps.size() - 1)].count; });
    }
    renumber();
  }

  // Simplifies a step's rows: dense instead of packed, fewer rows, one call instead of two.
  void simpler_rows(size_t n) {
    try_step(n, [](Step& s) {
      if (!s.counts.empty()) s.count = std::ranges::max(std::exchange(s.counts, {}));
    });
    for (size_t e = 0; e < static_cast<size_t>(kMostEntries); ++e) {
      for (const int64_t count : {1, 0}) {
        try_step(n, [&](Step& s) {
          if (e < s.counts.size()) s.counts[e] = std::min(s.counts[e], count);
        });
      }
    }
    for (const int64_t split : {1, 0}) try_step(n, [&](Step& s) { s.split = std::min(s.split, split); });
  }

  // Renumbers sequences in the order in which they begin, and tokens in the order of appends.
  void renumber() {
    Session candidate = best_.session;
    std::vector<int64_t> names;
    int64_t token = 0;
    for (Step& step : candidate.steps) {
      for (int64_t& entry : step.entries) {
        if (std::ranges::find(names, entry) == names.end()) names.push_back(entry);
        entry = std::ranges::find(names, entry) - names.begin();
      }
      if (step.token != 0) step.token = ++token * kMostEntries * kTokensOfEntry;
    }
    take(std::move(candidate));
  }

  void smaller_setup() {
    const auto change = [&](auto set) {
      Session candidate = best_.session;
      set(candidate.setup);
      take(std::move(candidate));
    };
    change([](Setup& s) { s.heads_q = s.heads_kv; });
    change([](Setup& s) { s.heads_q = s.heads_kv = 1; });
    change([](Setup& s) { s.dtype = ATTN_F16; });
    change([](Setup& s) { s.dim_v = s.dim_qk; });
    change([](Setup& s) { s.dim_qk = s.dim_v = 1; });
    change([](Setup& s) { s.index_dtype = ATTN_INDEX_64; });
    change([](Setup& s) { s.slots_first = false; });
    change([](Setup& s) { s.order = 0; });
    change([](Setup& s) { s.tail = Tail::kFirst; });
    change([](Setup& s) { s.workspace = Workspace::kNan; });
    for (const int64_t size : {1, 4, 16}) {
      change([&](Setup& s) {
        if (s.page_size > size) s.page_size = size;
      });
    }
    for (int64_t Setup::* member :
         {&Setup::beyond, &Setup::page_size, &Setup::capacity, &Setup::pages, &Setup::dim_qk, &Setup::dim_v})
      less(member == &Setup::beyond ? 0 : 1, [member](Session& s) -> int64_t& { return s.setup.*member; });
  }

  ReducedSession best_;
  const CheckSession& check_;
  const Clock::time_point end_;
};

}  // namespace

bool same_failure(const SessionResult& a, const SessionResult& b) {
  return a.verdict.outcome == b.verdict.outcome && a.call == b.call && a.kernel == b.kernel &&
         std::string_view(kind_class(a.verdict.kind)) == kind_class(b.verdict.kind);
}

void drop_step(Session& session, size_t n) {
  session.steps.erase(session.steps.begin() + static_cast<std::ptrdiff_t>(n));
  for (Step& step : session.steps) {
    if (step.verb != Verb::kReplay) continue;
    if (step.count == static_cast<int64_t>(n)) step.count = -1;  // repaired() removes it
    if (step.count > static_cast<int64_t>(n)) --step.count;
  }
}

Session repaired(const Session& session) {
  Session out = session;
  if (objection(session.setup)) return out;
  out.steps.clear();
  Model model(session.setup);
  std::vector<int64_t> place;  // the index of each step in `out`; -1 if it was removed
  for (Step step : session.steps) {
    if (step.verb == Verb::kReplay) {
      const bool known = step.count >= 0 && step.count < std::ssize(place);
      step.count = known ? place[static_cast<size_t>(step.count)] : -1;
    }
    if (!replays_a_call(out.steps, step)) {
      place.push_back(-1);
      continue;
    }
    out.steps.push_back(step);
    const Step made = repeated(out.steps, out.steps.size() - 1);
    if (model.objection(made)) {
      out.steps.pop_back();
      place.push_back(-1);
      continue;
    }
    place.push_back(static_cast<int64_t>(out.steps.size()) - 1);
    model.take(made);
  }
  return out;
}

ReducedSession reduce_session(const Session& session, const SessionResult& failed, const CheckSession& check,
                              double seconds) {
  return Reduction(session, failed, check, seconds).run();
}

}  // namespace attnfuzz::sequences
