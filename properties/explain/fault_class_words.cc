// Names of the classes, where to look for each, and a guess in words.
#include "properties/case/words.h"
#include "properties/explain/fault_class.h"

namespace attnfuzz {

const char* to_string(FaultClass fault) {
  switch (fault) {
    case FaultClass::kSoftmax:
      return "masked, empty or unscaled softmax";
    case FaultClass::kZeroLength:
      return "zero length";
    case FaultClass::kTail:
      return "tile tail or out of bounds";
    case FaultClass::kOverflow:
      return "integer or grid overflow";
    case FaultClass::kLayout:
      return "stride or layout";
    case FaultClass::kMask:
      return "meaning of a mask or window";
    case FaultClass::kRace:
      return "race or missing synchronisation";
    case FaultClass::kDispatch:
      return "grouped heads or head-dim dispatch";
    case FaultClass::kSplit:
      return "combination of splits or LSE";
    case FaultClass::kNumerics:
      return "numerics";
    case FaultClass::kState:
      return "state or workspace";
    case FaultClass::kUnknown:
      break;
  }
  return "unknown";
}

const char* where_to_look(FaultClass fault) {
  switch (fault) {
    case FaultClass::kSoftmax:
      return "the running maximum: what stands in for -inf before the first key, and that sum and accumulator "
             "are "
             "rescaled whenever it grows";
    case FaultClass::kZeroLength:
      return "early returns and loops that run no time: outputs must still be written, barriers still counted";
    case FaultClass::kTail:
      return "loads and stores of the last tile: predicates, and what the rest of the tile is filled with";
    case FaultClass::kOverflow:
      return "offsets and block indices: 64 bits before the first product, and grid limits of 65535";
    case FaultClass::kLayout:
      return "each tensor's own strides: of batch, head, row and column; and what vector loads ask of an "
             "address";
    case FaultClass::kMask:
      return "which keys a row sees: both ends inclusive or not, the diagonal for seq_q != seq_k, tiles taken "
             "for fully "
             "visible or skipped";
    case FaultClass::kRace:
      return "barriers around shared tiles, waits before their use, and that every thread reaches them";
    case FaultClass::kDispatch:
      return "the KV head of a query head, and the instantiation chosen for these head dims";
    case FaultClass::kSplit:
      return "the weights of the splits' results, empty splits, and the base and sum behind the LSE";
    case FaultClass::kNumerics:
      return "where a value leaves its format: products in 16 bits, exponents without their maximum, constants";
    case FaultClass::kState:
      return "what is read before it is written: workspace, counters, anything kept between calls";
    case FaultClass::kUnknown:
      break;
  }
  return "attnfuzz replay FILE --probe shows the first intermediate that is wrong";
}

std::string FaultGuess::line() const {
  if (likely == FaultClass::kUnknown) return "class of fault: not clear; " + why;
  std::string text = std::string("likely ") + to_string(likely) + ": " + why;
  std::vector<std::string> others;
  for (const FaultClass other : also) others.push_back(to_string(other));
  if (!others.empty()) text += "; could also be " + join(others, ", or ");
  return text;
}

std::string FaultGuess::text() const { return line() + "\n  look at: " + where_to_look(likely) + "\n"; }

}  // namespace attnfuzz
