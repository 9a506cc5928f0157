#include "properties/operations/forward/relations/storage/packed_tools.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/geometry.h"
#include "properties/case/places/packed.h"
#include "properties/judge/same_work.h"

namespace attnfuzz::relations {
namespace {

attn_plan of_a_row(attn_plan plan) {
  std::string path = plan.path;
  for (const std::string_view word : {"ragged ", "paged "}) {
    if (const size_t at = path.find(word); at != path.npos) path.erase(at, word.size());
  }
  std::snprintf(plan.path, sizeof plan.path, "%s", path.c_str());
  // With one split the number of tiles does not matter: it has all keys.
  if (plan.num_splits == 1) plan.split_tiles = 0;
  return plan;
}

// True if `agree` holds for all heads and queries of both entries. It stops at the first for which it does not.
bool all_rows(const Run& a, int64_t b_a, const Run& b, int64_t b_b, auto&& agree) {
  const Problem &of_a = a.c.problem, &of_b = b.c.problem;
  const int64_t queries = lengths_of(of_a, b_a).queries;
  for (int64_t h = 0; h < of_a.heads_q; ++h) {
    for (int64_t i = 0; i < queries; ++i) {
      if (!agree(RowSpace(of_a).of(b_a, h, i), RowSpace(of_b).of(b_b, h, i))) return false;
    }
  }
  return true;
}

bool one_agrees(Trial& trial, const Run& a, int64_t row_a, const Run& b, int64_t row_b, std::string_view what) {
  return same_work_on_rows(trial, a, b) ? trial.same_bits(a, row_a, b, row_b, what)
                                 : trial.same_within(a, row_a, b, row_b, what);
}

}  // namespace

bool does_same_work_on_rows(const Run& a, const Run& b) {
  return other_work(of_a_row(a.plan), of_a_row(b.plan)).empty();
}

bool same_work_on_rows(Trial& trial, const Run& a, const Run& b) {
  return trial.promise_bits(of_a_row(a.plan), of_a_row(b.plan));
}

void keep_lists(Problem& p) {
  if (p.selects() || p.chooses()) p.selection.select = p.listed();
}

Case entry_alone(const Case& base, int64_t b) {
  Case c = variant_of(base);
  Problem& p = c.problem;
  keep_lists(p);
  // Masks and biases stay those of the longest lengths. The remap is set even if b is 0, because it drops the
  // values that are planted in other entries.
  c.remap.seq_q = p.seq_q;
  c.remap.seq_k = p.seq_k;
  c.remap.batch.add = b;
  if (p.packed_k) p.seq_k = packed_length(*p.packed_k, p.seq_k, b), c.once.k.batch = c.once.v.batch = false;
  if (p.packed_q) p.seq_q = packed_length(*p.packed_q, p.seq_q, b), c.once.q.batch = false;
  if (p.key_lengths) p.key_lengths = std::vector<int64_t>{(*p.key_lengths)[static_cast<size_t>(b)]};
  p.batch = 1;
  unpack(c);
  fit_memory(c);
  return c;
}

Case entry_alone_as_wide(const Case& base, int64_t b) {
  Case c = entry_alone(base, b);
  c.problem.seq_k = base.problem.seq_k;
  c.problem.key_lengths = std::vector<int64_t>{lengths_of(base.problem, b).positions};
  fit_memory(c);
  return c;
}

void compare_entries_alone(Trial& trial, Case (*alone)(const Case& base, int64_t b),
                           bool (*agrees)(Trial& trial, const Run& base, int64_t b, const Run& alone,
                                          std::string_view what)) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const Problem& p = base->c.problem;
  std::vector<int64_t> entries;
  for (int64_t b = 0; b < p.batch; ++b) {
    if (lengths_of(p, b).queries > 0) entries.push_back(b);
  }
  if (entries.empty() || p.heads_q == 0) return;
  // The last entry, where offsets are largest, and another one.
  const int64_t other = entries[choice(base->c, 1) % entries.size()];
  bool compared = false;
  for (const int64_t b : {entries.back(), other}) {
    const std::string label = "batch entry " + std::to_string(b) + " alone";
    // A kernel that takes long rows alone may refuse one of the entries, but not both.
    const bool last = b == other, may_refuse = compared || !last;
    const Case one = alone(base->c, b);
    const Run* run = may_refuse ? trial.run_if_taken(one, label) : trial.run(one, label);
    if (trial.done() || (run && !agrees(trial, *base, b, *run, label)) || last) return;
    compared |= run != nullptr;
  }
}

