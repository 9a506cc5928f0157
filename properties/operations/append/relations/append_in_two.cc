// New rows may be appended in two calls. The first call appends some rows of each entry; the second
// appends the rest to the cache that the first has left. The cache must then equal, bit for bit,
// the cache after a single call. Afterwards the new rows are taken back, like tokens of a draft,
// and other rows are appended over them; the cache must hold these rows in every bit. The relation
// finds a kernel that keeps lengths, pages or addresses from one call to the next.
#include <algorithm>

#include "properties/case/features/shrink_toggles.h"
#include "properties/case/places/pages.h"
#include "properties/operations/forward/relations/tools.h"

namespace attnfuzz::operations {
extern const Operation append;
}

namespace attnfuzz::relations {
namespace {

// Drops values planted in new rows: in a partial call they would be in other rows.
bool adapt_append_in_two(Case& c, const KernelInfo&, std::string*) {
  std::erase_if(c.planted,
                [](const Planted& x) { return x.tensor == TensorId::kKNew || x.tensor == TensorId::kVNew; });
  return true;
}

// The rows of entry b in the first call: half of them, or more if the entry needs more to have all
// its pages after that call. Pages are numbered entry by entry, so a missing page would renumber
// those of all later entries. The last entry has no later ones.
int64_t first_rows(const Problem& p, int64_t b) {
  const int64_t rows = new_rows(p, b), half = rows / 2;
  if (!p.paging || b == p.batch - 1) return half;
  const int64_t before_last_page = std::max<int64_t>(p.pages_of(paged_keys(p, b)) - 1, 0) * p.paging->size;
  return std::clamp<int64_t>(before_last_page + 1 - held_keys(p, b), half, rows);
}

// The first call, or the second, for which the cache already holds the rows of the first. The caches have the
// sizes of the whole call.
Case part_of(const Case& whole, bool first) {
  Case c = variant_of(whole);
  Problem& p = c.problem;
  int64_t most = 0;  // dense entries have the same number of rows
  for (int64_t b = 0; b < p.batch; ++b) most = std::max(most, first_rows(whole.problem, b));
  for (int64_t b = 0; b < p.batch; ++b) {
    const auto at = static_cast<size_t>(b);
    const int64_t rows = new_rows(whole.problem, b), those = p.packed_q ? first_rows(whole.problem, b) : most;
    if (!first) (*p.key_lengths)[at] = held_keys(whole.problem, b) + those;
    if (p.packed_q) p.packed_q->lengths[at] = first ? those : rows - those;
  }
  if (!p.packed_q) p.seq_q = first ? most : p.seq_q - most;
  if (first && p.paging) p.paging->spare += page_count(whole.problem) - page_count(p);
  tidy(c);
  return c;
}

// The whole call with other values. The lengths are the same, so its rows overwrite the earlier ones.
Case other_rows(const Case& whole) {
  Case c = variant_of(whole);
  for (Fill* fill : {&c.k, &c.v}) *fill = {.kind = FillKind::kGaussian, .seed = fill->seed % 65536 + 1};
  return c;
}

// True if every key of the first call lies in the page that it has in the whole call.
bool same_pages(const Case& whole, const Case& part) {
  if (!whole.problem.paging) return true;
  const Pages all(whole.problem), some(part.problem);
  if (all.count() != some.count()) return false;
  for (int64_t b = 0; b < whole.problem.batch; ++b) {
    for (int64_t n = 0; n < some.owned(b); ++n) {
      if (some.of(b, n) != all.of(b, n)) return false;
    }
  }
  return true;
}

void check_append_in_two(Trial& trial) {
  const Run* base = trial.run(trial.base());
  if (!base) return;
  const Case first = part_of(base->c, true), rest = part_of(base->c, false);
  if (!same_pages(base->c, first)) return;
  const Run* before = trial.run(first, "the first of two appends");
  const Run* after = before ? trial.run_after(*before, rest, "the second of two appends") : nullptr;
  if (!after || !trial.all_bits(*base, *after, "one append and two appends")) return;
  trial.run_after(*after, other_rows(base->c), "other rows over those that were taken back");
}

}  // namespace

extern const Property append_in_two = {
    .name = "append_in_two",
    .statement = "new rows appended in two calls leave the cache that one call leaves",
    .adapt = adapt_append_in_two,
    .check = check_append_in_two,
    .asks_target = true,
    .compares = false,
    .operation = &operations::append,
    .packed = true};

}  // namespace attnfuzz::relations
