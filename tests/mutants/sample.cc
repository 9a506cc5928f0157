// generate_test.py makes mutants of this file, which has one line for each rule. The program prints one number
// for each function.
#include <cstdio>

namespace sample {

struct Range {
  int begin, end;
};

inline int calls = 0;
inline void note() { ++calls; }
inline float fmax(float a, float b) { return a > b ? a : b; }
template <int N>
void cp_wait() {
  calls += 10 * N;
}

constexpr int kTwice = 2 * 21;  // a constant expression is not mutated

bool less(int a, int b) { return a < b; }
int weights(int a, int b) { return 10 * a + b; }
int swapped(int a, int b) { return weights(a, b); }
int length(Range r) { return r.end; }
float largest(float a, float b) { return fmax(a, b); }
float opposite(float x) { return -x; }
bool both(bool a, bool b) { return a && b; }
void waits() { cp_wait<1>(); }
void notes() {
  int table[kTwice] = {};
  note();
}
int guarded(int x) {
  if (const int y = x; y > 3) return x;
  return 0;
}
template <class T>
T shrunk(T x) {
  if constexpr (sizeof(T) > 4) return x;  // a constant expression is not mutated
  T y = x;
  y *= 3;
  return y;
}

}  // namespace sample

int main() {
  using namespace sample;
  std::printf("%d %d %d %g %g %d", less(2, 2), swapped(3, 4), length({5, 8}), largest(1, 2), opposite(2), both(true, false));
  waits(), notes();
  std::printf(" %d %d %d\n", calls, guarded(3), shrunk(2));
}
