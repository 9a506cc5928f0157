#include "properties/sequences/session/model.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

#include "base/random.h"
#include "properties/memory/poison.h"
#include "reference/numbers/formats.h"

namespace attnfuzz::sequences {
namespace {

constexpr int64_t kMostPages = 4096, kMostElements = int64_t{1} << 21;
constexpr int64_t kMostProducts = int64_t{1} << 33;  // the most products of an attend

std::string within(const char* what, int64_t least, int64_t most) {
  return std::string(what) + " is not between " + std::to_string(least) + " and " + std::to_string(most);
}

std::optional<std::string> wrong_entries(const Step& step) {
  const bool several = step.verb == Verb::kAppend || step.verb == Verb::kAttend;
  const size_t due = step.verb == Verb::kFork ? 2 : 1;
  if (several ? step.entries.empty() : step.entries.size() != due)
    return std::string(kVerbNames[static_cast<size_t>(step.verb)]) + " has a wrong number of sequences";
  for (size_t n = 0; n < step.entries.size(); ++n) {
    if (step.entries[n] < 0 || step.entries[n] >= kMostEntries)
      return within("a sequence", 0, kMostEntries - 1);
    if (std::find(step.entries.begin(), step.entries.begin() + static_cast<std::ptrdiff_t>(n),
                  step.entries[n]) != step.entries.begin() + static_cast<std::ptrdiff_t>(n))
      return "s" + std::to_string(step.entries[n]) + " is named twice";
  }
  return std::nullopt;
}

// Names a field that the step's verb does not use but that does not have its default; nothing if there is none.
std::optional<std::string> unused_field(const Step& step) {
  using enum Verb;
  const Verb verb = step.verb;
  const bool rows = verb == kAppend || verb == kAttend, calls = rows || verb == kMove;
  const struct {
    const char* name;
    bool used, set;
  } kFields[] = {{"count", rows || verb == kTruncate || verb == kMove || verb == kReplay, step.count != 0},
                 {"counts", rows, !step.counts.empty()},
                 {"token", rows || verb == kReplay, step.token != 0},
                 {"kernel", calls, step.kernel != 0},
                 {"stream", calls || verb == kReplay, step.stream != 0},
                 {"split", verb == kAttend, step.split != 0},
                 {"sequences", verb != kReplay, !step.entries.empty()}};
  for (const auto& [name, used, set] : kFields) {
    if (set && !used)
      return std::string("'") + kVerbNames[static_cast<size_t>(verb)] + "' has no '" + name + "'";
  }
  return std::nullopt;
}

// Says what is wrong with the counts or the split of a step; nothing if they are right.
std::optional<std::string> wrong_rows(const Step& step, const Setup& setup) {
  if (step.verb != Verb::kAttend && step.verb != Verb::kAppend) return std::nullopt;
  if (step.split < 0 || step.split > setup.pages_per_entry())
    return within("split", 0, setup.pages_per_entry());
  if (step.counts.empty()) {
    if (step.count < 1 || step.count > kMostRows) return within("count", 1, kMostRows);
    return std::nullopt;
  }
  if (step.counts.size() != step.entries.size()) return "there are not as many counts as sequences";
  if (step.count != 0) return "there are counts, and a count besides";
  for (const int64_t count : step.counts) {
    if (count < 0 || count > kMostRows) return within("a count", 0, kMostRows);
  }
  if (std::ranges::count(step.counts, 0) == std::ssize(step.counts)) return "all counts are 0";
  return std::nullopt;
}

std::optional<std::string> too_much_work(const Step& step, const Setup& setup) {
  if (step.verb != Verb::kAttend) return std::nullopt;
  int64_t rows = 0;
  for (size_t e = 0; e < step.entries.size(); ++e) rows += step.rows(e);
  if (rows * setup.heads_q * setup.capacity * (setup.dim_qk + setup.dim_v) <= kMostProducts)
    return std::nullopt;
  return "an attend of more than 2^33 products";
}

}  // namespace

std::optional<std::string> objection(const Setup& s) {
  const struct {
    const char* name;
    int64_t value, least, most;
  } kLimits[] = {{"heads_q", s.heads_q, 1, 64},       {"heads_kv", s.heads_kv, 1, 64},
                 {"dim_qk", s.dim_qk, 1, 256},        {"dim_v", s.dim_v, 1, 256},
                 {"page_size", s.page_size, 1, 1024}, {"pages", s.pages, 1, kMostPages},
                 {"capacity", s.capacity, 1, 4096},   {"beyond", s.beyond, 0, 64}};
  for (const auto& [name, value, least, most] : kLimits) {
    if (value < least || value > most) return within(name, least, most);
  }
  if (s.dtype != ATTN_F16 && s.dtype != ATTN_BF16) return "dtype is neither f16 nor bf16";
  if (s.index_dtype != ATTN_INDEX_64 && s.index_dtype != ATTN_INDEX_32)
    return "index_dtype is no width of indices";
  if (s.heads_q % s.heads_kv != 0) return "heads_kv does not divide heads_q";
  if (s.pages * s.page_size * s.heads_kv * std::max(s.dim_qk, s.dim_v) > kMostElements)
    return "the pools have more than 2^21 elements";
  return std::nullopt;
}

Step repeated(std::span<const Step> steps, size_t n) {
  const Step& step = steps[n];
  if (step.verb != Verb::kReplay) return step;
  Step again = steps[static_cast<size_t>(step.count)];
  again.token = step.token;
  again.stream = step.stream;
  return again;
}

bool replays_a_call(std::span<const Step> before, const Step& step) {
  if (step.verb != Verb::kReplay) return true;
  if (step.count < 0 || step.count >= std::ssize(before)) return false;
  const Verb verb = before[static_cast<size_t>(step.count)].verb;
  return verb == Verb::kAppend || verb == Verb::kAttend;
}

std::optional<std::string> objection(const Session& session) {
  if (auto why = objection(session.setup)) return why;
  Model model(session.setup);
  const std::span<const Step> steps = session.steps;
  for (size_t n = 0; n < steps.size(); ++n) {
    const auto where = [&](const std::string& why) { return "step " + std::to_string(n) + ": " + why; };
    if (steps[n].verb == Verb::kReplay) {
      if (const auto why = unused_field(steps[n])) return where(*why);
      if (!replays_a_call(steps.first(n), steps[n]))
        return where("it replays neither an append nor an attend before it");
    }
    const Step made = repeated(steps, n);
    if (const auto why = model.objection(made)) return where(*why);
    model.take(made);
  }
  return std::nullopt;
}

Model::Model(const Setup& setup)
    : setup_(setup),
      entries_(kMostEntries),
      references_(static_cast<size_t>(setup.pages)),
      slots_(static_cast<size_t>(setup.pages * setup.page_size), kNoToken) {
  const auto elements = static_cast<size_t>(setup.pages * setup.page_size * setup.heads_kv);
  k_.resize(elements * static_cast<size_t>(setup.dim_qk) * 2);
  v_.resize(elements * static_cast<size_t>(setup.dim_v) * 2);
  for (int64_t page = 0; page < setup.pages; ++page) {
    for (int64_t slot = 0; slot < setup.page_size; ++slot) set(page, slot, kNoToken);
  }
  for (Entry& e : entries_) e.row.assign(static_cast<size_t>(setup.columns_of_table()), -1), follow(e);
}

std::array<int64_t, 4> Model::strides(bool k) const {
  const int64_t d = k ? setup_.dim_qk : setup_.dim_v;
  const int64_t page = setup_.page_size * setup_.heads_kv * d;
  if (setup_.slots_first) return {page, d, setup_.heads_kv * d, 1};
  return {page, setup_.page_size * d, d, 1};
}

uint16_t Model::element(const Setup& setup, bool k, int64_t token, int64_t head, int64_t column) {
  const uint64_t place = static_cast<uint64_t>(token) << 20 | static_cast<uint64_t>(head) << 12 |
                         static_cast<uint64_t>(column) << 1 | (k ? 1 : 0);
  const auto number = static_cast<int64_t>(hash64(place) % 513) - 256;
  return encode16(setup.dtype, static_cast<float>(number) / 128);
}

void Model::set(int64_t page, int64_t slot, int64_t token) {
  slots_[static_cast<size_t>(page * setup_.page_size + slot)] = token;
  for (const bool k : {true, false}) {
    const std::array<int64_t, 4> stride = strides(k);
    const int64_t columns = k ? setup_.dim_qk : setup_.dim_v;
    std::vector<std::byte>& bytes = k ? k_ : v_;
    for (int64_t h = 0; h < setup_.heads_kv; ++h) {
      for (int64_t d = 0; d < columns; ++d) {
        const uint16_t bits =
            token == kNoToken ? static_cast<uint16_t>(kInputRedzone & 0xffff) : element(setup_, k, token, h, d);
        std::memcpy(&bytes[static_cast<size_t>(page * stride[0] + h * stride[1] + slot * stride[2] + d) * 2],
                    &bits, 2);
      }
    }
  }
}

int64_t Model::free_pages() const { return std::ranges::count(references_, 0); }

int64_t Model::take_page() {
  const auto left = static_cast<uint64_t>(free_pages());
  uint64_t skip = setup_.order == 0 ? 0 : hash64(setup_.order + taken_++) % left;
  int64_t page = 0;
  while (references(page) != 0 || skip-- > 0) ++page;
  references_[static_cast<size_t>(page)] = 1;
  return page;
}

void Model::release(int64_t page) {
  if (--references_[static_cast<size_t>(page)] > 0) return;
  for (int64_t slot = 0; slot < setup_.page_size; ++slot) set(page, slot, kNoToken);
}

int64_t Model::room(int64_t entry, int64_t rows) const {
  return std::min(rows, setup_.capacity - length(entry));
}

int64_t Model::pages_wanted(const Step& step) const {
  if (step.verb == Verb::kMove) return 1;
  int64_t wanted = 0;
  std::map<int64_t, int64_t> left;  // by page: how many sequences stop using it in this step
  for (size_t e = 0; e < step.entries.size(); ++e) {
    const int64_t n = step.entries[e], held = length(n), grown = held + room(n, step.rows(e));
    wanted += pages_for(grown) - pages_for(held);
    const bool partial = held % setup_.page_size != 0 && grown > held;
    if (!partial || references(pages(n).back()) - left[pages(n).back()] <= 1) continue;
    ++left[pages(n).back()];
    ++wanted;
  }
  return wanted;
}

std::optional<std::string> Model::objection(const Step& step) const {
  if (auto why = unused_field(step)) return why;
  if (auto why = wrong_entries(step)) return why;
  const auto name = [&](size_t n) { return "s" + std::to_string(step.entries[n]); };
  if (step.stream != 0 && step.stream != 1) return within("stream", 0, 1);
  if (step.kernel < 0 || step.kernel >= kMostKernels) return within("kernel", 0, kMostKernels - 1);
  if (step.token < 0 || step.token > kMostTokens) return within("token", 0, kMostTokens);
  const bool begins = step.verb == Verb::kNew;
  if (begins && live(step.entries[0])) return name(0) + " is there already";
  if (step.verb == Verb::kFork && live(step.entries[1])) return name(1) + " is there already";
  if (auto why = wrong_rows(step, setup_)) return why;
  if (auto why = too_much_work(step, setup_)) return why;
  if (step.verb == Verb::kAttend || begins) return std::nullopt;
  for (size_t n = 0; n < (step.verb == Verb::kFork ? 1 : step.entries.size()); ++n) {
    if (!live(step.entries[n])) return name(n) + " is not there";
  }
  const int64_t first = step.entries[0];
  if (step.verb == Verb::kTruncate && (step.count < 0 || step.count > length(first)))
    return name(0) + " does not have so many tokens";
  if (step.verb == Verb::kMove && (step.count < 0 || step.count >= static_cast<int64_t>(pages(first).size())))
    return name(0) + " does not have so many pages";
  if ((step.verb == Verb::kMove || step.verb == Verb::kAppend) && pages_wanted(step) > free_pages())
    return "there are too few free pages";
  return std::nullopt;
}

std::vector<CopiedPage> Model::make_room(const Step& step) {
  std::vector<CopiedPage> pairs;
  const auto replace = [&](Entry& e, size_t n) {
    const int64_t old = e.pages[n];
    e.pages[n] = take_page();
    pairs.push_back({old, e.pages[n]});
    emptied_.push_back(old);
  };
  if (step.verb == Verb::kMove) {
    Entry& e = entry(step.entries[0]);
    replace(e, static_cast<size_t>(step.count));
    follow(e);
  }
  if (step.verb != Verb::kAppend) return pairs;
  for (size_t at = 0; at < step.entries.size(); ++at) {
    const int64_t n = step.entries[at];
    Entry& e = entry(n);
    const int64_t held = length(n), grown = held + room(n, step.rows(at));
    const bool partial = held % setup_.page_size != 0 && grown > held;
    // Another sequence may have left the page earlier in this step.
    const bool shared =
        partial && references(e.pages.back()) - std::ranges::count(emptied_, e.pages.back()) > 1;
    if (shared) replace(e, e.pages.size() - 1);
    while (static_cast<int64_t>(e.pages.size()) < pages_for(grown)) e.pages.push_back(take_page());
    follow(e);
  }
  return pairs;
}

void Model::copy(std::span<const CopiedPage> pairs) {
  for (const auto& [from, to] : pairs) {
    for (int64_t slot = 0; slot < setup_.page_size; ++slot) set(to, slot, token_at(from, slot));
  }
}

void Model::finish(const Step& step) {
  for (const int64_t page : emptied_) release(page);
  emptied_.clear();
  if (step.verb == Verb::kAttend) return;
  Entry& e = entry(step.entries[0]);
  switch (step.verb) {
    case Verb::kNew:
      e.live = true;
      break;
    case Verb::kAppend:
      for (size_t n = 0; n < step.entries.size(); ++n) {
        Entry& to = entry(step.entries[n]);
        const int64_t rows = room(step.entries[n], step.rows(n));
        for (int64_t i = 0; i < rows; ++i) {
          const auto key = static_cast<int64_t>(to.tokens.size());
          to.tokens.push_back(step.token + static_cast<int64_t>(n) * kTokensOfEntry + i);
          set(to.pages[static_cast<size_t>(key / setup_.page_size)], key % setup_.page_size, to.tokens.back());
        }
      }
      break;
    case Verb::kFork: {
      Entry& to = entry(step.entries[1]);
      to.live = true;
      to.tokens = e.tokens;
      to.pages = e.pages;
      for (const int64_t page : to.pages) ++references_[static_cast<size_t>(page)];
      follow(to);
      break;
    }
    case Verb::kTruncate:
      truncate(e, step.count);
      break;
    case Verb::kFree:
      truncate(e, 0);
      e.live = false;
      break;
    default:
      break;
  }
}

void Model::truncate(Entry& e, int64_t length) {
  e.tokens.resize(static_cast<size_t>(length));
  while (static_cast<int64_t>(e.pages.size()) > pages_for(length)) {
    release(e.pages.back());
    e.pages.pop_back();
  }
  if (length % setup_.page_size != 0 && references(e.pages.back()) == 1) {
    for (int64_t slot = length % setup_.page_size; slot < setup_.page_size; ++slot)
      set(e.pages.back(), slot, kNoToken);
  }
  follow(e);
}

int64_t Model::junk(const Entry& e, size_t column) const {
  switch (setup_.tail) {
    case Tail::kFirst:
      return 0;
    case Tail::kMinusOne:
      return -1;
    case Tail::kLargest:
      return std::numeric_limits<int32_t>::max();
    default:
      return e.row[column];
  }
}

void Model::follow(Entry& e) {
  for (size_t n = 0; n < e.row.size(); ++n) e.row[n] = n < e.pages.size() ? e.pages[n] : junk(e, n);
}

}  // namespace attnfuzz::sequences
