// A property: what must hold for a kernel in every case that the property applies to.
//
// Each property lives in its own file, relations/NAME.cc, which ends in
//
//   extern const Property NAME = {"NAME", "one sentence that is true of a right kernel", adapt, check};
//
// in namespace attnfuzz::relations. Its name is also a line of the CMakeLists.txt beside it, from which
// registry.cc is made. The command, ctest and reproducer files use that name.
#pragma once

#include <span>
#include <string>

#include "properties/case/case.h"
#include "properties/judge/target/target.h"
#include "properties/operations/operation.h"

namespace attnfuzz {

class Trial;

struct Property {
  const char* name;
  const char* statement;
  // Turns a drawn case into one that the property applies to, with as few changes as possible. False, with a
  // reason, if the property says nothing about the case. Applied twice, it changes nothing the second time.
  bool (*adapt)(Case& c, const KernelInfo& kernel, std::string* why);
  // Runs the case and the variants that the relation needs; reports what failed.
  void (*check)(Trial& trial);
  // Applies only to kernels that split the keys, and to their stages.
  bool needs_stages = false;
  // check() asks more of the kernel than runs: stages, plans, the probe. Its runs cannot be made elsewhere
  // (GivenRuns).
  bool asks_target = false;
  // Compares numbers of one run with another's or with its own, by Expected::allowance(). The oracle must then
  // give exact values, too.
  bool compares = true;
  // The operation of its runs; nullptr: it applies to every operation.
  const Operation* operation = &operations::forward;
  // Asks the kernel for plans that are not run, before check(). If it ends the trial, check() is not called. Null: it
  // asks for none.
  void (*ask)(Trial& trial) = nullptr;
  // Bits of attn_problem.features that its runs ask for.
  uint64_t features = 0;
  // Its runs may have packed batch entries and pages. Without this flag, entries are made dense,
  // with the longest lengths.
  bool packed = false;
  // Its runs may have K and V of 8 bits. Without this flag, K and V get the format of Q.
  bool kv8 = false;
  // Its runs may have keys that stand for blocks. Without this flag, each key stands for itself.
  bool key_blocks = false;
  // An operation beside `operation` that its runs may have; nullptr: there is none.
  const Operation* also = nullptr;
};

// True if the kernel has an operation that the property is about, and knows what its runs ask for.
inline bool of_its_operation(const Property& property, const KernelInfo& kernel) {
  const bool also = property.also != nullptr && kernel_has(*property.also, kernel.features);
  return (property.operation == nullptr || also || kernel_has(*property.operation, kernel.features)) &&
         (property.features & ~kernel.features) == 0;
}

inline bool speaks_of(const Property& property, const KernelInfo& kernel) {
  return of_its_operation(property, kernel) && (!property.needs_stages || kernel.has_stages);
}

// The properties that judge a kernel by default, in the order of CMakeLists.txt.
std::span<const Property* const> properties();
// The same, followed by those that need more than the kernel and are used only by name.
std::span<const Property* const> all_properties();
const Property* find_property(std::string_view name);

}  // namespace attnfuzz
