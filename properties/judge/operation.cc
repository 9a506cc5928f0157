#include "properties/judge/operation.h"

namespace attnfuzz {
namespace {

constexpr TensorId kForwardTensors[] = {TensorId::kQ,    TensorId::kK,         TensorId::kV,
                                        TensorId::kO,    TensorId::kLse,       TensorId::kBias,
                                        TensorId::kMask, TensorId::kKeyLengths};

}  // namespace

const Operation kForward = {"forward", kForwardTensors, evaluate, kOracleKnows};

// The contract knows one operation, so every descriptor means this one.
const Operation& operation_of(const KernelInfo&) { return kForward; }

}  // namespace attnfuzz
