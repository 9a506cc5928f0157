// Describes a field of a struct of kernels/attention.h as a row of a table: its name, type and offset.
//
// The tables of this folder have one row per field, in the order of the struct. Code that copies, prints,
// checks or exports a struct loops over its table. So a new field needs only a new row, and no code can forget
// it.
//
//   constexpr Field row = ATTN_FIELD(attn_problem, seq_q);
//   set(row, &problem, 65);                                    // problem.seq_q = 65
//   visit(row, &problem, [](auto value) { print(value); });    // an int64_t
//   static_assert(covers(kProblemFields, sizeof(attn_problem)));
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "kernels/attention.h"

namespace attnfuzz::contract {

enum class Type : uint8_t {
  kInt32,
  kUint32,
  kInt64,
  kUint64,
  kFloat,
  kPath,      // char[64]
  kUint32x3,  // uint32_t[3]
  kInt64x4,   // int64_t[4]
  kSizeList,  // int64_t[12]
  kSizes,     // attn_sizes
  kTensor,    // attn_tensor
  kString,    // const char*
  kStrings,   // const char* const*
  kReport,    // a function pointer: attn_env.report
  kPlan,      // a function pointer: attn_kernel.plan
  kRun,       // a function pointer: attn_kernel.run
  kPointer    // any other pointer
};

template <class T>
constexpr Type type_of() {
  if constexpr (std::is_same_v<T, int32_t>)
    return Type::kInt32;
  else if constexpr (std::is_same_v<T, uint32_t>)
    return Type::kUint32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return Type::kInt64;
  else if constexpr (std::is_same_v<T, uint64_t>)
    return Type::kUint64;
  else if constexpr (std::is_same_v<T, float>)
    return Type::kFloat;
  else if constexpr (std::is_same_v<T, char[64]>)
    return Type::kPath;
  else if constexpr (std::is_same_v<T, uint32_t[3]>)
    return Type::kUint32x3;
  else if constexpr (std::is_same_v<T, int64_t[4]>)
    return Type::kInt64x4;
  else if constexpr (std::is_same_v<T, int64_t[12]>)
    return Type::kSizeList;
  else if constexpr (std::is_same_v<T, attn_sizes>)
    return Type::kSizes;
  else if constexpr (std::is_same_v<T, attn_tensor>)
    return Type::kTensor;
  else if constexpr (std::is_same_v<T, const char*>)
    return Type::kString;
  else if constexpr (std::is_same_v<T, const char* const*>)
    return Type::kStrings;
  else if constexpr (std::is_same_v<T, decltype(attn_env::report)>)
    return Type::kReport;
  else if constexpr (std::is_same_v<T, decltype(attn_kernel::plan)>)
    return Type::kPlan;
  else if constexpr (std::is_same_v<T, decltype(attn_kernel::run)>)
    return Type::kRun;
  else {
    static_assert(std::is_pointer_v<T>,
                  "a new type of field: name it in Type and in python/native/print_contract.cc");
    return Type::kPointer;
  }
}

struct Field {
  const char* name;
  Type type;
  size_t offset, bytes;

  constexpr bool is_number() const { return type <= Type::kFloat; }
};

// The compiler fills in the offset and the type of a row, so that a row cannot contradict attention.h.
#define ATTN_FIELD(STRUCT, MEMBER)                                                                \
  ::attnfuzz::contract::Field {                                                                   \
    #MEMBER, ::attnfuzz::contract::type_of<decltype(STRUCT::MEMBER)>(), offsetof(STRUCT, MEMBER), \
        sizeof(STRUCT::MEMBER)                                                                    \
  }

// True if the rows cover every byte of a struct once, in order. It is false if a field of attention.h has no
// row.
template <class Rows>
constexpr bool covers(const Rows& rows, size_t bytes) {
  size_t next = 0;
  for (const auto& row : rows) {
    if (row.at.offset != next) return false;
    next += row.at.bytes;
  }
  return next == bytes;
}

// The row with this name; nullptr if there is none.
template <class Rows>
constexpr auto* find(const Rows& rows, std::string_view name) {
  for (const auto& row : rows) {
    if (row.at.name == name) return &row;
  }
  return static_cast<decltype(&*std::begin(rows))>(nullptr);
}

// Calls f with the value of a numeric field of a struct. Does nothing for other fields.
template <class F>
void visit(const Field& at, const void* of, F&& f) {
  const auto with = [&](auto value) {
    std::memcpy(&value, static_cast<const char*>(of) + at.offset, sizeof value);
    f(value);
  };
  switch (at.type) {
    case Type::kInt32:
      return with(int32_t{});
    case Type::kUint32:
      return with(uint32_t{});
    case Type::kInt64:
      return with(int64_t{});
    case Type::kUint64:
      return with(uint64_t{});
    case Type::kFloat:
      return with(float{});
    default:
      return;
  }
}

// Sets a field to a number, as an assignment would.
template <class Value>
void set(const Field& at, void* of, Value value) {
  visit(at, of, [&]<class T>(T) {
    const T as = static_cast<T>(value);
    std::memcpy(static_cast<char*>(of) + at.offset, &as, sizeof as);
  });
}

}  // namespace attnfuzz::contract
