// A property: what must hold of a kernel, for every case it speaks of.
//
// Each lives in a file of its own, relations/NAME.cc, that ends in
//
//   extern const Property NAME = {"NAME", "one sentence that is true of a right kernel", adapt, check};
//
// in namespace attnfuzz::relations, and is named once more in the CMakeLists.txt beside it,
// from which registry.cc is made. The command, ctest and reproducer files call
// it by that name.
#pragma once

#include <span>
#include <string>

#include "properties/case/case.h"
#include "properties/judge/operation.h"
#include "properties/judge/target.h"

namespace attnfuzz {

class Trial;

struct Property {
  const char* name;
  const char* statement;
  // Turns a drawn case into one that this property speaks of, as little changed
  // as can be; false, with a reason, if it says nothing about this one. Applied
  // to a case it has already adapted, it changes nothing.
  bool (*adapt)(Case& c, const KernelInfo& kernel, std::string* why);
  // Runs the case and what the relation asks for beside it; says what failed.
  void (*check)(Trial& trial);
  // Speaks of kernels that split the keys, and of their stages, alone.
  bool needs_stages = false;
  // Asks of the kernel more than Trial::run() does: plans that are not run, stages, memory that is kept from
  // one case to the next. Then its runs cannot be made elsewhere (GivenRuns).
  bool asks_target = false;
  // Holds numbers of a run to another's or to some of its own, by Expected::allowance(): then the oracle says
  // what is exactly due, too.
  bool compares = true;
  // Of what its runs compute.
  const Operation* operation = &kForward;
};

inline bool speaks_of(const Property& property, const KernelInfo& kernel) {
  return property.operation == &operation_of(kernel) && (!property.needs_stages || kernel.has_stages);
}

// What a kernel is judged by where none is named, in the order of CMakeLists.txt.
std::span<const Property* const> properties();
// And behind them those that need more than the kernel, and are judged by where they are named.
std::span<const Property* const> all_properties();
const Property* find_property(std::string_view name);

}  // namespace attnfuzz
