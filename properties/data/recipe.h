// The value of a case's recipe at an index: fill, remap and planted values together.
//
// fills.h has functions of counters. The recipe knows which counter an element of a case gets (case.h,
// Remap), what is added to it, and what is planted over it. memory/layout.h lays out rows of it; relations
// read single values.
//
//   std::vector<uint32_t> row(c.problem.dim_v);                   // room for any format
//   recipe_row(c, TensorId::kV, b, kv_head, j, row.data());       // before anything is planted
//   double v = value_at(c, TensorId::kV, b, kv_head, j, column);  // as the kernel finds it
#pragma once

#include <limits>
#include <vector>

#include "properties/case/case.h"
#include "properties/case/places/packed.h"
#include "properties/data/source.h"

namespace attnfuzz {

// key_lengths[b] clamped to 0..seq_k, or seq_k; no more than the keys of a packed entry.
int64_t key_length(const Problem& p, int64_t b);

// The number of rows of O and the LSE, or of the chosen lists, over all batch entries and heads.
int64_t rows_present(const Problem& p);

// The number of rows of a batch entry before the rows of NaN that nan_beyond_lengths puts behind the key length in K
// and V. If all entries share the tensor, the longest entry decides.
int64_t rows_held(const Case& c, TensorId tensor, int64_t b);

// False if the tensor is O or the LSE of one side of a merge, and this side saw no key for the query.
bool saw_keys(const Case& c, TensorId tensor, int64_t b, int64_t h, int64_t i);

// Row (b,h,s) of an input with a fill, before planting: dim values in the tensor's dtype. `dead_lse`: the LSE
// of a side that saw no key: -inf, or the value that the plan declares instead.
void recipe_row(const Case& c, TensorId tensor, int64_t b, int64_t h, int64_t s, void* out,
                float dead_lse = -std::numeric_limits<float>::infinity());

// Mask and bias at (b,h,i,j). Broadcast dimensions are read at index 0. The case must have the tensor.
bool mask_at(const Case& c, int64_t b, int64_t h, int64_t i, int64_t j);
float bias_at(const Case& c, int64_t b, int64_t h, int64_t i, int64_t j);
// The list of query i of KV head g (properties/case/places/selection.h).
std::vector<int64_t> list_at(const Case& c, int64_t b, int64_t g, int64_t i);
// The sink of query head h, in the bits of its dtype.
uint32_t sink_at(const Case& c, int64_t h);
// The slope of query head h in batch entry b.
float slope_at(const Case& c, int64_t b, int64_t h);

// The scale of key j in 8-bit K or V; tensor: kKScale or kVScale.
float kv_scale_at(const Case& c, TensorId tensor, int64_t b, int64_t g, int64_t j);

// Planted values with their places in the tensors as laid out. Unless the case is remapped, this is its own
// list. A later value wins.
std::vector<Planted> planted_at(const Case& c);

// One element of Q, K, V or bias as a kernel finds it, with planted values and NaN beyond key lengths.
// Exact. For 8-bit K and V: the code times its scale.
double value_at(const Case& c, TensorId tensor, int64_t b, int64_t h, int64_t s, int64_t d);

// Q, K or V of one batch entry and head: rows x columns of value_at().
std::vector<double> matrix_at(const Case& c, TensorId tensor, int64_t b, int64_t h);

// True if query i sees key j: the contract's definition, literally.
bool sees(const Case& c, int64_t b, int64_t h, int64_t i, int64_t j);

// The bits of a value in a dtype, rounded to nearest even.
uint32_t bits_of(int32_t dtype, float value);

}  // namespace attnfuzz
