#include "tests/reference/cuda/declared_cases.h"

#include <algorithm>
#include <limits>

#include "tests/reference/declared.h"
#include "tests/reference/legal_cases.h"

namespace attnfuzz {
namespace {

// Single numbers that seldom come by themselves.
void plant(Random* random, Case* c) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float kinds[] = {
      std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity, 60000, 0x1p100f, 0x1p-24f, 0x1p-130f};
  const attn_problem& p = c->problem;
  for (int64_t n = 1 + random->below(3); n > 0; --n) {
    const float value = kinds[random->below(std::size(kinds))];
    const int64_t h = random->below(p.heads_q), g = random->below(p.heads_kv), i = random->below(p.seq_q),
                  j = random->below(p.seq_k);
    switch (random->below(4)) {
      case 0:
        c->set_q(0, h, i, random->below(p.dim_qk), value);
        break;
      case 1:
        c->set_k(0, g, j, random->below(p.dim_qk), value);
        break;
      case 2:
        c->set_v(0, g, j, random->below(p.dim_v), value);
        break;
      default:
        if (!c->bias.empty())
          c->bias[static_cast<size_t>(random->below(static_cast<int64_t>(c->bias.size())))] = value;
    }
  }
}

Calibration any_calibration(Random* random) {
  switch (random->below(3)) {
    case 0:
      return h200();
    case 1:
      return executor();
    default:
      return documented();
  }
}

}  // namespace

AgreementTally hold_on_declared(FastOracle& oracle, uint64_t first, int64_t count) {
  AgreementTally tally;
  for (uint64_t number = first; number < first + static_cast<uint64_t>(count); ++number) {
    Random random(number * 104729 + 3);
    Shape shape = random_shape(&random);
    shape.batch = 1 + random.below(2);
    Case c(shape);
    c.fill(kRegimes[random.below(std::size(kRegimes))], random.bits());
    declare_any(&random, &c.plan);
    if (random.below(3) == 0) plant(&random, &c);
    if (random.below(4) == 0) {
      std::vector<int64_t> lengths;
      for (int64_t b = 0; b < shape.batch; ++b) lengths.push_back(random.below(shape.seq_k + 2) - 1);
      c.use_key_lengths(lengths);
    }
    c.plan.isolates_masked_nan = static_cast<int32_t>(random.below(2));
    if (random.below(20) == 0) c.plan.tile_k = 0;
    if (random.below(20) == 0) c.problem.scale *= random.below(2) ? 1e30f : -64.0f;
    const Calibration calibration = any_calibration(&random);
    RowSample sample;
    if (random.below(5) == 0) sample = {.limit = 5, .seed = number};
    std::string why;
    const attn_tensors tensors = c.tensors();
    const auto fast = oracle.evaluate(c.problem, tensors, c.plan, calibration, sample, &why);
    if (!fast) {
      ++tally.not_for_it;
      continue;
    }
    const Reference host = evaluate(c.problem, tensors, c.plan, calibration, sample);
    tally.add("case " + std::to_string(number), host, compare(c.problem, *fast, host));
  }
  return tally;
}

}  // namespace attnfuzz
