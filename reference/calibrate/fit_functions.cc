// attnfuzz-fit-functions computes the coefficients of kernels/executor/arithmetic/device/functions.h from a
// device's answers.
//
//   attnfuzz-calibrate-cuda --answers DIR
//   attnfuzz-fit-functions DIR h200 "an NVIDIA H200" > kernels/executor/arithmetic/device/functions_h200.cc
//
// At each r, a segment's parabola must lie in the interval that the answer allows. For given c1 and c2, that is
// an interval for c0 2^a. The width of the strip that c1 leaves is convex in c1, so the best c1 for a c2 is
// found by ternary search; c2 is tried near half the second derivative. Exit status: 0 if every segment has
// coefficients that explain all of its answers, 1 otherwise, 2 without answers.
#include <algorithm>
#include <climits>
#include <cmath>
#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/executor/arithmetic/device/functions.h"

namespace {

using namespace simt::device;

struct Interval {
  int64_t low, high;
};
constexpr Interval kAny{INT64_MIN / 4, INT64_MAX / 4};

std::vector<uint32_t> answers(const std::string& path, size_t count) {
  std::vector<uint32_t> bits(count);
  FILE* file = std::fopen(path.c_str(), "rb");
  const bool all = file && std::fread(bits.data(), sizeof bits[0], count, file) == count;
  if (file) std::fclose(file);
  if (!all) throw std::runtime_error(path + " does not hold " + std::to_string(count) + " numbers");
  return bits;
}

// The values that truncate to this significand, with 23 bits after the point, or 22 below 1.
Interval of_significand(uint32_t bits, bool below_one, int cut) {
  const int64_t one = bits == 0x3F800000 && below_one;
  const int64_t value = one ? 1 << 24 : (bits & 0x7FFFFF) | 0x800000;
  return {value << cut, ((value + 1 + one) << cut) - 1};  // above 1 the next number is two away
}

Interval of_logarithm(uint32_t bits) {
  if (bits == 0) return kAny;
  const int shift = static_cast<int>(bits >> 23) - 127 - 23 + 36;
  const int64_t value = (bits & 0x7FFFFF) | 0x800000;
  const int64_t low = shift >= 0 ? value << shift : value >> -shift;
  const int64_t width = shift >= 0 ? int64_t{1} << shift : 1;
  return {low << lg2_shape().cut, ((low + width) << lg2_shape().cut) - 1};
}

struct Fitted {
  bool found = false;
  Segment segment{};
};

class Fit {
 public:
  Fit(const Shape& shape, std::vector<Interval> where, bool short_r) : shape_(shape), where_(std::move(where)) {
    for (uint32_t r = 0; r < where_.size(); ++r)
      squared_.push_back(int64_t{square(short_r ? 2 * r : r)} * (1 << shape.c2_shift));
  }

  Fitted near(double half_second_derivative) const {
    const int64_t middle = std::llround(half_second_derivative);
    for (int64_t step = 0; step < 64; ++step) {
      const int64_t c2 = middle + (step % 2 ? (step + 1) / 2 : -step / 2);
      int64_t low = -(1 << 17), high = 1 << 17;
      while (high - low > 3) {
        const int64_t third = (high - low) / 3;
        (width(c2, low + third) <= width(c2, high - third) ? high : low) +=
            width(c2, low + third) <= width(c2, high - third) ? -third : third;
      }
      for (int64_t c1 = low; c1 <= high; ++c1) {
        const Interval c0 = strip(c2, c1);
        const int64_t unit = int64_t{1} << shape_.c0_shift;
        const int64_t first = (c0.low + unit - 1) >> shape_.c0_shift;
        if (first * unit > c0.high) continue;
        return {true, {static_cast<int32_t>(first), static_cast<int32_t>(c1), static_cast<int32_t>(c2)}};
      }
    }
    return {};
  }

 private:
  // The interval of c0 2^a.
  Interval strip(int64_t c2, int64_t c1) const {
    Interval c0 = kAny;
    for (size_t r = 0; r < where_.size(); ++r) {
      const int64_t rest = c1 * static_cast<int64_t>(r) + c2 * squared_[r] + shape_.bias;
      c0.low = std::max(c0.low, where_[r].low - rest);
      c0.high = std::min(c0.high, where_[r].high - rest);
    }
    return c0;
  }
  int64_t width(int64_t c2, int64_t c1) const {
    const Interval c0 = strip(c2, c1);
    return c0.low - c0.high;
  }

