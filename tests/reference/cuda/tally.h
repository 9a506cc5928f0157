// Counts the results of comparing an oracle on a GPU with the host's over many cases.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>

#include "reference/agreement.h"

namespace attnfuzz {

struct AgreementTally {
  int64_t cases = 0, rows = 0, bounded = 0, uninformative = 0, not_for_it = 0;
  int64_t lists = 0;  // cases with listed blocks
  // Cases with dbias: all, in 16 bits, of packed entries, and with sums over 32 pairs or more, each by a warp.
  int64_t biased = 0, biased_16_bits = 0, biased_packed = 0, biased_by_warp = 0;
  double value = 0, bound = 0;  // the largest differences (Agreement)
  int64_t differences = 0;
  std::string first;  // the first difference

  void add(const std::string& name, const Reference& reference, const Agreement& agreement) {
    ++cases;
    rows += reference.sampled;
    bounded += std::ranges::count(reference.state, RowState::kBounded);
    uninformative += reference.uninformative;
    biased += std::ranges::any_of(reference.outputs, [](const Expected& due) {
      return due.tensor == TensorId::kDbias && !due.value.empty();
    });
    value = std::max(value, agreement.value);
    bound = std::max(bound, agreement.bound);
    if (agreement.difference.empty()) return;
    if (differences++ == 0) first = name + ": " + agreement.difference;
  }
  // Prints the tally. Returns false if there is a difference, or if nothing was compared.
  bool say() const {
    std::printf(
        "%lld comparisons of %lld rows (%lld bounded, %lld uninformative): values %.3g of a bound apart, "
        "bounds %.3g of themselves (at most %.3g); %lld differ, %lld not for it\n",
        (long long)cases, (long long)rows, (long long)bounded, (long long)uninformative, value, bound, kApart,
        (long long)differences, (long long)not_for_it);
    if (!first.empty()) std::printf("first difference: %s\n", first.c_str());
    return differences == 0 && cases > 0;
  }
};

}  // namespace attnfuzz
