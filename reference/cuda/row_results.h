// The rows of O and the LSE that the device computes for a forward pass or a merge, and the reference made of
// them.
//
//   const RowResults results(rows.size(), dim_v, exact);         // offsets in one block of bytes
//   RowsOutput out = output_at(session, results);                // on the device
//   ...
//   Reference due = taken(session, problem, host, model, rows, absent, results);
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/cuda/rows.h"
#include "reference/cuda/session.h"
#include "reference/oracle.h"

namespace attnfuzz::cuda {

// The offsets of the results of `rows` rows in one block of bytes.
struct RowResults {
  size_t o, o_bound, o_exact, lse, lse_bound, rule, state, bytes;
  RowResults(size_t rows, size_t columns, bool exact);
};

RowsOutput output_at(Session& session, const RowResults& results);
inline const std::byte* start_of(const RowsOutput& out) { return reinterpret_cast<const std::byte*>(out.o); }

void relocate_rows(RowsInput& in, bool has_mask, std::byte* inputs);

// The reference of the results that the device has sent back. `absent`: rows that no batch entry has.
Reference taken(Session& session, const attn_problem& problem, const attn_tensors& host,
                const ErrorModel& model, const std::vector<int64_t>& rows, const std::vector<int64_t>& absent,
                const RowResults& results);

}  // namespace attnfuzz::cuda
