// Writes the bytes of one row of an input, or of a state, as a kernel finds it.
//
//   InputRows rows(c, packed, TensorId::kK);
//   rows.write({{b, h, j}}, row);   // dim_qk elements of the problem's dtype
//
// The index is a place in memory: (0, h, row) in a tensor of packed entries, (page, h, slot) in one with pages.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "properties/case/case.h"
#include "properties/case/places/packed.h"
#include "properties/memory/extent.h"

namespace attnfuzz {

class InputRows {
 public:
  // `packed`: of the same case; both must outlive this object. `dead_lse`: see recipe_row(). `derived`: the
  // elements of a tensor that is computed from others, dense. If it is empty, such a tensor gets zeros.
  InputRows(const Case& c, const PackedCase& packed, TensorId t,
            float dead_lse = -std::numeric_limits<float>::infinity(), std::span<const std::byte> derived = {});
  void write(const Index& at, std::byte* row);

 private:
  void write_row(const Index& at, std::byte* row);
  void write_slack(const Index& at, std::byte* row) const;
  void write_values(const Index& at, std::byte* row) const;
  void write_cached(const Index& at, std::byte* row) const;
  void write_new(const Index& at, std::byte* row) const;
  void write_derived(const Index& at, std::byte* row) const;
  void write_bias(const Index& at, std::byte* row);
  void write_mask(const Index& at, uint8_t* row) const;

  const Case& case_;
  const PackedCase& packed_;
  const TensorId tensor_;
  const float dead_lse_;
  const bool plain_;          // not remapped, not of a merge, no page is shared: fills.h writes whole rows
  const bool packs_, paged_;  // its entries are packed or in pages; its keys are in pages
  std::span<const std::byte> derived_;
  // All rows share these.
  const int64_t columns_;  // as stored
  const int64_t element_bytes_;
  const int32_t dtype_;           // ATTN_NONE if the elements are no numbers
  const Fill* const fill_;        // nullptr: no fill says what it holds
  std::vector<int64_t> held_;     // rows_held() by batch entry
  std::vector<Planted> planted_;  // in this tensor
  std::vector<float> scratch_;
};

}  // namespace attnfuzz
