// A peer build: another build of the same kernel, whose bits a target must reproduce. For a kernel on a GPU, it
// is the CPU executor's build in the arithmetic of that GPU (docs/checks.md).
//
//   target.peer = std::make_shared<Peer>(open);
//   Target* there = target.peer->get();      // opened on first use; null: it cannot be opened
//   Execution e(case_of_peer(c, target.info(), there->info()), *there);
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "properties/case/case.h"
#include "properties/judge/target/target.h"

namespace attnfuzz {

class Peer {
 public:
  using Open = std::function<std::unique_ptr<Target>(std::string* error)>;
  // `named`: the user asked for this peer build; otherwise it comes with its kernel. `calibrated`: the
  // arithmetic that a calibration says the target's device has.
  explicit Peer(Open open, bool named = false, int32_t calibrated = ATTN_ARITHMETIC_ANY)
      : open_(std::move(open)), calibrated_(calibrated), named_(named) {}

  bool named() const { return named_; }

  Target* get() {
    if (!asked_) target_ = open_(&error_), asked_ = true;
    return target_.get();
  }
  // Why it could not be opened.
  const std::string& error() const { return error_; }
  int32_t calibrated() const { return calibrated_; }

 private:
  Open open_;
  int32_t calibrated_;
  std::unique_ptr<Target> target_;
  std::string error_;
  bool asked_ = false, named_;
};

// Why the bits of `peer` and `target` cannot be compared: the executor does not know the device's
// arithmetic, or knows it only as published and no calibration confirms it for this device. Empty: they
// can.
std::string cannot_be_compared(const KernelInfo& target, const KernelInfo& peer,
                               int32_t calibrated = ATTN_ARITHMETIC_ANY);

// The case for the peer build: in the device's arithmetic, with the device's properties.
Case case_of_peer(Case c, const KernelInfo& target, const KernelInfo& peer);

}  // namespace attnfuzz
