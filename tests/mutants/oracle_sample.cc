// generate_test.py makes mutants of this file by the oracle's rules. The program prints one number for each
// function.
#include <cmath>
#include <cstdio>

namespace sample {

struct Half {
  double of;
  explicit Half(double x) : of(x / 2) {}
};

double line(double a, double x, double b) { return a * x + b; }
double size(double x) { return std::abs(x); }

}  // namespace sample

int main() {
  using namespace sample;
  std::printf("%g %g %g\n", line(2, 3, 4), size(-3), Half(8).of);
}
