#include "properties/sequences/session/story.h"

#include <algorithm>
#include <set>

#include "properties/sequences/session/model.h"

namespace attnfuzz::sequences {
namespace {

// The slots that an append has written for an entry that had `held` tokens: "page 2, slots 13..15".
std::string slots_of(const Model& model, int64_t page_size, int64_t entry, int64_t held) {
  std::string text;
  for (int64_t key = held; key < model.length(entry);) {
    const int64_t slot = key % page_size,
                  last = std::min(page_size - slot, model.length(entry) - key) + slot - 1;
    text += "; page " + std::to_string(model.pages(entry)[static_cast<size_t>(key / page_size)]) +
            (last == slot ? ", slot " : ", slots ") + std::to_string(slot) +
            (last == slot ? "" : ".." + std::to_string(last));
    key += last - slot + 1;
  }
  return text.empty() ? "; no room for s" + std::to_string(entry) : text;
}

}  // namespace

std::vector<std::string> story(const Session& session) {
  std::vector<std::string> lines;
  Model model(session.setup);
  for (size_t n = 0; n < session.steps.size(); ++n) {
    const Step made = repeated(session.steps, n);
    std::vector<int64_t> held;
    for (const int64_t entry : made.entries) held.push_back(model.length(entry));
    const std::vector<CopiedPage> pairs = model.make_room(made);
    model.copy(pairs);
    model.finish(made);
    std::string notes;
    for (const auto& [from, to] : pairs)
      notes += "; copies page " + std::to_string(from) + " to " + std::to_string(to);
    for (size_t e = 0; made.verb == Verb::kAppend && e < made.entries.size(); ++e)
      notes += slots_of(model, session.setup.page_size, made.entries[e], held[e]);
    for (size_t e = 0; made.verb == Verb::kAttend && e < made.entries.size(); ++e)
      notes += (e == 0 ? "; over " : ", ") + std::to_string(held[e]);
    if (made.verb == Verb::kAttend) notes += " keys";
    if (!notes.empty()) notes[0] = ':';
    lines.push_back(std::to_string(n) + "  " + describe(session.steps[n]) + notes);
  }
  return lines;
}

int64_t pages_used(const Session& session) {
  std::set<int64_t> used;
  Model model(session.setup);
  for (size_t n = 0; n < session.steps.size(); ++n) {
    const Step made = repeated(session.steps, n);
    model.take(made);
    for (int64_t entry = 0; entry < kMostEntries; ++entry)
      used.insert(model.pages(entry).begin(), model.pages(entry).end());
  }
  return static_cast<int64_t>(used.size());
}

}  // namespace attnfuzz::sequences
