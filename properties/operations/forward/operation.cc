// The forward pass computes O and LSE from Q, K and V.
#include "properties/operations/operation.h"

#include <limits>

namespace attnfuzz::operations {
namespace {

constexpr TensorId kInputsOfForward[] = {TensorId::kQ,    TensorId::kK,    TensorId::kV,
                                         TensorId::kBias, TensorId::kMask, TensorId::kKeyLengths,
                                         TensorId::kSink, TensorId::kSlopes, TensorId::kCuQ, TensorId::kCuK,
                                         TensorId::kBlockTable, TensorId::kKScale, TensorId::kVScale};
constexpr Output kOutputsOfForward[] = {
    {.tensor = TensorId::kO},
    {.tensor = TensorId::kLse,
     .logarithm = true,
     .optional = true,
     .dead = -std::numeric_limits<double>::infinity()},
};

}  // namespace

const Operation forward = {.name = "forward",
                           .feature = 0,
                           .inputs = kInputsOfForward,
                           .outputs = kOutputsOfForward,
                           .evaluate = evaluate,
                           .known = kOracleKnows};

}  // namespace attnfuzz::operations
