// Backward passes for comparing two oracles: those of gradient_case.h, with plans that declare anything, rare
// inputs in every tensor, keys that stand for blocks in every fifth, biases of 16 bits in some, and listed
// blocks in every fifth.
#include <limits>

#include "tests/reference/cuda/declared_cases.h"
#include "tests/reference/gradients/gradient_case.h"

namespace attnfuzz {
namespace {

// Plants numbers that random data rarely have in Q, K, V, dO, O, LSE, dLSE or the bias.
void plant(Random* random, Small* s) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float kinds[] = {
      std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity, 60000, 0x1p100f, 0x1p-24f, 0x1p-130f};
  for (int64_t n = 1 + random->below(3); n > 0; --n) {
    const float value = kinds[random->below(std::size(kinds))];
    Array* const arrays[] = {&s->q, &s->k, &s->v, &s->dout, &s->o};
    std::vector<float>* const floats[] = {&s->lse, &s->dlse, &s->bias};
    const int64_t to = random->below(8);
    if (to < 5) {
      Array& array = *arrays[to];
      array.set(s->p.dtype, static_cast<size_t>(random->below(static_cast<int64_t>(array.number.size()))),
                value);
    } else {
      std::vector<float>& array = *floats[to - 5];
      array[static_cast<size_t>(random->below(static_cast<int64_t>(array.size())))] = value;
    }
  }
}

// Gives keys the lowest finite biases, as models do to hide them.
void mask_low(uint64_t seed, Small* s) {
  Random random(seed ^ 0x10e);
  const float low = random.below(2) == 0 ? std::numeric_limits<float>::lowest() : -0x1.fep127f;
  for (float& bias : s->bias)
    if (random.below(3) == 0) bias = low;
}

// Moves sinks far from the scores.
void take_far_sinks(uint64_t seed, Small* s) {
  constexpr float kFar[] = {20, 90, -90, 1e9f, -1e9f, -1e30f, std::numeric_limits<float>::lowest()};
  Random random(seed ^ 0x51);
  for (float& sink : s->sinks) sink += kFar[random.below(std::size(kFar))];
}

// Declares any legal combination that matters to gradients.
void declare(Random* random, attn_plan* plan) {
  const auto one_in = [&](int64_t n) { return random->below(n) == 0; };
  plan->tile_q = 4 << random->below(4), plan->tile_k = 4 << random->below(4);
  plan->accumulator = one_in(2) ? ATTN_ACC_TENSOR : ATTN_ACC_FFMA;
  plan->isolates_masked_nan = one_in(2);
  plan->flush_to_zero = one_in(2);
  plan->lse_base = one_in(3) ? 2 : 0;
  plan->scale_mode = static_cast<int32_t>(random->below(4));
  plan->conversion = one_in(4);
  plan->dq_adds = random->below(3), plan->dkv_adds = random->below(4);
  if (one_in(4)) plan->ds_format = ATTN_FORMAT_F32;
  if (one_in(4)) plan->p_format = ATTN_FORMAT_F32;
  if (one_in(3)) plan->head_format = ATTN_FORMAT_OF_INPUT;
  if (one_in(6)) plan->qk_format = ATTN_FORMAT_TF32;
  if (one_in(4)) plan->saved = ATTN_SAVED_RECOMPUTED;
  Random apart = *random;  // the draws that follow stay as they were
  plan->p_order = static_cast<int32_t>(apart.below(3));
}

// The same bias in 16 bits, and so dbias.
struct HalfBias {
  attn_problem problem;
  attn_tensors tensors;

  HalfBias(Small* s, Random* random) : problem(s->p), tensors(s->tensors()) {
    problem.bias_dtype = random->below(2) == 0 ? ATTN_F16 : ATTN_BF16;
    for (const float x : s->bias) half_.push_back(encode16(problem.bias_dtype, x));
    tensors.bias.data = half_.data();
  }

 private:
  std::vector<uint16_t> half_;
};

// Stores the batch entries one after another, each with fewer rows than there is room for. The entries share
// the mask and the bias.
struct Entries {
  attn_problem problem;
  attn_tensors tensors;

