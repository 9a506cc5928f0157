// The values of the operands of inline PTX while it runs: C++ values, registers that the text
// declares, numbers, special registers, addresses.
#pragma once

#include <string.h>

#include <string_view>
#include <type_traits>

#include "kernels/cuda_source/cuda/api.h"
#include "kernels/cuda_source/cuda/ptx/text.h"

namespace simt::ptx {

// An argument as bytes.
struct Cell {
  void* data;
  size_t size;
};

template <class T>
struct In {
  T value;
  Cell cell() { return {&value, sizeof value}; }
};
template <class T>
struct Out {
  T* where;
  Cell cell() { return {const_cast<void*>(static_cast<const volatile void*>(where)), sizeof(T)}; }
};

template <class T>
inline In<std::decay_t<T>> in(T&& value) {
  return {static_cast<std::decay_t<T>>(value)};
}
template <class T>
inline Out<T> out(T& value) {
  return {&value};
}
template <class T>
inline Out<T> inout(T& value) {
  return {&value};
}

// Registers that the text declares. One that was not written holds the same bits in every run, a NaN;
// MemorySanitizer sees that it is undefined.
template <int kCount>
struct Registers {
  Wide values[kCount + 1];
  Registers() {
    if (!SIMT_MSAN) memset(values, 0xFF, kCount * sizeof(Wide));
  }
};

struct Context {
  Cell* cells;
  Wide* registers;
  Place here;

  template <class T>
  SIMT_SLOTS T read(const Value& v) const {
    T result{};
    if (v.kind == Value::kArgument) {
      const Cell& cell = cells[v.number];
      memcpy(&result, cell.data, cell.size < sizeof result ? cell.size : sizeof result);
    } else if (v.kind == Value::kRegister) {
      memcpy(&result, &registers[v.number], sizeof result);
    } else if (v.kind == Value::kNumber) {
      const long long number = v.number;
      memcpy(&result, &number, sizeof result);
    } else if (v.kind == Value::kReal) {
      const auto narrow = static_cast<float>(v.real);
      if constexpr (sizeof result == 4) memcpy(&result, &narrow, sizeof narrow);
      if constexpr (sizeof result == 8) memcpy(&result, &v.real, sizeof v.real);
    } else if (v.kind == Value::kSpecial) {
      const uint64_t number = special(v.name);
      memcpy(&result, &number, sizeof result);
    }
    return result;
  }
  template <class T>
  void write(const Value& v, T value) const {
    if (v.kind == Value::kArgument) {
      const Cell& cell = cells[v.number];
      if (cell.size > sizeof value) memset(cell.data, 0, cell.size);
      memcpy(cell.data, &value, cell.size < sizeof value ? cell.size : sizeof value);
    } else if (v.kind == Value::kRegister) {
      registers[v.number] = 0;
      memcpy(&registers[v.number], &value, sizeof value);
    }
  }
  bool holds(const Value& guard) const {
    if (guard.kind == Value::kNone) return true;
    return read<bool>(guard) != guard.negated;
  }
  static uint64_t special(std::string_view name) {
    if (name == "laneid") return current->linear % 32;
    if (name == "warpid") return current->linear / 32;
    if (name == "tid.x") return threadIdx.x;
    if (name == "tid.y") return threadIdx.y;
    if (name == "tid.z") return threadIdx.z;
    if (name == "ctaid.x") return blockIdx.x;
    if (name == "ctaid.y") return blockIdx.y;
    if (name == "ctaid.z") return blockIdx.z;
    if (name == "ntid.x") return blockDim.x;
    if (name == "ntid.y") return blockDim.y;
    if (name == "ntid.z") return blockDim.z;
    if (name == "nctaid.x") return gridDim.x;
    if (name == "nctaid.y") return gridDim.y;
    if (name == "lanemask_lt") return (1u << current->linear % 32) - 1;
    return 0;
  }
};

constexpr bool known_special(std::string_view name) {
  for (const std::string_view known :
       {"laneid", "warpid", "tid.x", "tid.y", "tid.z", "ctaid.x", "ctaid.y", "ctaid.z", "ntid.x", "ntid.y",
        "ntid.z", "nctaid.x", "nctaid.y", "lanemask_lt"}) {
    if (name == known) return true;
  }
  return false;
}

// An address in brackets. It has 32 bits in shared memory, and 64 elsewhere.
inline char* address(const Operand& operand, const Context& c, bool shared) {
  const uint64_t at = c.read<uint64_t>(operand.parts[0]) + static_cast<uint64_t>(operand.offset);
  if (shared) return static_cast<char*>(shared_pointer(static_cast<uint32_t>(at), c.here));
  return reinterpret_cast<char*>(at);
}

}  // namespace simt::ptx
