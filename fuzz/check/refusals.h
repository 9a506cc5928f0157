// Learns what a kernel does not do, from its plan(), or from run() if that may refuse.
//
// Few kernels do everything. Each feature is asked for alone, on a small problem;
// what is refused is drawn in a few cases only, and properties that are about
// nothing else are left out. Both are said where results are printed.
#pragma once

#include <optional>
#include <string>

#include "properties/case/limits.h"
#include "properties/draw/generator.h"
#include "properties/judge/property.h"

namespace attnfuzz {

// How a kernel is asked that may refuse in run() as well (KernelInfo::refuses_late): it is run for so many
// seconds, and after that only plan() is asked; an exception may count as a refusal. `runs`: any kernel is run,
// and a plain CUDA function refuses as not_taken() says (tried.h).
struct AskedLate {
  double seconds = 10;
  bool raised = false;
  bool runs = false;
};

// Asks a kernel whether it takes cases, which must be legal.
class Taker {
 public:
  explicit Taker(Target& target, const AskedLate& late = {}) : target_(target), late_(late) {}

  // Why it does not; nothing if it does, or fails.
  std::optional<std::string> refusal(const Case& c);
  // True if so many calls have crashed, hung or failed that there is nothing to learn: the cases will show it.
  bool gives_up() const { return faults_ >= kMostFaults; }

 private:
  static constexpr int kMostFaults = 3;

  Target& target_;
  AskedLate late_;
  double spent_ = 0;
  int faults_ = 0;
};

// The refusal behind a limit that no feature alone is refused for: a bias with a mask. nullptr: there is no
// such.
const Refusal* refusal_of_several(Limit limit);

// Bytes of shared memory a block may have on the devices that are drawn, ascending; the last is the usual
// one's.
inline constexpr int64_t kSharedOfDevices[] = {101376, 166912, 232448};

// Nothing, if the small problem itself is refused.
Refused ask_for_refusals(Target& target, const AskedLate& late = {});

// Joins what a caller leaves out with the kernel's refusals that the caller's domain does not name. The kernel
// must take the sizes and formats that the domain names.
Refused with_unspoken(Refused left_out, const attn_domain& asked, const Refused& by_kernel);

// True if the property has something to judge.
bool speaks_of(const Property& property, const Refused& refused);

// "bias, softcap, head dimensions above 64"; empty if nothing is refused.
std::string in_words(const Refused& refused);

}  // namespace attnfuzz
