// The same kernel elsewhere, whose bits are due: of one on a GPU the CPU executor's build of it,
// in the arithmetic that is that GPU's (docs/checks.md).
//
//   target.twin = std::make_shared<Twin>(open);
//   Target* there = target.twin->get();      // opened when it is first asked for; null: it cannot be
//   Execution e(case_of_twin(c, target.info(), there->info()), *there);
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "properties/case/case.h"
#include "properties/judge/target.h"

namespace attnfuzz {

class Twin {
 public:
  using Open = std::function<std::unique_ptr<Target>(std::string* error)>;
  // `named`: somebody asked for this one; otherwise it goes with its kernel. `calibrated`: the arithmetic that
  // a calibration says the target's device has.
  explicit Twin(Open open, bool named = false, int32_t calibrated = ATTN_ARITHMETIC_ANY)
      : open_(std::move(open)), calibrated_(calibrated), named_(named) {}

  bool named() const { return named_; }

  Target* get() {
    if (!asked_) target_ = open_(&error_), asked_ = true;
    return target_.get();
  }
  // Why it cannot be.
  const std::string& error() const { return error_; }
  int32_t calibrated() const { return calibrated_; }

 private:
  Open open_;
  int32_t calibrated_;
  std::unique_ptr<Target> target_;
  std::string error_;
  bool asked_ = false, named_;
};

// Why nothing of `twin` has the bits of `target`: a device whose arithmetic the executor does not know, or that
// is as published where no calibration says that the device has it. Empty: it has.
std::string cannot_be_compared(const KernelInfo& target, const KernelInfo& twin,
                               int32_t calibrated = ATTN_ARITHMETIC_ANY);

// The case as the twin is given it: in the device's arithmetic, for the device as it is.
Case case_of_twin(Case c, const KernelInfo& target, const KernelInfo& twin);

}  // namespace attnfuzz
