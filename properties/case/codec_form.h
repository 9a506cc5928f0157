// Describes how files write a struct: a list of its members with their names and forms.
//
//   template <>
//   inline constexpr auto codec::kFields<Call> =
//       fields("a call", field("dirty_workspace", &Call::dirty_workspace), field("stream", &Call::stream));
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace attnfuzz::codec {

// The form of a field in a file, if its type alone does not determine it.
struct Plain {};
struct Names {  // an enum as a string; names in the order of the values
  std::span<const char* const> names;
};
struct Bits {};  // an unsigned number as "0x7e00"
struct AtMost {  // an array of at most this many elements
  size_t size;
};
struct Within {  // an integer within bounds, both included
  int64_t low, high;
};

template <typename T, typename M, typename Form>
struct Field {
  const char* name;
  M T::* member;
  Form form;
};
template <typename T, typename M, typename Form = Plain>
constexpr Field<T, M, Form> field(const char* name, M T::* member, Form form = {}) {
  return {name, member, form};
}
// The version of the format. It is no member of the case.
struct FormatField {
  const char* name = "format";
};

// Fields by number. (With a std::tuple of Problem's fields, the tuple would take a sixth of the time to
// compile case.h.)
template <size_t kAt, typename F>
struct NumberedField {
  F field;
};
template <typename Numbers, typename... Of>
struct NumberedFields;
template <size_t... kAt, typename... Of>
struct NumberedFields<std::index_sequence<kAt...>, Of...> : NumberedField<kAt, Of>... {
  constexpr explicit NumberedFields(Of... all) : NumberedField<kAt, Of>{all}... {}
  // Calls visit(field...) with all fields.
  template <typename Visit>
  constexpr decltype(auto) apply(Visit visit) const {
    return visit(static_cast<const NumberedField<kAt, Of>&>(*this).field...);
  }
};

template <typename... Of>
struct Fields {
  const char* what;
  NumberedFields<std::index_sequence_for<Of...>, Of...> all;

  constexpr std::array<const char*, sizeof...(Of)> names() const {
    return all.apply([](const auto&... one) { return std::array{one.name...}; });
  }
};
template <typename... Of>
constexpr Fields<Of...> fields(const char* what, Of... all) {
  return {what, NumberedFields<std::index_sequence_for<Of...>, Of...>(all...)};
}

template <typename T>
inline constexpr int kFields = 0;  // none: T is not a structure
template <typename T>
concept Structure = requires { kFields<T>.what; };

}  // namespace attnfuzz::codec
