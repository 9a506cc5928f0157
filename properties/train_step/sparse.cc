#include "properties/train_step/sparse.h"

#include <cmath>

#include "base/random.h"
#include "properties/case/features/domain.h"
#include "properties/case/features/shrink_toggles.h"
#include "properties/train_step/reasons.h"
#include "properties/train_step/setup.h"

namespace attnfuzz::train {
namespace {

using enum TensorId;
using nsa::Stage;

constexpr struct {
  Stage stage;
  uint64_t operation, needs;
} kBranches[kSparseBranches] = {
    {Stage::kCompressed, ATTN_FEATURE_BACKWARD, ATTN_FEATURE_BACKWARD | ATTN_FEATURE_KEY_STEP},
    {Stage::kListed, ATTN_FEATURE_SELECTED_BACKWARD, ATTN_FEATURE_SELECTED_BACKWARD},
    {Stage::kWindow, ATTN_FEATURE_BACKWARD, ATTN_FEATURE_BACKWARD},
};

// The case of a pass, laid out as the kernel's domain wants it.
Case case_of_pass(size_t pass, const nsa::Sizes& sizes, const KernelInfo& kernel) {
  const bool gradients = pass >= nsa::kStages;
  Case c = nsa::case_of(gradients ? kBranches[pass - nsa::kStages].stage : static_cast<Stage>(pass), sizes, {},
                        nsa::PassKind::kPrefill);
  if (gradients) {
    c.problem.features = kBranches[pass - nsa::kStages].operation;
    c.dout = {.kind = FillKind::kGaussian, .seed = 9};
    tidy(c);
  }
  c.calls = {Call{}, Call{.dirty_workspace = true}};
  if (kernel.domain) lay_within(*kernel.domain, c);
  return c;
}

// Why one of the kernels does not take the batch, in a sentence that names it; empty: all do.
std::string refused_by(const Batch& batch, const SparseSetup& setup, const SparseKernels& kernels) {
  for (size_t pass = 0; pass < kSparsePasses; ++pass) {
    if (kernels[pass].target == nullptr) continue;
    Target& target = *kernels[pass].target;
    const std::string why = refusal_of(case_of_pass(pass, sizes_of(setup, batch), target.info()), target);
    if (!why.empty()) return name_of_pass(pass) + " by " + why;
  }
  return "";
}

class SparseTraining {
 public:
  SparseTraining(const Batch& batch, const SparseSetup& setup, const SparseKernels& kernels)
      : setup_(setup),
        kernels_(kernels),
        sizes_(sizes_of(setup, batch)),
        lengths_({batch.length}),
        calls_(batch),
        model_(setup.model.with(lengths_), hash64(batch.seed ^ static_cast<uint64_t>(2 * batch.length))) {}

  Trained run() {
    return calls_.run(model_, [this] { step(); });
  }

 private:
  std::vector<float> of_queries(std::span<const double> x) const {
    return by_sequence(x, lengths_, sizes_.heads_q);
  }
  template <class Number>
  std::vector<double> of_tokens(std::span<const Number> x) const {
    return by_token<Number>(x, lengths_, sizes_.heads_q);
  }

  static size_t number(Stage stage) { return static_cast<size_t>(stage); }
  const std::vector<float>& result_of(Stage stage, TensorId output) const {
    return made_[number(stage)].outputs[output];
  }

  void make(size_t pass, std::vector<GivenInput> inputs) {
    if (!calls_.go_on()) return;
    inputs_[pass] = std::move(inputs);
    made_[pass] = calls_.make(pass_of(pass), case_of(pass), inputs_[pass]);
  }
  void make(Stage stage, std::vector<GivenInput> inputs) { make(number(stage), std::move(inputs)); }
  Pass pass_of(size_t pass) const {
    return {pass, name_of_pass(pass) + " by " + kernels_[pass].target->info().name, kernels_[pass]};
  }
  Case case_of(size_t pass) const { return case_of_pass(pass, sizes_, kernels_[pass].target->info()); }

  void step() {
    made_ = {};
    const Activations a = model_.project();
    forward(a);
    const std::vector<double> y = of_tokens<float>(result_of(Stage::kCombine, kO));
    if (!y.empty()) note_loss(y);
    if (!calls_.go_on()) return;
    Activations d = {
        {}, std::vector<double>(a.q.size()), std::vector<double>(a.k.size()), std::vector<double>(a.v.size())};
    Branches o;
    for (int64_t branch = 0; branch < kSparseBranches; ++branch) {
      o.push_back(of_tokens<float>(result_of(kBranches[branch].stage, kO)));
      backward(branch, y, &d);
      if (!calls_.go_on()) return;
    }
    const Parameters gradients = model_.gradients(a, y, o, d);
    if (const std::string name = not_finite(gradients); !name.empty())
      return fail_non_finite(kSparsePasses - 1, "the gradient of " + name);
    model_.update(gradients, setup_.rate);
  }

