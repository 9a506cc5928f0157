// The assumption of an error model about something that a plan leaves open.
//
//   for (const Assumption& one : model.assumptions) print(one.text());
//   // "exp not known: __expf assumed"
#pragma once

#include <cstdint>
#include <string>

namespace attnfuzz {

struct Assumption {
  // The part of a kernel that its plan does not describe.
  enum class Part : uint8_t {
    kAccumulator,
    kMmaBlock,
    kExp,
    kLog,
    kReciprocal,
    kTanh,
    kScaling,
    kFormatOfP,
    kFormatOfPartials,
    kKvTile,
    kKvRule,
    kOrderOfP
  };
  Part part = Part::kAccumulator;
  std::string assumed;  // "__expf"

  std::string text() const;   // "exp not known: __expf assumed"
  std::string brief() const;  // "exp: __expf"
  friend bool operator==(const Assumption&, const Assumption&) = default;
};

}  // namespace attnfuzz
