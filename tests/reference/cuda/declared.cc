// oracle_agreement_declared COUNT [FIRST]: compares the oracle on a GPU with the host's on problems and plans
// of declared_cases.h. Exit status: 0 if they agree, 1 if not, 77 without a GPU.
#include <cstdio>
#include <cstdlib>

#include "reference/cuda/cuda_oracle.h"
#include "tests/reference/cuda/declared_cases.h"

int main(int argc, char** argv) {
  std::string why;
  const auto oracle = attnfuzz::open_cuda_oracle(&why, 0);
  if (!oracle) {
    std::fprintf(stderr, "oracle_agreement_declared: %s\n", why.c_str());
    return 77;
  }
  const long long count = argc > 1 ? std::atoll(argv[1]) : 1000, first = argc > 2 ? std::atoll(argv[2]) : 0;
  const bool forward = attnfuzz::hold_on_declared(*oracle, static_cast<uint64_t>(first), count).say();
  const bool merges = attnfuzz::hold_on_merges(*oracle, static_cast<uint64_t>(first), count).say();
  const bool gradients = attnfuzz::hold_on_gradients(*oracle, static_cast<uint64_t>(first), count).say();
  return forward && merges && gradients ? 0 : 1;
}