  void forward(const Activations& a) {
    const std::vector<float> q = of_queries(a.q), k = by_sequence(a.k, lengths_, sizes_.heads_kv),
                             v = by_sequence(a.v, lengths_, sizes_.heads_kv);
    make(Stage::kCompress, {{kK, k}, {kV, v}});
    if (!calls_.go_on()) return;
    const std::vector<float>& k_cmp = result_of(Stage::kCompress, kKCmp);
    make(Stage::kCompressed, {{kQ, q}, {kK, k_cmp}, {kV, result_of(Stage::kCompress, kVCmp)}});
    const Stage chooses = choose(q, k_cmp);
    if (!calls_.go_on()) return;
    make(Stage::kListed,
         {{kQ, q}, {kK, k}, {kV, v}, {kIndices, {}, made_[number(chooses)].outputs.integers(kChosen)}});
    make(Stage::kWindow, {{kQ, q}, {kK, k}, {kV, v}});
    if (!calls_.go_on()) return;
    make(Stage::kCombine, {{kO1, result_of(Stage::kCompressed, kO)},
                           {kO2, result_of(Stage::kListed, kO)},
                           {kO3, result_of(Stage::kWindow, kO)},
                           {kGates, gates_of_rows()}});
  }

  // Makes the lists. Without a kernel that scores, the host does. Returns the stage that made them.
  Stage choose(const std::vector<float>& q, const std::vector<float>& k_cmp) {
    const size_t attended = number(Stage::kCompressed), scores = number(Stage::kScore);
    if (kernels_[scores].target == nullptr) {
      make(Stage::kChoose, {{kScores, nsa::scores_of(sizes_, case_of(attended).problem, q, k_cmp)}});
      return Stage::kChoose;
    }
    if (calls_.go_on())
      make(Stage::kScore, {{kQ, q},
                           {kK, k_cmp},
                           {kSavedLse, lse_for(made_[attended], case_of(scores), *kernels_[scores].target)}});
    return Stage::kScore;
  }

  // The gates by (head, token, branch): all tokens have those of their head.
  std::vector<float> gates_of_rows() const {
    const std::vector<double> gates = model_.gates();
    std::vector<float> all;
    for (int64_t h = 0; h < sizes_.heads_q; ++h) {
      for (int64_t row = 0; row < sizes_.tokens; ++row) {
        for (int64_t c = 0; c < kSparseBranches; ++c)
          all.push_back(static_cast<float>(gates[static_cast<size_t>(h * kSparseBranches + c)]));
      }
    }
    return all;
  }

  void note_loss(const std::vector<double>& y) {
    const Reference& reference = made_[number(Stage::kCombine)].reference;
    calls_.result.losses.push_back(model_.loss(y));
    if (!reference.outputs.empty())
      calls_.result.due.push_back(model_.loss(of_tokens<double>(numbers_due(reference[kO]))));
    if (calls_.result.failure) return calls_.say_loss();
    if (!std::isfinite(calls_.result.losses.back())) fail_non_finite(number(Stage::kCombine), "the loss");
  }

  // Calls the gradients of a branch, and adds them to `d`.
  void backward(int64_t branch, const std::vector<double>& y, Activations* d) {
    const size_t pass = nsa::kStages + static_cast<size_t>(branch), of = number(kBranches[branch].stage);
    std::vector<GivenInput> inputs = inputs_[of];
    inputs.push_back({kDout, of_queries(model_.gradient_of_branch(branch, y))});
    inputs.push_back({kSavedO, made_[of].outputs[kO]});
    inputs.push_back({kSavedLse, lse_for(made_[of], case_of(pass), *kernels_[pass].target)});
    make(pass, std::move(inputs));
    if (!calls_.go_on()) return;
    const Outputs& gradients = made_[pass].outputs;
    add(of_tokens<float>(gradients[kDq]), &d->q);
    for (const auto& [tensor, to] : {std::pair{kDk, &d->k}, std::pair{kDv, &d->v}}) {
      if (kBranches[branch].stage == Stage::kCompressed)
        add_through_compression(sizes_, gradients[tensor], to);
      else
        add(by_token<float>(gradients[tensor], lengths_, sizes_.heads_kv), to);
    }
  }

