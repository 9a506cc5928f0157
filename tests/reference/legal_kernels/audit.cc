// Measures which wrong kernels the oracle catches, and its false alarms:
//
//   reference_audit legal N [FIRST]    runs N random legal kernels over every choice that a plan has
//   reference_audit sharp [CASES]      prints the table of wrong kernels that are caught, by length
//   reference_audit warnings [CASES]   the same, and how many of the others have unlikely errors
//                                      (reference/warnings/error_statistics.h)
//
// `sharp` uses the declared plan of fa1 and splitk in an H200's arithmetic, d = 64, f16, four query rows
// a case. The data are Gaussian; for bugs that Gaussian data hide, also V >= 0, and Q = 0 with V at one
// place. Exit status 1: a legal kernel was called wrong.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "reference/numbers/formats.h"
#include "reference/warnings/error_statistics.h"
#include "tests/reference/legal_kernels/declared.h"
#include "tests/reference/legal_kernels/legal_cases.h"
#include "tests/reference/legal_kernels/legal_kernel.h"

namespace attnfuzz {
namespace {

enum class Data { kGaussian, kPositiveValues, kOneValue };
constexpr const char* kDataNames[] = {"Gaussian", "V >= 0", "Q = 0, V at the border"};

// A case with S + 1 keys, of which S are visible: the last one is past the row's length.
Case make_case(int64_t length, Data data, int64_t splits, uint64_t seed, int32_t dtype = ATTN_F16) {
  Shape shape{
      .dtype = dtype, .seq_q = 4, .seq_k = length + 1, .dim_qk = 64, .dim_v = 64, .tile_q = 64, .tile_k = 64};
  shape.num_splits = splits;
  Case c(shape);
  c.fill(data == Data::kOneValue ? Regime::kZeroQuery : Regime::kGaussian, seed);
  const auto columns = static_cast<size_t>(shape.dim_v);
  if (data == Data::kPositiveValues)
    for (uint16_t& v : c.v) v &= 0x7fff;
  if (data == Data::kOneValue) {
    std::fill(c.v.begin(), c.v.end(), uint16_t{0});
    for (size_t col = 0; col < columns; ++col) {
      c.set_v(0, 0, length - 1, static_cast<int64_t>(col), 1);
      c.set_v(0, 0, length, static_cast<int64_t>(col), 100);
    }
  }
  c.use_key_lengths({length});
  declare_all(&c.plan);
  c.plan.mma_block = 0;
  return c;
}

void sharp(int cases) {
  constexpr int64_t kLengths[] = {64, 512, 4096, 16384};
  constexpr Wrong kWrongs[] = {Wrong::kDropLastKey,    Wrong::kHiddenKeyLeaks, Wrong::kPInBf16,
                               Wrong::kPIn8Bits,       Wrong::kAccumulator16,  Wrong::kPartials16,
                               Wrong::kNoSmallRescale, Wrong::kScale9,         Wrong::kScale12};
  for (const int64_t length : kLengths) {
    const int count = length > 4096 ? std::max(1, cases / 4) : cases;
    for (const Data data : {Data::kGaussian, Data::kPositiveValues, Data::kOneValue}) {
      std::vector<double> ratios, lse_ratios, bounds;
      double caught[10][3] = {};  // by O, by LSE, by either
      double worst = 0;
      for (int n = 0; n < count; ++n) {
        // Wrong kernels of 16-bit partials need splits; all others run without.
        Case one = make_case(length, data, 1, static_cast<uint64_t>(n) + 1);
        Case two = make_case(length, data, 2, static_cast<uint64_t>(n) + 1);
        const Reference r1 = evaluate(one.problem, one.tensors(), one.plan, h200());
        const Reference r2 = evaluate(two.problem, two.tensors(), two.plan, h200());
        const Choices right{.seed = static_cast<uint64_t>(n) * 2 + 1, .exp_units = 1.4};
        const Output got = run_as_planned(one, right);
        worst = std::max({worst, worst_of(r1, got).o, worst_of(r1, got).lse});
        for (size_t at = 0; at < got.o.size(); ++at) {
          const double off = std::abs(static_cast<double>(got.o[at]) - r1[TensorId::kO].value[at]);
          ratios.push_back(off / r1[TensorId::kO].bound[at]);
        }
        for (size_t row = 0; row < got.lse.size(); ++row) {
          lse_ratios.push_back(std::abs(static_cast<double>(got.lse[row]) - r1[TensorId::kLse].value[row]) /
                               r1[TensorId::kLse].bound[row]);
          bounds.push_back(r1[TensorId::kLse].bound[row]);
        }
        for (const Wrong wrong : kWrongs) {
          Choices how = right;
          how.wrong = wrong;
          const bool splits = wrong == Wrong::kPartials16;
          const Worst seen = worst_of(splits ? r2 : r1, run_as_planned(splits ? two : one, how));
          double(&share)[3] = caught[static_cast<int>(wrong)];
          share[0] += seen.o > 1, share[1] += seen.lse > 1, share[2] += seen.o > 1 || seen.lse > 1;
        }
      }
      const auto median = [](std::vector<double>& all) {
        std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
        return all[all.size() / 2];
      };
      std::printf(
          "S = %lld, %s, %d cases: median error/bound O %.3f LSE %.3f; LSE bound %.1e; largest ratio %.2f\n",
          static_cast<long long>(length), kDataNames[static_cast<int>(data)], count, median(ratios),
          median(lse_ratios), median(bounds), worst);
      for (const Wrong wrong : kWrongs) {
        const double(&share)[3] = caught[static_cast<int>(wrong)];
        std::printf("    %-20s O %.2f  LSE %.2f  either %.2f\n", name_of(wrong), share[0] / count,
                    share[1] / count, share[2] / count);
      }
      std::fflush(stdout);
    }
  }
}

// Runs `cases` cases of each wrong kernel. Prints the share that fails, and the share that passes with unlikely
// errors.
void warnings(int cases) {
  constexpr Wrong kWrongs[] = {Wrong::kNone,        Wrong::kPartials16, Wrong::kCutP,
                               Wrong::kDropLastKey, Wrong::kCoarseExp,  Wrong::kPInBf16};
  for (const int64_t length : {128, 512, 2048, 8192, 16384}) {
    for (const Data data : {Data::kGaussian, Data::kPositiveValues}) {
      std::printf("S = %lld, %s\n", static_cast<long long>(length), kDataNames[static_cast<int>(data)]);
      for (const Wrong wrong : kWrongs) {
        for (const int32_t dtype : {ATTN_F16, ATTN_BF16}) {
          int failed = 0, unlikely = 0;
          ErrorStatistics most;
          for (int n = 0; n < cases; ++n) {
            Case c = make_case(length, data, wrong == Wrong::kPartials16 ? 2 : 1, static_cast<uint64_t>(n) + 1,
                               dtype);
            const Choices how{.seed = static_cast<uint64_t>(n) * 2 + 1, .exp_units = 1.4, .wrong = wrong};
            const Reference r = evaluate(c.problem, c.tensors(), c.plan, h200());
            const Output got = run_as_planned(c, how);
            const Worst seen = worst_of(r, got);
            const ErrorStatistics a = error_statistics(r, c.problem.dtype, c.plan, got.o, got.lse);
            const bool fails = !(seen.o <= 1 && seen.lse <= 1);
            failed += fails, unlikely += !fails && a.unlikely();
            most.size = std::max(most.size, a.size), most.row = std::max(most.row, a.row);
            most.bias = std::max(most.bias, a.bias), most.lse = std::max(most.lse, a.lse);
          }
          std::printf("    %-18s %-4s  fail %.2f  unlikely %.2f   size %.2f  row %.2f  bias %.2f  LSE %.2f\n",
                      name_of(wrong), dtype == ATTN_F16 ? "f16" : "bf16", 1.0 * failed / cases,
                      1.0 * unlikely / cases, most.size, most.row, most.bias, most.lse);
          std::fflush(stdout);
        }
      }
    }
  }
}

int legal(int64_t count, uint64_t first) {
  const LegalTally tally = run_legal_cases(first, count);
  std::printf(
      "%lld legal kernels, %lld rows (%lld uninformative, %lld unconstrained): largest error/bound O %.3f LSE "
      "%.3f\n",
      static_cast<long long>(tally.cases), static_cast<long long>(tally.rows),
      static_cast<long long>(tally.uninformative), static_cast<long long>(tally.unconstrained), tally.worst_o,
      tally.worst_lse);
  std::printf("%lld of them unlikely; the most: size %.3f row %.3f bias %.3f LSE %.3f\n",
              static_cast<long long>(tally.unlikely), tally.most.size, tally.most.row, tally.most.bias,
              tally.most.lse);
  if (tally.violation.empty()) return 0;
  std::printf("violation: %s\n", tally.violation.c_str());
  return 1;
}

}  // namespace
}  // namespace attnfuzz

int main(int argc, char** argv) {
  const auto number = [&](int at, long otherwise) { return argc > at ? std::atol(argv[at]) : otherwise; };
  if (argc > 2 && std::strcmp(argv[1], "legal") == 0 && number(2, 0) > 0)
    return attnfuzz::legal(number(2, 0), static_cast<uint64_t>(number(3, 1)));
  if (argc > 1 && std::strcmp(argv[1], "sharp") == 0) {
    attnfuzz::sharp(static_cast<int>(std::max(1L, number(2, 20))));
    return 0;
  }
  if (argc > 1 && std::strcmp(argv[1], "warnings") == 0) {
    attnfuzz::warnings(static_cast<int>(std::max(1L, number(2, 10))));
    return 0;
  }
  std::fprintf(stderr,
               "use: reference_audit legal N [FIRST] | reference_audit sharp [CASES] | warnings [CASES]\n");
  return 2;
}
