#include "fuzz/batch/device/laid_pages.h"

#include <algorithm>

#include "properties/case/places/pages.h"

namespace attnfuzz::batch {
namespace {

std::vector<int64_t> keys_of(const Call& call) {
  std::vector<int64_t> keys;
  for (int64_t b = 0; b < call.problem.batch; ++b) keys.push_back(paged_keys_of(call, b));
  return keys;
}

}  // namespace

LaidPages::LaidPages(const Call& call) : held(static_cast<size_t>(call.problem.pages)) {
  const int64_t size = call.problem.page_size;
  const Pages pages(call.recipe.paging, keys_of(call), call.problem.pages_per_seq);
  for (int64_t b = 0; b < call.problem.batch; ++b) {
    const std::vector<int64_t> row = pages.row(b);
    table.insert(table.end(), row.begin(), row.end());
    for (int64_t n = 0; n < pages.owned(b); ++n) {
      int32_t& slots = held[static_cast<size_t>(pages.of(b, n))];
      slots = std::max(slots, static_cast<int32_t>(std::min(size, paged_keys_of(call, b) - n * size)));
    }
  }
}

}  // namespace attnfuzz::batch
