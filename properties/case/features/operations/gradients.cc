// Beside dO, a backward pass may be given dLSE; beside dQ, dK and dV it may give dbias and dsink. Bits of
// attn_problem.features ask for them (ATTN_FEATURE_DLSE, ATTN_FEATURE_DBIAS, ATTN_FEATURE_DSINK).
#include "properties/case/features/feature.h"

namespace attnfuzz::feature {
namespace {

template <uint64_t kBit>
bool asks(const Case& c) {
  return (c.problem.features & kBit) != 0;
}
constexpr auto kGivesDlse = asks<ATTN_FEATURE_DLSE>;
constexpr auto kGivesDbias = asks<ATTN_FEATURE_DBIAS>;
constexpr auto kGivesDsink = asks<ATTN_FEATURE_DSINK>;
constexpr uint64_t kBits = ATTN_FEATURE_DLSE | ATTN_FEATURE_DBIAS | ATTN_FEATURE_DSINK;

// More pairs than this are too many to be evaluated, each with its bound.
constexpr double kMostPairs = 0x1p24;

void drop(Case& c, TensorId t) {
  layout_of(c, t) = {};
  std::erase_if(c.planted, [t](const Planted& x) { return x.tensor == t; });
}

void without_dlse(Case& c) {
  c.problem.features &= ~ATTN_FEATURE_DLSE;
  c.dlse = Fill{};
  drop(c, TensorId::kDlse);
}
void without_dbias(Case& c) {
  c.problem.features &= ~ATTN_FEATURE_DBIAS;
  drop(c, TensorId::kDbias);
}
void without_dsink(Case& c) {
  c.problem.features &= ~ATTN_FEATURE_DSINK;
  drop(c, TensorId::kDsink);
}

bool add_dlse(Case& to, const Case& from, int choice) {
  to.problem.features |= ATTN_FEATURE_DLSE;
  to.dlse = choice == 0 ? Fill{} : from.dlse;
  return choice < 2;
}
bool add_dbias(Case& to, const Case& from, int choice) {
  if (!to.problem.bias) to.problem.bias = from.problem.bias;
  to.problem.features |= ATTN_FEATURE_DBIAS;
  return choice == 0;
}
bool add_dsink(Case& to, const Case& from, int choice) {
  to.problem.sink = choice == 0 ? std::optional<Sink>(Sink{}) : from.problem.sink;
  to.problem.features |= ATTN_FEATURE_DSINK;
  return choice < 2;
}

void say_gradients(const Case& c, Sentence& words) {
  if (kGivesDlse(c)) words.push_back("dlse given");
  if (kGivesDbias(c)) words.push_back("dbias wanted");
  if (kGivesDsink(c)) words.push_back("dsink wanted");
}

// A backward pass has sinks only with dsink, and dsink only with sinks.
void tidy_gradients(Case& c) {
  Problem& p = c.problem;
  const bool backward = gives_gradients(p.features);
  if (backward && !kGivesDsink(c)) p.sink.reset();
  if (!backward || !p.sink) without_dsink(c);
  if (!backward || !p.bias) without_dbias(c);
  if (!backward || !kGivesDlse(c)) without_dlse(c);
  if (!p.sink) drop(c, TensorId::kSink);
}

Complaint illegal_gradients(const Case& c) {
  const Problem& p = c.problem;
  if (!gives_gradients(p.features)) {
    if ((p.features & kBits) != 0)
      return "dlse, dbias or dsink is asked for, but the problem is no backward pass";
    return std::nullopt;
  }
  if (p.sink && !kGivesDsink(c)) return "a backward pass with sinks asks for dsink";
  if (!p.sink && kGivesDsink(c)) return "dsink is asked for, but the problem has no sinks";
  if (!p.bias && kGivesDbias(c)) return "dbias is asked for, but the problem has no bias";
  const double pairs = static_cast<double>(p.batch) * static_cast<double>(p.heads_q) *
                       static_cast<double>(p.seq_q) * static_cast<double>(p.seq_k);
  if (kGivesDbias(c) && pairs > kMostPairs) return "dbias has more than 2^24 pairs";
  return std::nullopt;
}

}  // namespace

extern constinit const Feature gradients = checked({
    // kDraw: operations/backward/operation.cc turns a drawn case into a backward pass
    // kRefusals: a kernel that does not know them never gets them
    .without = {kShrinkIntegers, kAlternatives, kCanonicalSeeds, kDraw, kCrossoverGroups, kNumbers, kMutations,
                kRefusals},
    .shrink_toggles = {24,
                       {{"dlse", kGivesDlse, without_dlse, add_dlse},
                        {"dbias", kGivesDbias, without_dbias, add_dbias},
                        {"dsink", kGivesDsink,
                         [](Case& c) {
                           without_dsink(c);
                           c.problem.sink.reset();
                         },
                         add_dsink}}},
    .cost =
        [](const Case& c, Cost& cost) {
          const int parts = int{kGivesDlse(c)} + int{kGivesDbias(c)} + int{kGivesDsink(c)};
          if (parts == 0) return;
          cost.count(parts);
          cost.at(Rank::kOther).add(parts);
          cost.add(kGivesDlse(c)), cost.add(kGivesDbias(c)), cost.add(kGivesDsink(c));
        },
    .tags = {{"backward: dlse", [](const Tiled& x) { return kGivesDlse(x.c); }},
             {"backward: dbias", [](const Tiled& x) { return kGivesDbias(x.c); }},
             {"backward: dsink", [](const Tiled& x) { return kGivesDsink(x.c); }}},
    .words = {{Section::kSurroundings, 3, say_gradients}},
    .tidy = tidy_gradients,
    .illegal = illegal_gradients,
});

}  // namespace attnfuzz::feature
