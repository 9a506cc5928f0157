// An operation: what a kernel computes in one call, and what its outputs must be.
//
// A bit of attn_problem.features names the operation of a problem; without such a bit it is the forward
// pass. Code that runs, judges, reduces, explains or exports a call asks the operation and loops over its
// outputs. Only the operation's folder and its oracle name its outputs one by one.
//
//   const Operation& operation = operation_of(c.problem.features);
//   Reference due = operation.evaluate(laid.problem(), laid.given(), plan, calibration, {}, true);
//   for (const Output& output : operation.outputs) compare(due[output.tensor], got[output.tensor]);
//
// An operation is a folder beside forward/ with its operation.cc, and its name in the CMakeLists.txt here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "properties/operations/outputs.h"
#include "reference/oracle.h"

namespace attnfuzz {

struct Case;

// The rule by which an output is compared with its reference.
enum class OutputKind : uint8_t {
  kBounded,    // a number within its bound: Expected::ratio()
  kExact,      // an integer, or the bits of a state's element, that must equal Expected::integer
  kAdmissible  // integers with several right choices: Output::objection judges a row
};

struct Output {
  TensorId tensor;
  OutputKind kind = OutputKind::kBounded;
  bool logarithm = false;  // see Expected::logarithm
  bool optional = false;   // a caller may leave it out; all other outputs are required
  double dead = 0;         // the value of a row that sees no key, unless the plan declares another one
  // For kAdmissible: why the integers of a row are not a right choice, in a sentence without a subject ("names
  // block 3 twice"); empty if they are right.
  std::string (*objection)(const Reference& due, int64_t row, std::span<const int64_t> got) = nullptr;
};

struct Operation {
  const char* name;
  // The bit of attn_problem.features that asks for it; 0 for the forward pass.
  uint64_t feature;
  std::span<const TensorId> inputs;
  // The first output is the main one: pictures and searches for a fault begin with it.
  std::span<const Output> outputs;
  // Computes what the outputs must be, from inputs in host memory. A state among the inputs has its content
  // from before the call. The reference has an Expected for each of `outputs`, in that order. With `sample` it
  // may have fewer rows; Reference::sampled says how many. `exact`: see attnfuzz::evaluate().
  Reference (*evaluate)(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                        const Calibration& calibration, RowSample sample, bool exact);
  // The kinds of problem that evaluate() knows. Others are refused before anything runs.
  KnownFeatures known;
  // Computes the inputs that depend on other inputs and on the plan, such as the results of an
  // earlier call. It passes each to derive(), dense. nullptr: the operation has none.
  void (*prepare)(const attn_problem& problem, const attn_tensors& host, const attn_plan& plan,
                  const std::function<void(TensorId, std::vector<std::byte>)>& derive) = nullptr;
  // Turns a drawn case into a call of this operation: removes what the operation or a kernel with these
  // features does not support, and sets the bit. Applied twice, it changes nothing the second time. nullptr:
  // every drawn case is a call.
  void (*shape)(Case& c, uint64_t kernel_features) = nullptr;

  TensorId main() const { return outputs.front().tensor; }
  // Throws std::out_of_range if the operation has no such output.
  const Output& output(TensorId tensor) const;
  bool has(TensorId tensor) const;
};

namespace operations {
extern const Operation forward;  // computes O and LSE from Q, K and V
}

// The operation of a problem with these features.
const Operation& operation_of(uint64_t features);
// True if a kernel with these features has the operation: its bit, or for the forward pass no
// ATTN_FEATURE_NO_FORWARD.
bool kernel_has(const Operation& operation, uint64_t kernel_features);
// The operation that a drawn problem becomes for a kernel with these features: the problem's own operation if
// the kernel has it, else one that the kernel has, chosen by `dice` if there are several; nullptr if there is
// none.
const Operation* operation_for(uint64_t problem_features, uint64_t kernel_features, uint64_t dice = 0);
// All operations that operation_for() may give, whatever the dice; empty if the kernel has none.
std::vector<const Operation*> operations_for(uint64_t problem_features, uint64_t kernel_features);
// Turns a drawn case into a call of the operation: calls Operation::shape(). Before that it removes 8-bit K and
// V, and keys that stand for blocks, if the operation does not know them, because other fields depend on them.
void make_call(const Operation& operation, Case& c, uint64_t kernel_features);
// All operations, in the order of CMakeLists.txt. forward is the first.
std::span<const Operation* const> all_operations();

// "O", "LSE": an output in the text of a message.
std::string title_of(TensorId tensor);

// Why `due` is not a valid reference of the operation: it lacks an output, has one too many, or has one of
// another kind or with arrays of another length. Empty if it is valid; every element can then be compared.
std::string not_of(const Operation& operation, const Reference& due);

}  // namespace attnfuzz
