#include "properties/case/codec/as_contract.h"

#include <array>
#include <string_view>

#include "kernels/contract/problem_fields.h"
#include "properties/case/codec/codec_fields.h"
#include "properties/case/places/packed.h"

namespace attnfuzz {
namespace {

// True if a member of Problem with this type is a number of attn_problem. For an optional input, attn_problem
// has a flag that says whether it is present.
template <class T>
constexpr bool kIsNumber = std::is_arithmetic_v<T>;

constexpr std::string_view kOfInputs[] = {"has_key_lengths", "bias_dtype", "has_mask",
                                          "has_sink",        "sink_dtype", "has_alibi",
                                          "ragged",          "total_q",    "total_k",
                                          "page_size",       "pages",      "pages_per_seq",
                                          "kv_dtype",        "block",      "select",
                                          "select_first",    "select_last"};

// True if a row of the contract is filled from a member of the same name.
constexpr bool has_member(const char* name) {
  return codec::kFields<Problem>.all.apply([&](const auto&... field) {
    const auto is = [&]<class M>(const char* of, M Problem::*) {
      return kIsNumber<M> && std::string_view(of) == name;
    };
    return (is(field.name, field.member) || ...);
  });
}
static_assert(
    std::ranges::all_of(contract::kProblemFields,
                        [](const contract::ProblemField& row) {
                          return row.meaning == contract::Meaning::kStructSize ||
                                 row.meaning == contract::Meaning::kReserved || has_member(row.at.name) ||
                                 std::ranges::find(kOfInputs, row.at.name) != std::end(kOfInputs);
                        }),
    "a field of attn_problem is a member of Problem, with its line of kFields (case.h), or describes an input");

// The row of the contract of each member in kFields<Problem>; nullptr if it has none. Looked up once, because names are
// compared as text, and problem_of() is called for each question about a case.
constexpr auto kRowOfMember = codec::kFields<Problem>.all.apply([](const auto&... field) {
  return std::array<const contract::ProblemField*, sizeof...(field)>{
      contract::find(contract::kProblemFields, field.name)...};
});

}  // namespace

attn_problem problem_of(const Problem& p) {
  attn_problem out = {};
  out.size = sizeof out;
  size_t n = 0;
  const auto copy = [&]<class M>(M Problem::* member) {
    const contract::ProblemField* row = kRowOfMember[n++];
    if constexpr (kIsNumber<M>) {
      if (row != nullptr) contract::set(row->at, &out, p.*member);
    }
  };
  codec::kFields<Problem>.all.apply([&](const auto&... field) { (copy(field.member), ...); });
  out.has_key_lengths = p.key_lengths.has_value();
  out.bias_dtype = p.bias ? p.bias->dtype : ATTN_NONE;
  out.has_mask = p.mask.has_value();
  out.has_sink = p.sink.has_value();
  if (p.sink) out.sink_dtype = p.sink->dtype;
  out.has_alibi = p.slopes.has_value();
  out.ragged = (p.packed_q ? ATTN_RAGGED_QUERIES : 0) | (p.packed_k ? ATTN_RAGGED_KEYS : 0);
  if (p.packed_q) out.total_q = packed_rows(*p.packed_q, p.seq_q);
  if (p.packed_k) out.total_k = packed_rows(*p.packed_k, p.seq_k);
  if (p.paging) {
    out.page_size = p.paging->size;
    out.pages = page_count(p);
    out.pages_per_seq = p.pages_per_seq();
  }
  if (p.kv8) out.kv_dtype = dtype_of(p.kv8->format);
  if (p.chooses()) out.select_first = p.selection.first, out.select_last = p.selection.last;
  if (p.selects() || p.chooses()) out.block = p.block(), out.select = p.select();
  out.features |= contract::features_of(out);
  return out;
}

attn_env env_of(const Environment& from) {
  attn_env env = {};
  env.size = sizeof env;
  env.backend = ATTN_CPU;
  env.sm_count = from.sm_count;
  env.compute_capability = from.compute_capability;
  env.shared_memory_limit = from.shared_memory_limit;
  env.schedule_seed = from.schedule_seed;
  env.variant = from.variant;
  env.arithmetic = from.arithmetic;
  return env;
}

}  // namespace attnfuzz
