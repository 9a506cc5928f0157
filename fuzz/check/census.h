// A census: how often each value of each field of a problem, and each pair of values of two fields,
// reached the kernel.
//
// Coverage (properties/draw/coverage.h) says which classes of a table were met. A census says how
// often, and of values that no class of that table tells apart: a soft cap of 15 to 20, 4,096 keys
// at 128 columns. It counts calls of the kernel, thus what is left after legality, price, refusals
// and a property's own changes, and so shows without any bug what a draw never holds.
//
//   Census census;
//   target.on_run = [&](const Case& c, const attn_plan& plan) { census.add(c, plan); };
//   ...
//   std::puts(text(census).c_str());
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "properties/case/case.h"
#include "base/json.h"

namespace attnfuzz {

// One field of a problem, its values put into ranges.
struct CensusField {
  std::string name;
  std::vector<std::string> ranges;
  std::function<size_t(const Case&, const attn_plan&)> of;
};
const std::vector<CensusField>& census_fields();

// A sort of problem that many kernels treat in a way of its own, counted by itself.
struct CensusSort {
  const char* name;
  bool (*is)(const Case&, const attn_plan&);
};
const std::vector<CensusSort>& census_sorts();

class Census {
 public:
  Census();
  // One call. `plan` is the kernel's own for this case.
  void add(const Case& c, const attn_plan& plan);
  void merge(const Census& other);

  uint64_t calls() const { return calls_; }
  uint64_t count(size_t field, size_t range) const;
  // The two fields must differ.
  uint64_t count(size_t field_a, size_t range_a, size_t field_b, size_t range_b) const;
  uint64_t sort(size_t n) const { return sorts_[n]; }

  // For a job to tell its parent; of_bytes() throws std::runtime_error for what is of another table.
  std::string bytes() const;
  static Census of_bytes(const std::string& bytes);

 private:
  uint64_t calls_ = 0;
  std::vector<uint64_t> sorts_;
  std::vector<uint32_t> pairs_;  // of ranges by their number in the whole table; with itself: it alone
};

// The number of splits that hold keys, if the kernel cuts the keys into splits by whole tiles.
int64_t splits_that_hold_keys(const Case& c, const attn_plan& plan);

// Each field with its counts, what was never met, and pairs of ranges of which each was met and both
// together never, the most expected first.
std::string text(const Census& census);

// {"calls", "sorts": {name: calls}, "fields": {name: {range: calls}}, "pairs": {"a x b": [[calls]]}};
// rows of a pair are the ranges of a.
void to_json(Json& j, const Census& census);

}  // namespace attnfuzz