  Entries(Small* s, Random* random) : problem(s->p), tensors(s->tensors()) {
    const int64_t queries = problem.seq_q, keys = problem.seq_k;
    const int64_t q = random->below(queries + 1), k = random->below(keys + 1);
    cu_q_[1] = static_cast<int32_t>(q), cu_q_[2] = static_cast<int32_t>(q + random->below(queries - q + 1));
    cu_k_[1] = static_cast<int32_t>(k), cu_k_[2] = static_cast<int32_t>(k + random->below(keys - k + 1));
    problem.batch = 2, problem.ragged = ATTN_RAGGED_QUERIES | ATTN_RAGGED_KEYS;
    problem.total_q = queries, problem.total_k = keys, problem.has_key_lengths = 0;
    tensors.mask.stride[0] = tensors.bias.stride[0] = 0;
    problem.features |= ATTN_FEATURE_RAGGED | ATTN_FEATURE_INDEX32;
    problem.index_dtype = ATTN_INDEX_32;
    tensors.cu_q = cu_q_, tensors.cu_k = cu_k_;
  }

 private:
  int32_t cu_q_[3] = {}, cu_k_[3] = {};
};

// The pairs that each element of dbias sums over.
int64_t pairs_of_bias(const attn_problem& p, const attn_tensors& t) {
  const int64_t sizes[] = {p.batch, p.heads_q, p.seq_q};
  int64_t pairs = 1;
  for (int n = 0; n < 3; ++n) pairs *= t.dbias.stride[n] == 0 ? sizes[n] : 1;
  return pairs;
}

}  // namespace

AgreementTally hold_on_gradients(FastOracle& oracle, uint64_t first, int64_t count, bool to_first) {
  constexpr int32_t kFormats[] = {ATTN_F16, ATTN_BF16, ATTN_F32};
  AgreementTally tally;
  for (uint64_t number = first; number < first + static_cast<uint64_t>(count); ++number) {
    if (to_first && tally.differences > 0) break;
    Random random(number * 7919 + 11);
    Small s(kFormats[random.below(3)], number + 1, number % 8 == 3);
    const bool lists = number % 5 == 4;
    if (lists)
      s.take_lists(number);
    else
      s.add_more(number);
    if (number % 5 == 2) s.take_key_blocks(number);
    if (number % 3 == 1) mask_low(number, &s);
    if (number % 4 == 2) take_far_sinks(number, &s);
    s.save();
    if (number % 3 == 0) plant(&random, &s);
    declare(&random, &s.plan);
    RowSample sample;
    if (random.below(5) == 0) sample = {.limit = 5, .seed = number};
    const auto hold = [&](const char* as, const attn_problem& problem, const attn_tensors& tensors) {
      std::string why;
      const auto fast = oracle.evaluate(problem, tensors, s.plan, documented(), sample, &why);
      if (!fast) {
        ++tally.not_for_it;
        return;
      }
      const Reference host = evaluate_gradients(problem, tensors, s.plan, documented(), sample);
      Agreement agreement = compare(problem, *fast, host);
      if (fast->dead != host.dead || fast->unconstrained != host.unconstrained || fast->sampled != host.sampled)
        agreement.difference += " other counts of rows";
      tally.lists += lists;
      if ((problem.features & ATTN_FEATURE_DBIAS) != 0) {
        tally.biased_16_bits += problem.bias_dtype != ATTN_F32;
        tally.biased_packed += problem.ragged != 0;
        tally.biased_by_warp += pairs_of_bias(problem, tensors) >= 32;
      }
      tally.add("gradients " + std::to_string(number) + as, host, agreement);
    };
    hold("", s.p, s.tensors());
    if (s.has(ATTN_FEATURE_DBIAS) && number % 4 == 1) {
      const HalfBias half(&s, &random);
      hold(", with a bias of 16 bits", half.problem, half.tensors);
    }
    if (s.p.batch > 1) continue;
    const Entries packed(&s, &random);
    hold(", packed", packed.problem, packed.tensors);
  }
  return tally;
}

}  // namespace attnfuzz
