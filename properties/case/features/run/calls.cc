// Several calls on the same memory, each with a clean or a dirty workspace and on one of two streams.
#include <algorithm>

#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

constexpr auto kCallsFields = [](auto& c) { return std::tie(c.calls); };

bool any_dirty(const Case& c) { return std::ranges::any_of(c.calls, &Call::dirty_workspace); }
bool second_stream(const Case& c) {
  return std::ranges::any_of(c.calls, [](const Call& call) { return call.stream != 0; });
}

}  // namespace

extern constinit const Feature calls = checked({
    .without = {kShrinkIntegers, kCanonicalSeeds, kNumbers, kMutations, kRefusals},
    .shrink_toggles = {2,
                       {{"a dirty workspace", any_dirty,
                         [](Case& c) {
                           for (Call& call : c.calls) call.dirty_workspace = false;
                         },
                         [](Case& to, const Case&, int choice) {
                           to.calls.back().dirty_workspace = true;
                           return choice == 0;
                         }},
                        {"a second stream", second_stream,
                         [](Case& c) {
                           for (Call& call : c.calls) call.stream = 0;
                         },
                         [](Case& to, const Case&, int choice) {
                           to.calls.back().stream = 1;
                           return choice == 0;
                         }},
                        {"more calls", [](const Case& c) { return c.calls.size() > 1; },
                         [](Case& c) { c.calls.resize(1); },
                         [](Case& to, const Case& from, int choice) {
                           if (choice > 1) return false;
                           to.calls = from.calls;
                           if (choice == 0) to.calls = {Call{}, Call{.dirty_workspace = any_dirty(from)}};
                           return true;
                         },
                         Trait::kCounted}}},
    .alternatives = {{"number of calls", [](const Case& c) { return c.calls.size() == 1; }, {[](Case& c) {
                        c.calls.resize(2);
                      }}},
                     {"workspace contents",
                      [](const Case& c) { return !c.calls[0].dirty_workspace; },
                      {[](Case& c) { c.calls[0].dirty_workspace = true; }}}},
    .cost =
        [](const Case& c, Cost& cost) {
          int dirty = 0, streams = 0;
          for (const Call& call : c.calls) {
            dirty += call.dirty_workspace;
            streams += call.stream;
          }
          cost.at(Rank::kCalls).add(static_cast<int64_t>(c.calls.size()));
          cost.add(dirty);
          cost.add(streams);
          cost.at(Rank::kCallOrder);
          for (const Call& call : c.calls) {
            cost.add(call.dirty_workspace);
            cost.add(call.stream);
          }
        },
    .draw = {Phase::kMemory,
             [](const DrawContext& context, Case& c) {
               Rng& rng = context.rng;
               if (!rng.percent(10) || has_many_heads(c.problem)) return;
               const int64_t calls = rng.range(1, 3);
               c.calls.clear();
               for (int64_t i = 0; i < calls; ++i)
                 c.calls.push_back({rng.coin(), static_cast<int>(rng.range(0, 1))});
             }},
    .crossover_groups = {{"calls", 3, take<kCallsFields>}},
    .tags = {{"repeated calls", [](const Tiled& x) { return x.c.calls.size() > 1; }, TagUse::kBoth},
             {"dirty workspace", [](const Tiled& x) { return any_dirty(x.c); }}},
    .words = {{Section::kCalls, 0,
               [](const Case& c, Sentence& words) {
                 const size_t calls = c.calls.size();
                 std::string text = calls == 1 ? "1 call" : cat(calls, " calls");
                 if (any_dirty(c) && calls > 1)
                   text += cat(", ", std::ranges::count_if(c.calls, &Call::dirty_workspace));
                 if (any_dirty(c)) text += " on a dirty workspace";
                 if (second_stream(c)) text += ", two streams";
                 words.push_back(text);
               }}},
    .tidy =
        [](Case& c) {
          if (c.calls.empty()) c.calls.push_back(Call{});
        },
    .illegal = [](const Case& c) -> Complaint {
      if (auto why = outside("the number of calls", static_cast<int64_t>(c.calls.size()), 1, 64)) return why;
      for (const Call& call : c.calls) {
        if (auto why = outside("calls.stream", call.stream, 0, 1)) return why;
      }
      return std::nullopt;
    },
});

}  // namespace attnfuzz::feature
