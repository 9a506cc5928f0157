// Passes that lower sizes. A size often cannot decrease by itself, because a key length, a window or the other
// length must follow it. Each pass therefore offers several ways.
#include <algorithm>
#include <cmath>
#include <utility>

#include "properties/case/features/shrink_toggles.h"
#include "properties/reduce/passes.h"

namespace attnfuzz {
namespace {

// Calls f with each list that has an element for each batch entry.
template <class F>
void for_each_list(Case& c, F f) {
  Problem& p = c.problem;
  f(c.copies);
  if (p.key_lengths) f(*p.key_lengths);
  if (p.packed_q) f(p.packed_q->lengths);
  if (p.packed_k) f(p.packed_k->lengths);
}

// Lowers the lengths of packed entries.
void shorten(std::optional<Packing>& side, int64_t by) {
  if (!side) return;
  for (int64_t& length : side->lengths) length = std::max<int64_t>(length - by, 0);
}

// Removes `by` keys at the front. Everything that names a key by its position moves along.
void drop_keys(Case& c, int64_t by) {
  Problem& p = c.problem;
  p.seq_k -= by;
  if (p.key_lengths) {
    for (int64_t& length : *p.key_lengths) length = std::max<int64_t>(length - by, 0);
  }
  shorten(p.packed_k, by);
  for (Planted& x : c.planted) {
    if (x.tensor == TensorId::kK || x.tensor == TensorId::kV) x.s = std::max<int64_t>(x.s - by, 0);
    if (x.tensor == TensorId::kBias) x.d = std::max<int64_t>(x.d - by, 0);
  }
}

void drop_queries(Case& c, int64_t by) {
  c.problem.seq_q -= by;
  shorten(c.problem.packed_q, by);
  for (Planted& x : c.planted) {
    if (x.tensor == TensorId::kQ || x.tensor == TensorId::kBias) x.s = std::max<int64_t>(x.s - by, 0);
  }
}

const ShrinkInteger& integer(IntegerKind kind) {
  return *std::ranges::find(shrink_integers(), kind, &ShrinkInteger::kind);
}

// Sets the number of keys; key lengths follow.
void set_keys(Case& c, int64_t n) { integer(IntegerKind::kKeys).set(c, n); }

// Removes batch entries first..last-1 with their lengths and planted values.
void drop_entries(Case& c, int64_t first, int64_t last) {
  c.problem.batch -= last - first;
  for_each_list(c, [&](auto& list) {
    const auto size = static_cast<int64_t>(list.size());
    list.erase(list.begin() + std::min(first, size), list.begin() + std::min(last, size));
  });
  std::erase_if(c.planted, [&](const Planted& x) { return x.b >= first && x.b < last; });
  for (Planted& x : c.planted) x.b -= x.b >= last ? last - first : 0;
}

// Lengths at which a kernel changes its behaviour: beside the ends of tiles, and of signed and unsigned 16
// bits.
std::vector<int64_t> length_borders(int64_t tile) {
  std::vector<int64_t> lengths;
  for (const int64_t border : {tile, 2 * tile, 4 * tile, int64_t{1} << 15, int64_t{1} << 16}) {
    for (const int64_t beside : {-1, 0, 1}) lengths.push_back(border + beside);
  }
  return lengths;
}

// The most blocks that a grid's y and z may have, and one more. Finding them by bisection would run a
// correct kernel's blocks at every step.
const std::vector<int64_t> kGridBorders = {(1 << 16) - 1, 1 << 16};

// Lists of numbers for each batch entry are shrunk up to this entry.
constexpr size_t kMostEntries = 16;

const std::vector<int64_t> kDims = {4, 8, 15, 16, 17, 32, 33, 63, 64, 65, 127, 128, 129};

}  // namespace

Number number_of(const ShrinkInteger& integer, const Case& c, const Borders& borders) {
  Number number{.now = integer.get(c), .least = integer.least};
  if (integer.kind == IntegerKind::kDim) {
    number.worth_trying = kDims;
  } else if (integer.kind == IntegerKind::kGrid || integer.kind == IntegerKind::kSplits) {
    number.worth_trying = kGridBorders;
  } else {
    const int64_t tile = borders.tile_of(integer);
    number.worth_trying = length_borders(tile);
    number.periods = {tile};
  }
  return number;
}

void shrink_batch(Search& s) {
  const int64_t failing = s.verdict().where ? s.verdict().where->b : 0;
  const auto keep_only = [&](int64_t b) {
    return change(s, [&](Case& c) {
      c.problem.batch = 1;
      for_each_list(c, [&](auto& list) {
        if (b < static_cast<int64_t>(list.size())) list = {list[static_cast<size_t>(b)]};
      });
      std::erase_if(c.planted, [&](const Planted& x) { return x.b != b; });
      for (Planted& x : c.planted) x.b = 0;
    });
  };
  if (s.best().problem.batch == 0) change(s, [](Case& c) { c.problem.batch = 1; });
  if (s.best().problem.batch < 2) return;
  if (keep_only(failing)) return;
  // Removes entries with lengths or planted values of their own: runs of them, then single ones.
  constexpr int kMostRuns = 96;
  const Problem& p = s.best().problem;
  const bool own = p.key_lengths || p.packed_q || p.packed_k || !s.best().planted.empty() || !s.best().copies.empty();
  int runs = 0;
  for (int64_t span = s.best().problem.batch / 2; own && span > 0; span /= 2) {
    for (int64_t last = s.best().problem.batch; last > 0 && runs < kMostRuns; ++runs) {
      const int64_t first = std::max<int64_t>(last - span, 0);
      if (s.best().problem.batch > last - first) change(s, [&](Case& c) { drop_entries(c, first, last); });
      last = first;
    }
  }
  for (int64_t b = 0; b < std::min<int64_t>(s.best().problem.batch, 8); ++b) {
    if (s.best().problem.batch < 2 || keep_only(b)) return;
  }
  // More heads or rows may do what more batch entries did as separate blocks.
  change(s, [](Case& c) {
    c.problem.heads_q *= c.problem.batch;
    c.problem.heads_kv *= c.problem.batch;
    c.problem.batch = 1;
  });
  change(s, [](Case& c) {
    c.problem.seq_q *= c.problem.batch;
    c.problem.batch = 1;
  });
}

// In a tensor that is spread over more memory than it fills, the rows of one head may be as far apart as
// two heads or batch entries were.
void shrink_to_far_rows(Search& s) {
  const auto& layouts = s.best().layout;
  if (std::ranges::none_of(layouts, [](const TensorLayout& l) { return l.spread != 0; })) return;
  for (const auto& [seq_q, seq_k] : {std::pair{2, 0}, {1, 2}, {2, 2}}) {
    const auto far_rows = [&](Case& c) {
      c.problem.batch = c.problem.heads_q = c.problem.heads_kv = 1;
      c.problem.seq_q = seq_q;
      set_keys(c, seq_k);
    };
    if (change(s, far_rows)) return;
  }
}

void shrink_heads(Search& s) {
  const Problem& p = s.best().problem;
  shrink_to_far_rows(s);
  if (p.heads_q == 1) return;
  change(s, [](Case& c) { c.problem.heads_q = c.problem.heads_kv = 1; });
  if (p.heads_q > 1) {
    lower(s, {.now = p.heads_kv + 1, .least = 1, .worth_trying = kGridBorders},
          [](Case& c, int64_t n) { c.problem.heads_q = c.problem.heads_kv = n; });
  }
  // As many KV heads as query heads, which is simpler; or one KV head for all queries.
  change(s, [](Case& c) { c.problem.heads_kv = c.problem.heads_q; });
  lower(s, {.now = p.heads_q + 1, .least = 1, .worth_trying = kGridBorders}, [](Case& c, int64_t n) {
    c.problem.heads_q = n;
    c.problem.heads_kv = 1;
  });
  change(s, [](Case& c) {
    c.problem.seq_q *= c.problem.heads_q;
    c.problem.heads_q = c.problem.heads_kv = 1;
  });
}

void shrink_lengths(Search& s) {
  const Borders borders = s.borders();
  const auto& p = s.best().problem;
  const auto lower_from = [&](int64_t now, int64_t tile, void (*set)(Case& c, int64_t n)) {
    lower(s, {.now = now, .least = 0, .worth_trying = length_borders(tile), .periods = {tile}}, set);
  };
  lower_from(std::max(p.seq_q, p.seq_k), borders.tile_k, [](Case& c, int64_t n) {
    set_keys(c, std::min(c.problem.seq_k, n));
    c.problem.seq_q = std::min(c.problem.seq_q, n);
  });
  // Lowers both by the same amount, so that bottom-right alignment keeps its diagonal.
  lower_from(std::min(p.seq_q, p.seq_k), borders.tile_k, [](Case& c, int64_t n) {
    const int64_t by = std::min(c.problem.seq_q, c.problem.seq_k) - n;
    c.problem.seq_q -= by;
    set_keys(c, c.problem.seq_k - by);
  });
  lower_from(std::min(p.seq_q, p.seq_k), borders.tile_k, [](Case& c, int64_t n) {
    const int64_t by = std::min(c.problem.seq_q, c.problem.seq_k) - n;
    drop_queries(c, by);
    drop_keys(c, by);
  });
  lower_from(p.seq_k, borders.tile_k, set_keys);
  // A failure with many queries may appear with as many keys.
  change(s, [](Case& c) {
    const int64_t queries = c.problem.seq_q;
    c.problem.seq_q = c.problem.seq_k;
    set_keys(c, queries);
  });
  if (p.key_lengths || !s.best().planted.empty()) {
    lower_from(p.seq_k, borders.tile_k, [](Case& c, int64_t n) { drop_keys(c, c.problem.seq_k - n); });
    // Lowers only seq_k, so that key lengths may exceed it.
    lower_from(p.seq_k, borders.tile_k, [](Case& c, int64_t n) { c.problem.seq_k = n; });
  }
  lower_from(p.seq_q, borders.tile_q, [](Case& c, int64_t n) { c.problem.seq_q = n; });
  if (!s.best().planted.empty())
    lower_from(p.seq_q, borders.tile_q, [](Case& c, int64_t n) { drop_queries(c, c.problem.seq_q - n); });
}

void shrink_dims(Search& s) {
  for (const bool rescaled : {false, true}) {
    const Problem& p = s.best().problem;
    if (rescaled && p.scale == 1) break;
    const auto lower_from = [&](int64_t now, void (*set)(Problem& p, int64_t n)) {
      lower(s, {.now = now, .least = 1, .worth_trying = kDims}, [&](Case& c, int64_t n) {
        set(c.problem, n);
        if (rescaled) c.problem.scale = 1.0f / std::sqrt(static_cast<float>(c.problem.dim_qk));
      });
    };
    lower_from(std::max(p.dim_qk, p.dim_v), [](Problem& x, int64_t n) {
      x.dim_qk = std::min(x.dim_qk, n);
      x.dim_v = std::min(x.dim_v, n);
    });
    // Most kernels support equal head dimensions.
    lower_from(std::max(p.dim_qk, p.dim_v), [](Problem& x, int64_t n) { x.dim_qk = x.dim_v = n; });
    lower_from(p.dim_qk, [](Problem& x, int64_t n) { x.dim_qk = n; });
    lower_from(p.dim_v, [](Problem& x, int64_t n) { x.dim_v = n; });
    // If either large dimension shows the failure, dim_v is made the large one.
    if (p.dim_qk > p.dim_v) change(s, [](Case& c) { std::swap(c.problem.dim_qk, c.problem.dim_v); });
  }
}

// The length of each packed entry, and the rows behind the last one.
template <std::optional<Packing> Problem::*kSide>
void shrink_packing_of(Search& s, int64_t tile) {
  const auto side = [&]() -> const std::optional<Packing>& { return s.best().problem.*kSide; };
  if (!side()) return;
  if (side()->slack > 0) {
    lower(s, {.now = side()->slack, .least = 0, .worth_trying = {1, tile}},
          [](Case& c, int64_t n) { (c.problem.*kSide)->slack = n; });
  }
  for (size_t b = 0; side() && b < std::min(side()->lengths.size(), kMostEntries); ++b) {
    lower(s, {.now = side()->lengths[b], .least = 0, .worth_trying = {1, tile - 1, tile, tile + 1}, .periods = {tile}},
          [b](Case& c, int64_t n) { (c.problem.*kSide)->lengths[b] = n; });
  }
}

// Lengths and slack of packed entries.
void shrink_packing(Search& s) {
  const Borders borders = s.borders();
  shrink_packing_of<&Problem::packed_q>(s, borders.tile_q);
  shrink_packing_of<&Problem::packed_k>(s, borders.tile_k);
  // In self-attention, the queries and keys of an entry change together.
  if (!s.best().problem.packed_q || !s.best().problem.packed_k) return;
  for (size_t b = 0; b < std::min(s.best().problem.packed_q->lengths.size(), kMostEntries); ++b) {
    const Problem& p = s.best().problem;
    if (!p.packed_q || !p.packed_k) return;
    const int64_t now = std::max(p.packed_q->lengths[b], p.packed_k->lengths[b]);
    lower(s, {.now = now, .least = 0, .worth_trying = {1, borders.tile_k}, .periods = {borders.tile_k}},
          [b](Case& c, int64_t n) {
            for (auto* side : {&c.problem.packed_q, &c.problem.packed_k})
              (*side)->lengths[b] = std::min((*side)->lengths[b], n);
          });
  }
}

// Lowers the page size, the order of the pages, and the numbers of shared and of unused pages and table
// entries.
void shrink_paging(Search& s) {
  const auto lower_member = [&](auto member, int64_t least, std::vector<int64_t> first) {
    if (!s.best().problem.paging) return;
    const auto now = static_cast<int64_t>((*s.best().problem.paging).*member);
    lower(s, {.now = now, .least = least, .worth_trying = std::move(first)},
          [member](Case& c, int64_t n) {
            auto& number = (*c.problem.paging).*member;
            number = static_cast<std::remove_reference_t<decltype(number)>>(n);
          });
  };
  lower_member(&Paging::size, 1, {2, 3, 15, 16, 17});
  lower_member(&Paging::order, 0, {1, 2, 3, 4, 5, 6, 7, 8});
  lower_member(&Paging::shared, 0, {1});
  lower_member(&Paging::spare, 0, {1, 2});
  lower_member(&Paging::beyond, 0, {1, 2});
}

// The pages of each pair of a copy.
void shrink_copies(Search& s) {
  for (size_t n = 0; n < std::min(s.best().copies.size(), kMostEntries); ++n) {
    for (const auto page : {&PageCopy::from, &PageCopy::to}) {
      if (n >= s.best().copies.size()) return;
      lower(s, {.now = s.best().copies[n].*page, .least = 0, .worth_trying = {1, 2}},
            [n, page](Case& c, int64_t to) { c.copies[n].*page = to; });
    }
  }
}

// The kind of listed blocks, their seeds, and the order of lists.
void shrink_selection(Search& s) {
  if (!s.best().problem.selects()) return;
  // Lists that hold only -1 are simpler than lists with some -1.
  if (s.best().problem.selection.holes > 0) {
    change(s, [](Case& c) { c.problem.selection.holes = 0, c.problem.selection.empty = 1; });
  }
  // Lists in order; some of them hold only -1.
  const auto some_empty = [&] {
    for (const int64_t empty : {1, 2}) {
      for (uint64_t seed = 0; seed < kSeedsTried; ++seed) {
        const Selection now = s.best().problem.selection;
        Selection to = now;
        to.kind = SelectionKind::kFirst, to.seed = seed, to.order = 0, to.holes = 0, to.leading = false, to.empty = empty;
        if (to == now || change(s, [&](Case& c) { c.problem.selection = to; })) return;
      }
    }
  };
  some_empty();
  for (int kind = 1; kind < static_cast<int>(s.best().problem.selection.kind); ++kind)
    change(s, [kind](Case& c) { c.problem.selection.kind = static_cast<SelectionKind>(kind); });
  for (uint64_t Selection::* member : {&Selection::order, &Selection::seed}) {
    const auto now = static_cast<int64_t>(s.best().problem.selection.*member);
    lower(s, {.now = now, .least = 0, .worth_trying = {1, 2, 3, 4, 5, 6, 7, 8}},
          [member](Case& c, int64_t n) { c.problem.selection.*member = static_cast<uint64_t>(n); });
  }
}

void shrink_numbers(Search& s) {
  for (const ShrinkInteger& integer : shrink_integers()) {
    if (integer.applies(s.best())) lower(s, number_of(integer, s.best(), s.borders()), integer.set);
  }
  shrink_packing(s);
  shrink_paging(s);
  shrink_copies(s);
  shrink_selection(s);
  // The length of each batch entry.
  const auto lengths = [&] { return s.best().problem.key_lengths.value_or(std::vector<int64_t>()); };
  for (size_t b = 0; b < std::min(lengths().size(), kMostEntries); ++b) {
    const int64_t tile = s.borders().tile_k, now = lengths()[b];
    const auto set = [b](Case& c, int64_t n) { (*c.problem.key_lengths)[b] = n; };
    if (now < 0) {
      change(s, [&](Case& c) { set(c, 0); });
      continue;
    }
    lower(s, {.now = now, .least = 0, .worth_trying = {tile - 1, tile, tile + 1}, .periods = {tile}}, set);
  }
}

void shrink_pairs(Search& s) {
  for (const ShrinkToggle& one : shrink_toggles()) {
    for (const ShrinkToggle& other : shrink_toggles()) {
      if (&other <= &one || !one.present(s.best()) || !other.present(s.best())) continue;
      change(s, [&](Case& c) {
        one.remove(c);
        other.remove(c);
      });
    }
  }
  const auto open = [&](const ShrinkInteger& integer) {
    return integer.applies(s.best()) && integer.get(s.best()) > integer.least;
  };
  for (const ShrinkInteger& one : shrink_integers()) {
    for (const ShrinkInteger& other : shrink_integers()) {
      if (&other == &one || !open(one) || !other.applies(s.best())) continue;
      const auto both = [&](int64_t for_one, int64_t for_other) {
        return open(one) && change(s, [&](Case& c) {
                 one.set(c, std::max(one.least, for_one));
                 other.set(c, std::max(other.least, for_other));
               });
      };
      const auto now = [&](const ShrinkInteger& integer) { return integer.get(s.best()); };
      if (&other > &one && open(other)) {
        while (!s.out_of_time() && both(now(one) / 2, now(other) / 2)) {
        }
        for (int64_t step = std::min(now(one), now(other)) / 4; step > 0; step /= 2) {
          while (!s.out_of_time() && both(now(one) - step, now(other) - step)) {
          }
        }
      }
      // Lowers one number and raises the other, if the first one counts more.
      if (now(one) >= kMany) continue;
      while (!s.out_of_time() && both(now(one) / 2, now(other) * 2)) {
      }
      for (int64_t step = now(one) / 2; step > 0; step /= 2) {
        while (!s.out_of_time() && both(now(one) - step, now(other) + step)) {
        }
      }
    }
  }
}

}  // namespace attnfuzz
