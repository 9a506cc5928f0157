// Finds out what a kernel refuses, by its plan(), or by run() if run() may refuse.
//
// Few kernels support everything. Each feature is asked for alone, on a small problem. A refused feature is
// drawn in only a few cases, and properties that test only refused features are skipped. The printed results
// name both.
#pragma once

#include <optional>
#include <string>

#include "properties/case/limits.h"
#include "properties/draw/generator.h"
#include "properties/judge/property.h"

namespace attnfuzz {

// Says how a kernel is asked that may also refuse in run() (KernelInfo::refuses_late). It is run until `seconds`
// are used up. After that only plan() is asked. If `raised` is true, an exception counts as a refusal. If
// `runs` is true, every kernel is run, and not_taken() (tried.h) decides from the run whether it refused.
struct AskedLate {
  double seconds = 10;
  bool raised = false;
  bool runs = false;
};

// Asks a kernel whether it takes cases, which must be legal.
class Taker {
 public:
  explicit Taker(Target& target, const AskedLate& late = {}) : target_(target), late_(late) {}

  // Why the kernel refuses the case. A case is drawn before its operation is known, so the kernel is asked
  // about a call of each operation that may use the case. Nothing if the kernel takes all these calls, or if
  // one fails.
  std::optional<std::string> refusal(const Case& c);
  // True after kMostFaults calls that crashed, hung or failed. Further questions are useless; the check's own
  // cases will show the failure.
  bool gives_up() const { return faults_ >= kMostFaults; }

 private:
  static constexpr int kMostFaults = 3;

  std::optional<std::string> refusal_of_call(const Case& asked);

  Target& target_;
  AskedLate late_;
  double spent_ = 0;
  int faults_ = 0;
};

void usual_scale(Case& c);
// Gives a case, whose sizes are set, the usual scale and a variant, and moves it into the declared domain.
void make_ordinary(const Target& target, Case& c);

// The refusal for a limit on a combination or a value instead of on one feature, for example a bias together
// with a mask. nullptr if the limit is not of this sort.
const Refusal* refusal_of_several(Limit limit);

// Bytes of shared memory that a block may have, for each device that cases are drawn for, in ascending order.
// The last is the default device.
inline constexpr int64_t kSharedOfDevices[] = {101376, 166912, 232448};

// Asks about every refusal. Returns nothing refused if the kernel takes none of the plain small problems.
Refused ask_for_refusals(Target& target, const AskedLate& late = {});

// Returns `left_out`, and the kernel's refusals that the caller's domain does not mention.
// The kernel must take the sizes and formats that the domain names.
Refused with_unspoken(Refused left_out, const attn_domain& asked, const Refused& by_kernel);

// True if the property has something to judge.
bool speaks_of(const Property& property, const Refused& refused);

// "bias, softcap, head dimensions above 64"; empty if nothing is refused.
std::string in_words(const Refused& refused);

}  // namespace attnfuzz
