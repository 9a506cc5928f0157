// Records as JSON: one list of a record's members serves both directions.
//
//   void fields(Is<Machine> auto& r, auto f) { f("host", r.host), f("cores", r.cores); }
//
//   Json j = machine;    // works for a vector or a map of records, too
//   j.get_to(machine);   // throws Json::exception if a member is missing or has the wrong type
//
// Define the list in the namespace of the record, before its first use.
#pragma once

#include <concepts>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "base/json.h"

namespace attnfuzz {

template <class R, class Record>
concept Is = std::same_as<std::remove_const_t<R>, Record>;

struct WriteFields {
  Json& j;
  template <class T>
  void operator()(const char* name, const T& value) const {
    j[name] = value;
  }
  template <class T>
  void operator()(const char* name, const std::optional<T>& value) const {
    j[name] = value ? Json(*value) : Json();
  }
  // A member that was added later: older files lack it.
  template <class T>
  void later(const char* name, const T& value) const {
    j[name] = value;
  }
  // The bytes as they lie in memory; only the same program reads them.
  template <class T>
  void bytes(const char* name, const T& value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    j[name] = std::string(reinterpret_cast<const char*>(&value), sizeof value);
  }
};

struct ReadFields {
  const Json& j;
  template <class T>
  void operator()(const char* name, T& value) const {
    j.at(name).get_to(value);
  }
  template <class T>
  void operator()(const char* name, std::optional<T>& value) const {
    value.reset();
    if (const Json& given = j.at(name); !given.is_null()) given.get_to(value.emplace());
  }
  template <class T>
  void later(const char* name, T& value) const {
    if (j.contains(name)) j.at(name).get_to(value);
  }
  template <class T>
  void bytes(const char* name, T& value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto& text = j.at(name).get_ref<const std::string&>();
    if (text.size() != sizeof value) throw std::runtime_error(std::string(name) + " is of another size");
    std::memcpy(static_cast<void*>(&value), text.data(), sizeof value);
  }
};

template <class R>
  requires requires(const R& r, WriteFields f) { fields(r, f); }
void to_json(Json& j, const R& r) {
  fields(r, WriteFields{j});
}

template <class R>
  requires requires(R& r, ReadFields f) { fields(r, f); }
void from_json(const Json& j, R& r) {
  fields(r, ReadFields{j});
}

}  // namespace attnfuzz
