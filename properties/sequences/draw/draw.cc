#include "properties/sequences/draw/draw.h"

#include <algorithm>

#include "properties/case/features/domain.h"
#include "properties/sequences/draw/choices.h"
#include "properties/sequences/session/model.h"

namespace attnfuzz::sequences {
namespace {

constexpr int64_t kEntries = 4;  // the most sequences of a drawn session

// Moves heads, dims and the format into a domain. A setup that would not be legal stays as it is, and the
// kernel refuses its calls.
void draw_within(const attn_domain& domain, Rng& rng, Setup& s) {
  Case c;
  Problem& p = c.problem;
  p.dtype = s.dtype;
  p.heads_q = s.heads_q, p.heads_kv = s.heads_kv;
  p.dim_qk = s.dim_qk, p.dim_v = s.dim_v;
  attnfuzz::draw_within(domain, rng, c);
  Setup moved = s;
  moved.dtype = p.dtype;
  moved.heads_q = p.heads_q, moved.heads_kv = p.heads_kv;
  moved.dim_qk = p.dim_qk, moved.dim_v = p.dim_v;
  if (domain.layout == ATTN_LAYOUT_DENSE) moved.slots_first = false;
  if (!objection(moved)) s = moved;
}

Setup draw_setup(Rng& rng, uint64_t features, std::span<const attn_domain> domains) {
  Setup s;
  s.dtype = rng.percent(50) ? ATTN_F16 : ATTN_BF16;
  s.heads_kv = rng.weighted<int64_t>({{50, 1}, {30, 2}, {20, 3}});
  s.heads_q = s.heads_kv * rng.weighted<int64_t>({{50, 1}, {30, 2}, {20, 4}});
  s.dim_qk = rng.weighted<int64_t>({{30, 16}, {20, 8}, {20, 32}, {15, 64}, {15, rng.range(1, 40)}});
  s.dim_v = rng.percent(75) ? s.dim_qk : rng.range(1, 40);
  s.page_size = rng.weighted<int64_t>({{40, 16}, {15, 1}, {15, 4}, {10, 32}, {20, rng.range(2, 24)}});
  s.capacity = s.page_size * rng.range(1, 4) + (rng.percent(50) ? 0 : rng.range(0, s.page_size));
  s.beyond = rng.weighted<int64_t>({{60, 0}, {40, rng.range(1, 3)}});
  // Enough pages for all sequences even if they share none, and for copies.
  s.pages = kEntries * (s.pages_per_entry() + 1) + rng.range(0, 3);
  if ((features & ATTN_FEATURE_INDEX32) != 0 && rng.percent(50)) s.index_dtype = ATTN_INDEX_32;
  s.slots_first = rng.percent(50);
  s.order = rng.percent(60) ? rng.range(1, 1'000'000) : 0;
  s.tail = static_cast<Tail>(rng.range(0, 3));
  s.workspace = static_cast<Workspace>(rng.range(0, 2));
  for (const attn_domain& domain : domains) draw_within(domain, rng, s);
  return s;
}

int64_t draw_tokens(Rng& rng, const Setup& s) {
  return rng.weighted<int64_t>({{35, rng.range(1, 3)},
                                {25, rng.range(1, s.page_size)},
                                {15, s.page_size},
                                {15, s.page_size + rng.range(1, 3)},
                                {10, s.capacity + rng.range(-1, 2)}});
}

// At most `most` live sequences, in order from a random one on.
std::vector<int64_t> some_live(Rng& rng, const Model& model, int64_t most) {
  std::vector<int64_t> live;
  const int64_t first = rng.range(0, kEntries - 1);
  for (int64_t n = 0; n < kEntries; ++n) {
    const int64_t entry = (first + n) % kEntries;
    if (model.live(entry) && static_cast<int64_t>(live.size()) < most) live.push_back(entry);
  }
  return live;
}

// Sometimes adds an entry without a live sequence. It has no key.
void add_absent(Rng& rng, const Model& model, std::vector<int64_t>& entries) {
  const int64_t entry = rng.range(0, kEntries - 1);
  if (!model.live(entry)) entries.push_back(entry);
}

// Gives some appends and attends packed rows, and splits some attends into two calls, if the kernels' features
// allow it.
void draw_form(Rng& rng, const Setup& setup, uint64_t features, Step& step) {
  if ((features & ATTN_FEATURE_RAGGED) != 0 && rng.percent(25)) {
    for (size_t e = 0; e < step.entries.size(); ++e)
      step.counts.push_back(rng.percent(20) ? 0 : rng.range(0, step.count));
    step.count = 0;
  }
  if ((features & ATTN_FEATURE_MERGE) != 0 && step.verb == Verb::kAttend && rng.percent(25))
    step.split = rng.range(1, setup.pages_per_entry());
}

Step draw_step(Rng& rng, const Setup& setup, const Model& model, uint64_t features,
               const std::vector<Step>& before) {
  Step step;
  step.verb = rng.weighted<Verb>({{10, Verb::kNew},
                                  {30, Verb::kAppend},
                                  {26, Verb::kAttend},
                                  {9, Verb::kFork},
                                  {8, Verb::kTruncate},
                                  {5, Verb::kFree},
                                  {5, Verb::kMove},
                                  {12, Verb::kReplay}});
  const std::vector<int64_t> live =
      some_live(rng, model, rng.weighted<int64_t>({{50, 1}, {30, 2}, {20, kEntries}}));
  const std::vector<int64_t> first(live.begin(), live.empty() ? live.end() : live.begin() + 1);
  switch (step.verb) {
    case Verb::kNew:
      step.entries = {rng.range(0, kEntries - 1)};
      break;
    case Verb::kAppend:
      step.entries = live;
      step.count = std::max<int64_t>(draw_tokens(rng, setup), 1);
      break;
    case Verb::kAttend:
      step.entries = live;
      if (rng.percent(10)) add_absent(rng, model, step.entries);
      step.count = rng.weighted<int64_t>({{60, 1}, {25, rng.range(2, 8)}, {15, rng.range(9, 40)}});
      break;
    case Verb::kFork:
      step.entries = first;
      step.entries.push_back(rng.range(0, kEntries - 1));
      break;
    case Verb::kTruncate:
      step.entries = first;
      step.count = live.empty() ? 0 : rng.range(0, model.length(live[0]));
      break;
    case Verb::kMove:
      step.entries = first;
      step.count = live.empty() ? 0 : rng.range(0, std::max<int64_t>(std::ssize(model.pages(live[0])) - 1, 0));
      break;
    case Verb::kReplay:
      step.count = before.empty() ? 0 : rng.range(0, std::ssize(before) - 1);
      break;
    default:
      step.entries = first;
      break;
  }
  const bool rows = step.verb == Verb::kAppend || step.verb == Verb::kAttend,
             replays = step.verb == Verb::kReplay;
  if (rows) draw_form(rng, setup, features, step);
  if (rows || replays) step.token = (std::ssize(before) + 1) * kMostEntries * kTokensOfEntry;
  if (rows || step.verb == Verb::kMove) step.kernel = rng.range(0, kMostKernels - 1);
  if (rows || replays || step.verb == Verb::kMove) step.stream = rng.percent(25) ? 1 : 0;
  return step;
}

}  // namespace

Session draw_session(uint64_t seed, uint64_t features, std::span<const attn_domain> domains) {
  SeededRng rng(seed);
  return draw_session(rng, features, domains);
}

Session draw_session(Rng& rng, uint64_t features, std::span<const attn_domain> domains) {
  Session s;
  s.setup = draw_setup(rng, features, domains);
  Model model(s.setup);
  const int64_t due = rng.range(6, 24);
  // Many tries are needed for the first step, because only `new` is legal on an empty cache.
  for (int tries = 0; tries < 400 && static_cast<int64_t>(s.steps.size()) < due; ++tries) {
    const Step step = draw_step(rng, s.setup, model, features, s.steps);
    if (!replays_a_call(s.steps, step)) continue;
    s.steps.push_back(step);
    const Step made = repeated(s.steps, s.steps.size() - 1);
    if (model.objection(made)) {
      s.steps.pop_back();
      continue;
    }
    model.take(made);
  }
  if (rng.percent(40)) s.relation = static_cast<Relation>(rng.range(1, kRelations - 1));
  return s;
}

}  // namespace attnfuzz::sequences