ChangedKeys changed_keys(const Case& c, KeyRange (*range)(const Case& c, int64_t keys)) {
  constexpr int64_t kMostEntries = 16;
  const Problem& p = c.problem;
  const auto keys_of = [&](int64_t b) { return p.packed_k ? packed_length(*p.packed_k, p.seq_k, b) : p.seq_k; };
  ChangedKeys keys;
  std::vector<size_t> there;
  for (int64_t b = 0; b < std::min(p.batch, kMostEntries); ++b) {
    if (keys_of(b) > 0) there.push_back(keys.size());
    keys.push_back(keys_of(b) > 0 ? range(c, keys_of(b)) : KeyRange{});
  }
  const bool packed = p.packed_q || p.packed_k;
  if (!packed || there.empty() || choice(c, 10) % 2 == 0) return keys;
  const size_t one = there[choice(c, 11) % there.size()];
  for (size_t b = 0; b < keys.size(); ++b) {
    if (b != one) keys[b] = {};
  }
  return keys;
}

Case with_changed_keys(const Case& base, const ChangedKeys& keys, float value) {
  constexpr int64_t kMostHeads = 16;
  Case c = variant_of(base);
  const Problem& p = c.problem;
  const uint32_t bits = bits_of(p.dtype, value);
  const bool values = is_given(c, TensorId::kV);
  for (int64_t b = 0; b < std::ssize(keys); ++b) {
    for (int64_t g = 0; g < std::min(p.heads_kv, kMostHeads); ++g) {
      for (int64_t j = keys[static_cast<size_t>(b)].first; j < keys[static_cast<size_t>(b)].last; ++j) {
        c.planted.push_back({TensorId::kK, b, g, j, p.dim_qk - 1, bits});
        if (values) c.planted.push_back({TensorId::kV, b, g, j, 0, bits});
      }
    }
  }
  tidy(c);  // of several values planted in one place, keeps the last
  return c;
}

bool sees_any(const Case& c, const Row& at, const ChangedKeys& keys) {
  if (at.b >= std::ssize(keys)) return false;
  const KeyRange& range = keys[static_cast<size_t>(at.b)];
  for (int64_t j = range.first; j < range.last; ++j) {
    if (sees(c, at.b, at.h, at.i, j)) return true;
  }
  return false;
}

bool pack(Case& c, const KernelInfo&, std::string* why) {
  Problem& p = c.problem;
  if (p.packed_q || p.packed_k) return true;
  if (has_many_heads(p)) {
    *why = "it has too many heads to be run again for each batch entry";
    return false;
  }
  if (p.batch < 2) p.batch = 2;
  const auto lengths = [&](uint64_t salt, int64_t longest) {
    Packing packing;
    for (int64_t b = 0; b < p.batch; ++b) {
      const uint64_t n = choice(c, salt + static_cast<uint64_t>(b));
      const auto any = static_cast<int64_t>(n / 4 % static_cast<uint64_t>(longest + 1));
      packing.lengths.push_back(n % 4 == 0 ? longest : any);
    }
    packing.slack = static_cast<int64_t>(choice(c, salt + 50) % 3);
    return packing;
  };
  const Packing queries = lengths(100, p.seq_q), keys = lengths(200, p.seq_k);
  p.packed_q = queries, p.packed_k = keys;
  tidy(c);
  fit_memory(c);
  return true;
}

bool put_in_pages(Case& c, const KernelInfo&, std::string* why) {
  Problem& p = c.problem;
  if (p.paging) return true;
  if (has_many_heads(p)) {
    *why = "it has too many heads to be run again with other pages";
    return false;
  }
  p.packed_k.reset();
  constexpr int64_t kSizes[] = {1, 3, 16, 64};
  p.paging = Paging{.size = kSizes[choice(c, 300) % 4],
                    .order = choice(c, 301) % 1000,
                    .spare = static_cast<int64_t>(choice(c, 302) % 3),
                    .beyond = static_cast<int64_t>(choice(c, 303) % 3),
                    .junk = static_cast<PageJunk>(choice(c, 304) % kPageJunks)};
  if (!p.key_lengths) {
    p.key_lengths.emplace();
    for (int64_t b = 0; b < p.batch; ++b) {
      const auto n = static_cast<int64_t>(choice(c, 400 + static_cast<uint64_t>(b)) % 65536);
      p.key_lengths->push_back(n % 4 == 0 ? p.seq_k : n / 4 % (p.seq_k + 1));
    }
  }
  tidy(c);
  fit_memory(c);
  return true;
}

bool all_entries_agree(Trial& trial, const Run& a, const Run& b, std::string_view what) {
  for (int64_t entry = 0; entry < a.c.problem.batch; ++entry) {
    if (!entries_agree(trial, a, entry, b, entry, what)) return false;
  }
  return true;
}

bool entries_agree(Trial& trial, const Run& a, int64_t b_a, const Run& b, int64_t b_b, std::string_view what) {
  return all_rows(a, b_a, b, b_b, [&](int64_t row_a, int64_t row_b) {
    return one_agrees(trial, a, row_a, b, row_b, what);
  });
}

bool entries_are_near(Trial& trial, const Run& a, int64_t b_a, const Run& b, int64_t b_b, std::string_view what) {
  return all_rows(a, b_a, b, b_b, [&](int64_t row_a, int64_t row_b) {
    return trial.same_within(a, row_a, b, row_b, what);
  });
}

}  // namespace attnfuzz::relations
