// The fields of attn_domain (the problems that a kernel takes) and of attn_sizes, one row each.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/contract/field.h"

namespace attnfuzz::contract {

struct DomainField {
  Field at;
  const char* words;
  // The names of the values 0, 1, ...; nullptr for the value that sets no limit. Empty if the field holds
  // sizes, bits or a number.
  std::span<const char* const> names = {};
};

namespace domain_table {
using D = attn_domain;
inline constexpr const char* kBooleans[] = {nullptr, "always"};
inline constexpr const char* kEither[] = {nullptr, "never", "always"};
inline constexpr const char* kAligns[] = {nullptr, "top_left", "bottom_right"};
inline constexpr const char* kLayouts[] = {nullptr, "dense", "inner"};

inline constexpr DomainField kRows[] = {
    {ATTN_FIELD(D, size), "bytes of this struct"},
    {ATTN_FIELD(D, dtypes), "formats, as bits 1 << attn_dtype; 0: fp16 and bf16"},
    {ATTN_FIELD(D, batch), "batch entries"},
    {ATTN_FIELD(D, heads_q), "query heads"},
    {ATTN_FIELD(D, group), "query heads of a KV head"},
    {ATTN_FIELD(D, seq_q), "queries"},
    {ATTN_FIELD(D, seq_k), "keys"},
    {ATTN_FIELD(D, dim_qk), "columns of Q and K"},
    {ATTN_FIELD(D, dim_v), "columns of V and O"},
    {ATTN_FIELD(D, equal_lengths), "seq_q = seq_k", kBooleans},
    {ATTN_FIELD(D, equal_dims), "dim_qk = dim_v", kBooleans},
    {ATTN_FIELD(D, causal), "causal", kEither},
    {ATTN_FIELD(D, align), "where the diagonal lies if lengths differ", kAligns},
    {ATTN_FIELD(D, lse), "an LSE is wanted", kEither},
    {ATTN_FIELD(D, usual_scale), "scale = 1 / sqrt(dim_qk)", kBooleans},
    {ATTN_FIELD(D, layout), "how tensors lie", kLayouts},
    {ATTN_FIELD(D, align_bytes), "divisor of addresses and strides; 0: any"},
};
static_assert(covers(kRows, sizeof(attn_domain)), "each field of attn_domain has a row, in order");

inline constexpr DomainField kSizesRows[] = {
    {ATTN_FIELD(attn_sizes, least), "the smallest"},
    {ATTN_FIELD(attn_sizes, most), "the largest; 0: no limit"},
    {ATTN_FIELD(attn_sizes, multiple), "divisor of the size; 0: any"},
    {ATTN_FIELD(attn_sizes, count), "values of the list; 0: the range applies"},
    {ATTN_FIELD(attn_sizes, list), "the values"},
};
static_assert(covers(kSizesRows, sizeof(attn_sizes)), "each field of attn_sizes has a row, in order");
}  // namespace domain_table

inline constexpr auto& kDomainFields = domain_table::kRows;
inline constexpr auto& kSizesFields = domain_table::kSizesRows;

}  // namespace attnfuzz::contract
