// Measures what the judge of computed scores finds:
//
//   score_measure LIBRARY [CASES [SEED]]
//
// LIBRARY is the kernel nsa_score of the plain build; only its plan is used. A small second kernel on the host
// computes scores in fp32, right or with one mistake, and chooses by them. For each mistake the program prints
// how many of CASES drawn cases it changes, and of these the share in which the lists alone show it and the
// share in which the scores do. Without a mistake nothing may be found: that would be a false alarm, and the
// exit status is then 1.
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "fuzz/check/check.h"
#include "fuzz/host/kernel_registry.h"
#include "properties/draw/generator.h"
#include "properties/judge/execution.h"
#include "reference/nsa/block_scores.h"
#include "reference/nsa/choice.h"
#include "reference/numbers/formats.h"
#include "reference/rows/visibility.h"

namespace {

using namespace attnfuzz;

enum Mistake {
  kNone,
  kFromStart,
  kLate,
  kFromZero,
  kNoStraddling,
  kRowBefore,
  kOneHead,
  kLogits,
  kIn16Bits,
  kNoLocal
};
constexpr const char* kNames[] = {"none",
                                  "a compressed key is seen from its start",
                                  "a compressed key is seen one position late",
                                  "the double sum is read from 0",
                                  "keys that begin before a block are ignored",
                                  "the scores of the query before",
                                  "only the first head of the group",
                                  "logits are added up, not weights",
                                  "scores are rounded to bf16",
                                  "the last blocks are not forced"};

struct Call {
  const attn_problem& p;
  const attn_tensors& t;
};

std::vector<float> row_of(const Call& call, const attn_tensor& from, int64_t b, int64_t h, int64_t i) {
  std::vector<double> wide(static_cast<size_t>(call.p.dim_qk));
  decode_strided(call.p.dtype, from.data, offset_of(from, b, h, i, 0), from.stride[3], call.p.dim_qk,
                 wide.data());
  return {wide.begin(), wide.end()};
}

// The compressed keys that query i sees.
int64_t keys_of(const Call& call, const Row& at, Mistake mistake) {
  const Lengths lengths = lengths_of(call.p, call.t, at.b);
  if (mistake != kFromStart && mistake != kLate) return key_range(call.p, lengths, at.i).last;
  int64_t end = lengths.positions;
  if (call.p.causal) end = std::clamp<int64_t>(diagonal(call.p, lengths, at.i) + 1, 0, end);
  if (mistake == kLate) return keys_below(call.p, end - 1);
  return std::min(end <= 0 ? 0 : (end - 1) / call.p.key_step + 1, lengths.keys);
}

int64_t candidates_of(const Call& call, const Row& at) {
  const Lengths lengths = lengths_of(call.p, call.t, at.b);
  int64_t end = lengths.positions;
  if (call.p.causal) end = std::clamp<int64_t>(diagonal(call.p, lengths, at.i) + 1, 0, end);
  return end / call.p.block + (end % call.p.block != 0);
}

// Adds the weight of key c to the blocks that it overlaps.
void add(const Call& call, int64_t c, float weight, Mistake mistake, std::vector<float>& scores) {
  const attn_problem& p = call.p;
  const int64_t first = c * p.key_step, end = first + p.key_offset + 1;
  const int64_t shift = mistake == kFromZero ? p.block - p.key_step : 0;  // all blocks lie so much lower
  for (int64_t j = std::max<int64_t>((first + shift) / p.block, 0); j < static_cast<int64_t>(scores.size());
       ++j) {
    const int64_t begins = j * p.block - shift, ends = begins + p.block;
    if (begins >= end) return;
    if (mistake == kNoStraddling && first < begins) continue;
    const int64_t common = std::min(end, ends) - std::max(first, begins);
    if (common > 0)
      scores[static_cast<size_t>(j)] += static_cast<float>(common) / static_cast<float>(p.key_step) * weight;
  }
}

// The scores of the candidates of a list. `at`: (b, g, i).
std::vector<float> scores_of(const Call& call, Row at, Mistake mistake) {
  const attn_problem& p = call.p;
  std::vector<float> scores(static_cast<size_t>(candidates_of(call, at)));
  if (mistake == kRowBefore) at.i = std::max<int64_t>(at.i - 1, 0);
  const int64_t keys = keys_of(call, at, mistake), group = p.heads_q / p.heads_kv;
  for (int64_t h = at.h * group; h < at.h * group + (mistake == kOneHead ? 1 : group); ++h) {
    const std::vector<float> q = row_of(call, call.t.q, at.b, h, at.i);
    const auto lse =
        static_cast<float>(decode(ATTN_F32, call.t.lse.data, offset_of(call.t.lse, at.b, h, at.i, 0)));
    for (int64_t c = 0; c < keys; ++c) {
      const std::vector<float> k = row_of(call, call.t.k, at.b, at.h, c);
      float product = 0;
      for (size_t t = 0; t < q.size(); ++t) product = std::fma(q[t], k[t], product);
      const float score = product * p.scale;
      add(call, c, mistake == kLogits ? score : std::exp(score - lse), mistake, scores);
    }
  }
  for (float& score : scores) {
    if (mistake == kIn16Bits) score = std::bit_cast<float>(uint32_t{encode16(ATTN_BF16, score)} << 16);
  }
  return scores;
}

struct Found {
  bool changed = false;  // the mistake changes a score or a list
  bool by_list = false, by_scores = false;
};

std::vector<int64_t> list_of(const attn_problem& p, const std::vector<float>& scores) {
  std::vector<int64_t> list = chosen_blocks(p, std::vector<double>(scores.begin(), scores.end()));
  list.resize(static_cast<size_t>(p.select), -1);
  return list;
}

Found look(const Call& call, const Reference& due, Mistake mistake) {
  const RowSpace lists(call.p.batch, call.p.heads_kv, call.p.seq_q);
  const Expected& scores = due[TensorId::kBlockScores];
  attn_problem p = call.p;
  if (mistake == kNoLocal) p.select_last = 0;
  Found found;
  for (int64_t row = 0; row < lists.count(); ++row) {
    if (due.state[static_cast<size_t>(row)] != RowState::kBounded) continue;
    const std::vector<float> right = scores_of(call, lists.at(row), kNone),
                             got = scores_of(call, lists.at(row), mistake);
    const std::vector<int64_t> list = list_of(p, got);
    found.changed = found.changed || got != right || list != list_of(call.p, right);
    for (size_t j = 0; j < got.size(); ++j)
      found.by_scores = found.by_scores || !(scores.ratio(row, static_cast<int64_t>(j), got[j]) <= 1);
    found.by_list = found.by_list || !objection_to_choice(due, row, list).empty();
  }
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "score_measure LIBRARY [CASES [SEED]]: nsa_score of the plain build\n");
    return 2;
  }
  const uint64_t cases = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1000;
  const uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
  std::string error;
  const auto library = find_kernel(argv[1], {ATTN_CPU, "plain"}, &error);
  const auto target = library ? open_target(worker_options(*library), &error) : nullptr;
  if (target == nullptr) {
    std::fprintf(stderr, "%s\n", error.c_str());
    return 2;
  }
  const GeneratorConfig config = config_for(*target, {});
  struct {
    int64_t changed = 0, by_list = 0, by_scores = 0;
  } found[std::size(kNames)];
  int64_t used = 0, rows = 0, bounded = 0;
  for (uint64_t index = 0; index < cases; ++index) {
    Case c = draw(config, seed, index);
    make_call(operation_of(ATTN_FEATURE_NSA_SCORE), c, target->info().features);
    constexpr double kMostWork = 0x1p24;  // products of two columns
    const Problem& p = c.problem;
    if (static_cast<double>(p.batch * p.heads_q * p.seq_q) * static_cast<double>(p.seq_k * p.dim_qk) >
        kMostWork)
      continue;
    const Execution e(c, *target);
    if (!e.why_not().empty()) continue;
    const attn_problem problem = e.laid.problem();
    const attn_tensors given = e.laid.given();
    const Reference due = e.evaluate(documented());
    rows += due.sampled, bounded += due.sampled - due.unconstrained;
    if (due.unconstrained + due.dead == due.sampled) continue;
    ++used;
    for (size_t n = 0; n < std::size(kNames); ++n) {
      const Found one = look({problem, given}, due, static_cast<Mistake>(n));
      found[n].changed += one.changed, found[n].by_list += one.by_list, found[n].by_scores += one.by_scores;
    }
  }
  std::printf("%lld cases, %lld rows, %.1f %% of them judged\n", static_cast<long long>(used),
              static_cast<long long>(rows), 100.0 * static_cast<double>(bounded) / static_cast<double>(rows));
  std::printf("without a mistake: %lld cases by lists, %lld by scores\n",
              static_cast<long long>(found[kNone].by_list), static_cast<long long>(found[kNone].by_scores));
  for (size_t n = kNone + 1; n < std::size(kNames); ++n) {
    const auto changed = static_cast<double>(found[n].changed);
    std::printf("%-44s changes %lld  lists %.2f  scores %.2f\n", kNames[n],
                static_cast<long long>(found[n].changed), static_cast<double>(found[n].by_list) / changed,
                static_cast<double>(found[n].by_scores) / changed);
  }
  return found[kNone].by_list + found[kNone].by_scores == 0 ? 0 : 1;
}
