// Checks the plan literally: the emulator repeats its tiles, sums, roundings and merges in the device's
// arithmetic, and must reach the bits that were written. No bound is involved. If the plan is wrong, or if
// the kernel adds in another order or rounds once more or less, a bit differs.
#include <bit>
#include <cstdio>

#include "properties/judge/judge.h"
#include "properties/judge/stopwatch.h"
#include "properties/operations/forward/relations/tools.h"
#include "reference/emulator/declared.h"
#include "reference/emulator/planned_bits.h"
#include "reference/model/device_arithmetic.h"
#include "reference/numbers/formats.h"

namespace attnfuzz::relations {
namespace {

using emulator::PlannedBits;

// The device arithmetic in which the kernel runs, if it is known.
int32_t arithmetic_of(const Case& c, const KernelInfo& kernel) {
  if (kernel.backend == ATTN_CPU) return c.env.arithmetic;
  const int32_t arithmetic = arithmetic_of_device(kernel.device);
  return is_proven(arithmetic) ? arithmetic : ATTN_ARITHMETIC_ANY;
}

bool adapt_bit_exact(Case& c, const KernelInfo& kernel, std::string* why) {
  if (arithmetic_of(c, kernel) == ATTN_ARITHMETIC_ANY) {
    *why = "it needs a device's arithmetic: give --arithmetic device:h200, or run on that GPU";
    return false;
  }
  const std::string& flags = kernel.build.flags;
  if (kernel.backend == ATTN_CUDA && !flags.empty() && flags.find("-fmad=false") == std::string::npos) {
    *why = "nvcc fuses multiply and add, unlike the plan: use -fmad=false (attnfuzz_add_kernel(... EXACT))";
    return false;
  }
  // The emulator does not know sinks and slopes.
  c.problem.sink.reset();
  drop_slopes(c);
  // The LSE shows errors that the last rounding of O hides.
  constexpr int32_t kNever = 1;
  if (!kernel.domain || kernel.domain->lse != kNever) c.want_lse = true;
  return true;
}

// "0x3c01 (1.00098)", in the output's format.
std::string bits(int32_t dtype, float x) {
  char text[48];
  if (dtype == ATTN_F32) {
    std::snprintf(text, sizeof text, "0x%08x", std::bit_cast<uint32_t>(x));
  } else {
    std::snprintf(text, sizeof text, "0x%04x", encode16(dtype, x));
  }
  return std::string(text) + " (" + digits(x) + ")";
}

// The elements of one output that differ.
struct Differences {
  TensorId tensor;
  int32_t dtype;
  const Run& run;
  std::vector<uint8_t> marks;
  int64_t first = -1, first_due = 0, bad = 0, of = 0;

  Differences(TensorId t, int32_t format, const Run& r)
      : tensor(t), dtype(format), run(r), marks(r[t].size()) {}

  void compare(int64_t at, int64_t due_at, float due) {
    const float got = run[tensor][static_cast<size_t>(at)];
    ++of;
    if (std::bit_cast<uint32_t>(got) == std::bit_cast<uint32_t>(due) || (got != got && due != due)) return;
    marks[static_cast<size_t>(at)] = 1;
    if (bad++ == 0) first = at, first_due = due_at;
  }

  void fail(Trial& trial, float due) const {
    const int64_t columns = run.reference[tensor].columns;
    const float got = run[tensor][static_cast<size_t>(first)];
    const Problem& p = run.c.problem;
    Where where = where_is(tensor, p, run.plan, first / columns, first % columns);
    where.got = got;
    where.expected = due;
    where.bad = bad;
    where.of = of;
    trial.fail(Kind::kRelation, name_of(where) + " is " + bits(dtype, got) + ", and the plan comes to " +
                                    bits(dtype, due) + "; " + std::to_string(bad) + " of " +
                                    std::to_string(of) + " elements differ");
    trial.verdict().where = where;
    trial.verdict().shapes =
        shape_of(run.reference, run.reference[tensor], p, run.plan, run[tensor], &run.c, marks);
  }
};

void check_bit_exact(Trial& trial) {
  const Run* run = trial.run(trial.base());
  if (!run) return;
  const LaidOut& laid = trial.laid_out()->laid;
  if (const std::string why = emulator::left_open(laid.problem(), run->plan); !why.empty())
    return trial.reject("not judged by bit_exact: " + why);
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < run->reference.rows; ++row) {
    const RowState state = run->reference.state[static_cast<size_t>(row)];
    if (state != RowState::kSkipped && state != RowState::kAbsent) rows.push_back(row);
  }
  Stopwatch watch(trial.verdict().oracle_s);
  const PlannedBits due = emulator::planned_bits(laid.problem(), laid.tensors(), run->plan,
                                                 arithmetic_of(run->c, trial.target().info()), rows);
  Differences o(TensorId::kO, run->c.problem.dtype, *run), lse(TensorId::kLse, ATTN_F32, *run);
  for (size_t n = 0; n < rows.size(); ++n) {
    if (!(*run)[TensorId::kLse].empty()) lse.compare(rows[n], static_cast<int64_t>(n), due.lse[n]);
    for (int64_t column = 0; column < due.columns && !(*run)[TensorId::kO].empty(); ++column) {
      const size_t at = n * static_cast<size_t>(due.columns) + static_cast<size_t>(column);
      if (due.open.empty() || !due.open[at])
        o.compare(rows[n] * due.columns + column, static_cast<int64_t>(at), due.o[at]);
    }
  }
  if (o.bad > 0) return o.fail(trial, due.o[static_cast<size_t>(o.first_due)]);
  if (lse.bad > 0) return lse.fail(trial, due.lse[static_cast<size_t>(lse.first_due)]);
}

}  // namespace

extern const Property bit_exact = {
    .name = "bit_exact",
    .statement = "O and LSE have the bits that the plan comes to in the device's arithmetic",
    .adapt = adapt_bit_exact,
    .check = check_bit_exact,
    .asks_target = true,
    .packed = true,
    .key_blocks = true};

}  // namespace attnfuzz::relations