  Shape shape_;
  std::vector<Interval> where_;
  std::vector<int64_t> squared_;
};

// One function: its segments as a row of C++, and the number that could not be explained.
struct Function {
  const char* name;
  Shape shape;
  int segments;
  bool short_r;
  std::function<Interval(uint32_t number, uint32_t answer)> where;
  std::function<double(double x)> half_second_derivative;  // for x in [1, 2), or [1, 4)
};

int fit(const Function& f, const std::string& directory, int halves) {
  const size_t numbers = size_t{1} << 23, size = numbers / static_cast<size_t>(f.segments);
  const std::vector<uint32_t> all =
      answers(directory + "/" + f.name + ".bin", numbers * static_cast<size_t>(halves));
  int missing = 0;
  std::printf("    {");
  for (size_t s = 0; s < static_cast<size_t>(f.segments * halves); ++s) {
    std::vector<Interval> where;
    for (size_t i = s * size; i < (s + 1) * size; ++i)
      where.push_back(f.where(static_cast<uint32_t>(i), all[i]));
    const int half = static_cast<int>(s) / f.segments;
    const double x =
        (1 + static_cast<double>(s % static_cast<size_t>(f.segments)) / f.segments) * (half ? 2 : 1);
    // In units of c2, that is, of r^2 / 2^19 2^b, with r in units of 2^-23 (2^-22 above 2; 2^-24 if it is
    // short).
    const double unit = std::ldexp(half ? 2 : 1, -23);
    const double square_unit = std::ldexp(1.0, (f.short_r ? 17 : 19) - f.shape.c2_shift);
    const Fitted fitted =
        Fit(f.shape, std::move(where), f.short_r).near(f.half_second_derivative(x) * unit * unit * square_unit);
    if (halves > 1 && s % 64 == 0) std::printf(s ? "},\n     {" : "{");
    std::printf("%s{%d, %d, %d},", s % 5 == 0 ? "\n        " : " ", fitted.segment.c0, fitted.segment.c1,
                fitted.segment.c2);
    if (fitted.found) continue;
    ++missing;
    std::fprintf(stderr, "%s: segment %zu of %d is not explained\n", f.name, s, f.segments * halves);
  }
  std::printf(halves > 1 ? "}},\n" : "},\n");
  return missing;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "attnfuzz-fit-functions DIRECTORY NAME \"WHAT DEVICE\"\n");
    return 2;
  }
  const double ln2 = std::log(2.0);
  const auto scaled = [](int bits) { return std::ldexp(1.0, bits); };
  const Function functions[] = {
      {"ex2", ex2_shape(), 64, false,
       [](uint32_t, uint32_t a) { return of_significand(a, false, ex2_shape().cut); },
       [&](double x) { return scaled(38) * ln2 * ln2 / 2 * std::exp2(x - 1); }},
      {"lg2", lg2_shape(), 64, false, [](uint32_t, uint32_t a) { return of_logarithm(a); },
       [&](double x) { return -scaled(38) / (2 * ln2 * x * x); }},
      {"rcp", rcp_shape(), 128, true,
       [](uint32_t, uint32_t a) { return of_significand(a, true, rcp_shape().cut); },
       [&](double x) { return scaled(39) / (x * x * x); }},
      {"rsqrt", rsqrt_shape(), 64, false,
       [](uint32_t number, uint32_t a) {
         return number == 0 ? kAny : of_significand(a, true, rsqrt_shape().cut);
       },
       [&](double x) { return scaled(40) * 3 / 8 * std::pow(x, -2.5); }}};
  try {
    std::printf(
        "// What %s answers: written by attnfuzz-fit-functions.\n#include "
        "\"kernels/executor/arithmetic/device/functions.h\"\n\n",
        argv[3]);
    std::printf("namespace simt::device {\n\nnamespace {\n\nconstexpr Functions kTable = {\n");
    int missing = 0;
    for (const Function& f : functions) missing += fit(f, argv[1], std::string(f.name) == "rsqrt" ? 2 : 1);
    std::printf(
        "};\n\n}  // namespace\n\n// Weak, because the executor and the emulator both hold this function, and "
        "a program "
        "may hold both of them.\n[[gnu::weak]] const Functions& %s_functions() { return kTable; }\n\n"
        "}  // namespace simt::device\n",
        argv[2]);
    return missing ? 1 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attnfuzz-fit-functions: %s\n", error.what());
    return 2;
  }
}