  static void add(const std::vector<double>& from, std::vector<double>* to) {
    for (size_t n = 0; n < to->size(); ++n) (*to)[n] += from[n];
  }

  void fail_non_finite(size_t pass, const std::string& what) {
    calls_.fail_non_finite(pass_of(pass), case_of(pass), inputs_[pass], what);
  }

  const SparseSetup setup_;
  const SparseKernels kernels_;
  const nsa::Sizes sizes_;
  const std::vector<int64_t> lengths_;
  Calls calls_;
  Model model_;
  // Of the step, by pass.
  std::array<GivenCall, kSparsePasses> made_;
  std::array<std::vector<GivenInput>, kSparsePasses> inputs_;
};

// The setups that are tried, the smallest first. Kernels for tensor cores often take only groups of 16 query
// heads, and the blocks of the last setups are those of the paper on native sparse attention.
std::vector<SparseSetup> sparse_setups(Gates gates) {
  std::vector<SparseSetup> all;
  for (const nsa::Blocks blocks : {nsa::Blocks{8, 16, 16}, nsa::Blocks{16, 32, 64}}) {
    for (const auto& [heads_q, heads_kv] : {std::pair<int64_t, int64_t>{2, 1}, {2, 2}, {16, 1}}) {
      for (const int32_t dtype : {ATTN_F16, ATTN_BF16}) {
        for (const int64_t dim : {16, 32, 64, 128}) {
          SparseSetup& setup = all.emplace_back();
          setup.blocks = blocks;
          setup.model.dtype = dtype, setup.model.dim = dim, setup.model.gates = gates;
          setup.model.heads_q = heads_q, setup.model.heads_kv = heads_kv;
        }
      }
    }
  }
  return all;
}

}  // namespace

std::string name_of_pass(size_t pass) {
  if (pass < nsa::kStages) return nsa::name_of(static_cast<Stage>(pass));
  return std::string("gradients of ") + nsa::name_of(kBranches[pass - nsa::kStages].stage);
}

bool does_pass(uint64_t features, size_t pass) {
  if (pass < nsa::kStages) return nsa::does(features, static_cast<Stage>(pass));
  const uint64_t needs = kBranches[pass - nsa::kStages].needs;
  return (features & needs) == needs;
}

nsa::Sizes sizes_of(const SparseSetup& setup, const Batch& batch) {
  return {.dtype = setup.model.dtype,
          .heads_q = setup.model.heads_q,
          .heads_kv = setup.model.heads_kv,
          .dim = setup.model.dim,
          .tokens = batch.length,
          .key_step = setup.blocks.step,
          .block_length = setup.blocks.length,
          .block = setup.blocks.chosen,
          .select = 4,
          .select_first = 1,
          .select_last = 2,
          .window = 24};
}

SparseChoice choose_sparse_setup(std::span<const Batch> batches, Gates gates, const SparseKernels& kernels) {
  Reasons reasons;
  for (const SparseSetup& setup : sparse_setups(gates)) {
    std::string first;
    for (const Batch& batch : batches) {
      const std::string why = refused_by(batch, setup, kernels);
      if (why.empty()) return {setup, ""};
      if (first.empty()) first = why;
    }
    reasons.add(first);
  }
  return {std::nullopt, reasons.text()};
}

Trained train_sparse(const Batch& batch, const SparseSetup& setup, const SparseKernels& kernels) {
  Trained refused;
  refused.refused = refused_by(batch, setup, kernels);
  return refused.refused.empty() ? SparseTraining(batch, setup, kernels).run() : refused;
}

void add_through_compression(const nsa::Sizes& s, std::span<const float> compressed,
                             std::vector<double>* keys) {
  for (size_t n = 0; n < compressed.size(); ++n) {
    const auto at = static_cast<int64_t>(n), column = at % s.dim, block = at / s.dim % s.compressed(),
               head = at / s.dim / s.compressed();
    const double each = static_cast<double>(compressed[n]) / static_cast<double>(s.block_length);
    for (int64_t i = 0; i < s.block_length; ++i) {
      const int64_t token = block * s.key_step + i;
      (*keys)[static_cast<size_t>((token * s.heads_kv + head) * s.dim + column)] += each;
    }
  }
}

}  // namespace attnfuzz::train
