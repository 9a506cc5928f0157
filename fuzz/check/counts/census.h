// A census counts how often each value of each field of a problem, and each pair of values of two fields,
// reached the kernel.
//
// Coverage (properties/draw/coverage.h) says which classes of the table of axes were met. A census
// also counts values that the table does not distinguish: a soft cap of 15 to 20, or 4,096 keys at
// 128 columns. It counts calls of the kernel. Illegal, too expensive and refused cases therefore do not count,
// but the variants that a property makes do. A census shows which values a draw never reaches, even if no
// seeded bug needs them.
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

#include "base/json.h"
#include "properties/case/case.h"

namespace attnfuzz {

// One field of a problem, and the ranges that its values are counted in.
struct CensusField {
  std::string name;
  std::vector<std::string> ranges;
  std::function<size_t(const Case&, const attn_plan&)> of;
};
const std::vector<CensusField>& census_fields();

// A kind of problem for which many kernels have a special path. Each has a count of its own.
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

  // Serialization, for jobs that report to their parent. of_bytes() throws std::runtime_error if the bytes
  // belong to another table.
  std::string bytes() const;
  static Census of_bytes(const std::string& bytes);

 private:
  uint64_t calls_ = 0;
  std::vector<uint64_t> sorts_;
  std::vector<uint32_t> pairs_;  // [range][range], numbered over the whole table; the diagonal counts one range
};

// The number of splits that hold keys, if the kernel cuts the keys into splits by whole tiles.
int64_t splits_that_hold_keys(const Case& c, const attn_plan& plan);

// Lists each field with its counts, and the ranges never met. Then it lists the pairs of ranges
// that were met separately but never together, the most expected first.
std::string text(const Census& census);

// {"calls", "sorts": {name: calls}, "fields": {name: {range: calls}}, "pairs": {"a x b": [[calls]]}};
// rows of a pair are the ranges of a.
void to_json(Json& j, const Census& census);

}  // namespace attnfuzz
