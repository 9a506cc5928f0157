// A fuzz target without its own mutator: the fields of a case are read one after
// the other from libFuzzer's bytes. For comparison; see conjunction.py.
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "fuzz/host/kernel_registry.h"
#include "fuzz/targets/flags.h"
#include "fuzz/targets/target.h"
#include "properties/draw/mutate.h"

namespace attnfuzz {
namespace {

class Bytes {
 public:
  Bytes(const uint8_t* data, size_t size) : data_(data), end_(data + size) {}
  // A number from the next two bytes, which are 0 past the end.
  int64_t range(int64_t low, int64_t high) {
    const int64_t value = next() << 8 | next();
    return low + value % (high - low + 1);
  }
  bool flag() { return next() & 1; }

 private:
  int64_t next() { return data_ < end_ ? *data_++ : 0; }
  const uint8_t *data_, *end_;
};

Case case_of_bytes(Bytes in) {
  Case c;
  Problem& p = c.problem;
  p.dtype = in.flag() ? ATTN_BF16 : ATTN_F16;
  p.batch = in.range(0, 3);
  p.heads_kv = in.range(1, 8);
  p.heads_q = p.heads_kv * in.range(1, 8);
  p.seq_q = in.range(0, 300);
  p.seq_k = in.range(0, 300);
  p.dim_qk = in.range(1, 64);
  p.dim_v = in.range(1, 64);
  p.scale = 1.0f / std::sqrt(static_cast<float>(p.dim_qk));
  p.causal = in.flag();
  p.align = in.flag() ? ATTN_BOTTOM_RIGHT : ATTN_TOP_LEFT;
  if (in.flag()) p.window_left = in.range(0, 300);
  if (in.flag()) p.window_right = in.range(0, 300);
  if (in.flag()) {
    p.key_lengths.emplace();
    for (int64_t b = 0; b < p.batch; ++b) p.key_lengths->push_back(in.range(0, 300));
  }
  if (in.flag()) p.softcap = 30;
  if (in.flag()) {
    p.mask.emplace();
    p.mask->visible.kind = static_cast<PatternKind>(in.range(0, kPatternKinds - 1));
    p.mask->visible.parameter = in.range(1, 15);
  }
  for (Fill* fill : {&c.q, &c.k, &c.v}) {
    fill->kind = FillKind::kGaussian;
    fill->seed = static_cast<uint64_t>(in.range(0, 65535));
  }
  return c;
}

std::unique_ptr<Bench>& bench() {
  static std::unique_ptr<Bench> the_bench;
  return the_bench;
}

}  // namespace
}  // namespace attnfuzz

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  using namespace attnfuzz;
  const Flags flags = parse_flags(*argc, *argv);
  if (flags.kernels.size() != 1) bad_use("one --kernel=LIBRARY is needed");
  std::string error;
  const auto library = find_kernel(flags.kernels[0], {ATTN_CPU, flags.build_kind}, &error);
  if (!library) bad_use(error);
  std::vector<std::unique_ptr<Target>> targets;
  targets.push_back(open_target(worker_options(*library), &error));
  if (targets[0] == nullptr) bad_use(error);
  bench() = std::make_unique<Bench>(std::move(targets));
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace attnfuzz;
  const Case c = case_of_bytes({data, size});
  if (illegal(c) || !affordable(c, bench()->most())) return -1;
  const Judged judged = bench()->judge(0, c, "reference");
  if (judged.verdict.outcome == Outcome::kFail) {
    std::fprintf(stderr, "%s\n", judged.verdict.message.c_str());
    std::abort();
  }
  return judged.verdict.outcome == Outcome::kRefused ? -1 : 0;
}
