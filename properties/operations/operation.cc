#include "properties/operations/operation.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <stdexcept>

#include "properties/case/places/key_blocks.h"
#include "properties/case/places/planted_rank.h"

namespace attnfuzz {
namespace {

// Names arrays of an output whose length does not match its rows and columns; empty if all match.
std::string wrong_length(const Output& output, const Expected& due) {
  const bool integers = output.kind != OutputKind::kBounded;
  const size_t elements = integers ? due.rule.size() : due.value.size();
  const auto columns = static_cast<size_t>(due.columns);
  const bool whole = columns > 0 ? elements % columns == 0 : elements == 0;
  const bool bounded = due.bound.size() == elements && (due.exact.empty() || due.exact.size() == elements);
  const bool of_integers = output.kind == OutputKind::kAdmissible || due.integer.size() == elements;
  if (whole && due.rule.size() == elements && (integers ? of_integers : bounded)) return "";
  return std::string("its arrays of ") + name_of(output.tensor) + " are not of one length";
}

}  // namespace

const Output& Operation::output(TensorId tensor) const {
  const auto found = std::ranges::find(outputs, tensor, &Output::tensor);
  if (found == outputs.end()) throw std::out_of_range(std::string(name) + " has no output " + name_of(tensor));
  return *found;
}

bool Operation::has(TensorId tensor) const {
  return std::ranges::count(outputs, tensor, &Output::tensor) + std::ranges::count(inputs, tensor) > 0;
}

const Operation& operation_of(uint64_t features) {
  for (const Operation* operation : all_operations()) {
    if ((operation->feature & features) != 0) return *operation;
  }
  return operations::forward;
}

bool kernel_has(const Operation& operation, uint64_t kernel_features) {
  if (operation.feature == 0) return (kernel_features & ATTN_FEATURE_NO_FORWARD) == 0;
  return (kernel_features & operation.feature) != 0;
}

const Operation* operation_for(uint64_t problem_features, uint64_t kernel_features, uint64_t dice) {
  const std::vector<const Operation*> all = operations_for(problem_features, kernel_features);
  return all.empty() ? nullptr : all[dice % all.size()];
}

std::vector<const Operation*> operations_for(uint64_t problem_features, uint64_t kernel_features) {
  if (const Operation& own = operation_of(problem_features); kernel_has(own, kernel_features)) return {&own};
  std::vector<const Operation*> has;
  std::ranges::copy_if(all_operations(), std::back_inserter(has),
                       [&](const Operation* one) { return kernel_has(*one, kernel_features); });
  return has;
}

void make_call(const Operation& operation, Case& c, uint64_t kernel_features) {
  // Before shape(), which may read values planted in K and V: set_kv8() changes their format.
  if ((operation.known.bits & ATTN_FEATURE_KV8) == 0) set_kv8(c, std::nullopt);
  if ((operation.known.bits & ATTN_FEATURE_KEY_STEP) == 0) give_up_key_blocks(c);
  if (operation.shape != nullptr) operation.shape(c, kernel_features);
}

std::string title_of(TensorId tensor) {
  std::string title = name_of(tensor);
  std::ranges::transform(title, title.begin(), [](unsigned char c) { return std::toupper(c); });
  return title;
}

std::string not_of(const Operation& operation, const Reference& due) {
  for (size_t n = 0; n < std::max(due.outputs.size(), operation.outputs.size()); ++n) {
    if (n >= due.outputs.size()) return std::string("it has no ") + name_of(operation.outputs[n].tensor);
    const Expected& expected = due.outputs[n];
    if (n >= operation.outputs.size() || operation.outputs[n].tensor != expected.tensor)
      return std::string("it has ") + name_of(expected.tensor) + " as output " + std::to_string(n);
    const Output& output = operation.outputs[n];
    if (output.logarithm != expected.logarithm)
      return std::string("it takes ") + name_of(output.tensor) +
             (expected.logarithm ? " for a logarithm" : " for no logarithm");
    if (std::string why = wrong_length(output, expected); !why.empty()) return why;
  }
  return "";
}

}  // namespace attnfuzz
