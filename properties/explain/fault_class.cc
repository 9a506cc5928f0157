#include "properties/explain/fault_class.h"

namespace attnfuzz {
namespace {

struct Words {
  const char* id;
  const char* name;
  const char* look_at;
};
constexpr Words kWords[kFaultClasses] = {
    {"unknown", "unknown", "attnfuzz replay FILE --probe shows the first intermediate that is wrong"},
    {"softmax", "masked, empty or unscaled softmax",
     "the running maximum: what stands in for -inf before the first key, and that sum and accumulator are "
     "rescaled "
     "whenever it grows"},
    {"zero-length", "zero length",
     "early returns and loops with no iteration: outputs must still be written, barriers still counted"},
    {"tail", "tile tail or out of bounds",
     "loads and stores of the last tile: predicates, and the values that fill the rest of the tile"},
    {"overflow", "integer or grid overflow",
     "offsets and block indices: 64 bits before the first product, and grid limits of 65535"},
    {"layout", "stride or layout",
     "each tensor's strides of batch, head, row and column; and the alignment that vector loads need"},
    {"mask", "meaning of a mask or window",
     "which keys a row sees: both ends inclusive or not, the diagonal for seq_q != seq_k, tiles taken for "
     "fully "
     "visible or skipped"},
    {"race", "race or missing synchronisation",
     "barriers around shared tiles, and waits before their use: every thread must reach them"},
    {"dispatch", "grouped heads or head-dim dispatch",
     "the KV head of a query head, and the instantiation chosen for these head dims"},
    {"split", "combination of splits or LSE",
     "the weights of the splits' results, empty splits, and the base and sum behind the LSE"},
    {"numerics", "numerics",
     "where a value leaves its format: products in 16 bits, exponents without their maximum, constants"},
    {"state", "state or workspace",
     "what is read before it is written: workspace, counters, anything kept between calls"}};

}  // namespace

const char* to_string(FaultClass fault) { return kWords[static_cast<size_t>(fault)].name; }
const char* id_of(FaultClass fault) { return kWords[static_cast<size_t>(fault)].id; }
const char* where_to_look(FaultClass fault) { return kWords[static_cast<size_t>(fault)].look_at; }

std::string FaultGuess::line() const {
  if (!known()) return "";
  std::string text = std::string("likely ") + to_string(likely) + ": " + why;
  if (also != FaultClass::kUnknown) text += std::string("; could also be ") + to_string(also);
  return text;
}

std::string FaultGuess::text() const {
  return known() ? line() + "\n  look at: " + where_to_look(likely) + "\n" : "";
}

}  // namespace attnfuzz
