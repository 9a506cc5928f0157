#include "fuzz/check/takes/refusals.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <optional>
#include <string_view>

#include "fuzz/check/takes/memory_refusals.h"
#include "fuzz/check/takes/sizes_taken.h"
#include "fuzz/check/takes/tried.h"
#include "properties/case/features/domain.h"
#include "properties/case/places/planted_rank.h"
#include "properties/case/words.h"
#include "properties/draw/draw.h"
#include "properties/judge/execution.h"
#include "properties/operations/operation.h"

namespace attnfuzz {
namespace {

using Change = std::function<void(Case&)>;

void lengths(Case& c, int64_t seq_q, int64_t seq_k) {
  c.problem.seq_q = seq_q;
  c.problem.seq_k = seq_k;
}
void dims(Case& c, int64_t dim) { c.problem.dim_qk = c.problem.dim_v = dim; }

bool needs_diagonal(const Problem& p) { return hides_by_diagonal(p) || p.slopes; }

void nothing(Problem&) {}

// Refusals that belong to no single feature, each with the change that removes it from a case.
constexpr Refusal kLse = {"an LSE", nothing, [](Case& c) { c.want_lse = false; }, {}, nullptr, Limit::kNoLse};
constexpr Refusal kNotCausal = {
    "all that is not causal", nothing, [](Case& c) { c.problem.causal = true; }, {}, "causal",
    Limit::kOnlyCausal};
constexpr Refusal kOtherLengths = {
    "seq_q other than seq_k", nothing, [](Case& c) { c.problem.seq_q = c.problem.seq_k; }, {}, "dead rows",
    Limit::kEqualLengths};
constexpr Refusal kBottomRight = {"a diagonal of the bottom right",
                                  nothing,
                                  [](Case& c) {
                                    if (needs_diagonal(c.problem)) c.problem.align = ATTN_TOP_LEFT;
                                  },
                                  {},
                                  "dead rows",
                                  Limit::kTopLeft};
constexpr Refusal kTopLeft = {"a diagonal of the top left",
                              nothing,
                              [](Case& c) {
                                if (needs_diagonal(c.problem)) c.problem.align = ATTN_BOTTOM_RIGHT;
                              },
                              {},
                              nullptr,
                              Limit::kBottomRight};
constexpr Refusal kScale = {
    "a scale other than 1/sqrt(dim_qk)",
    nothing,
    [](Case& c) { c.problem.scale = 1.0f / std::sqrt(static_cast<float>(c.problem.dim_qk)); },
    {},
    nullptr,
    Limit::kUsualScale};
constexpr Refusal kNegativeScale = {"a scale that is not positive",
                                    nothing,
                                    [](Case& c) {
                                      if (!(c.problem.scale > 0))
                                        c.problem.scale = c.problem.scale < 0 ? -c.problem.scale : 1;
                                    },
                                    {},
                                    nullptr,
                                    Limit::kPositiveScale};
constexpr Refusal kZeroScale = {"a scale of 0", nothing, [](Case& c) {
                                  if (c.problem.scale == 0)
                                    c.problem.scale = 1.0f / std::sqrt(static_cast<float>(c.problem.dim_qk));
                                }};
constexpr Refusal kOtherBias = {"a bias of another format than Q's",
                                nothing,
                                [](Case& c) {
                                  if (c.problem.bias) c.problem.bias->dtype = c.problem.dtype;
                                },
                                {},
                                nullptr,
                                Limit::kOwnBias};
constexpr Refusal kBiasWithMask = {"a bias with a mask",
                                   nothing,
                                   [](Case& c) {
                                     if (c.problem.bias) c.problem.mask.reset();
                                   },
                                   {},
                                   nullptr,
                                   Limit::kNoBiasWithMask};
constexpr Refusal kCausalWithMask = {"causal with a mask or a bias",
                                     nothing,
                                     [](Case& c) {
                                       if (c.problem.bias || c.problem.mask) c.problem.causal = false;
                                     },
                                     {},
                                     nullptr,
                                     Limit::kNoCausalWithMask};

template <int64_t kLeast>
void give_shared(Case& c) {
  const Environment usual;
  if (c.env.shared_memory_limit >= kLeast) return;
  c.env.shared_memory_limit = usual.shared_memory_limit;
  c.env.compute_capability = usual.compute_capability;
}
static_assert(kSharedOfDevices[2] == Environment{}.shared_memory_limit);
constexpr Refusal kLittleShared = {"devices below 166912 bytes of shared memory a block", nothing,
                                   give_shared<kSharedOfDevices[1]>};
constexpr Refusal kLessShared = {"devices below 232448 bytes of shared memory a block", nothing,
                                 give_shared<kSharedOfDevices[2]>};

constexpr Refusal kNotFinite = {"NaN and infinities",
                                nothing,
                                [](Case& c) {
                                  const KnownBits known = known_bits(c.problem.dtype);
                                  std::erase_if(c.planted, [&](const Planted& x) {
                                    return x.tensor != TensorId::kBias &&
                                           (x.bits & ~known.sign) >= known.infinity;
                                  });
                                },
                                {"nan_visible"},
                                nullptr,
                                Limit::kFinite};

// Dense rows that are no multiple of 16 bytes get a gap.
template <TensorId kTensor>
void pad_rows(Case& c) {
  constexpr int64_t kRowBytes = 16;
  TensorLayout& l = c.layout[static_cast<size_t>(kTensor)];
  const int64_t step = std::max<int64_t>(kRowBytes / element_bytes(c.problem, kTensor), 1);
  const int64_t columns = logical_size(c.problem, kTensor)[3];
  if (l.row_gap == 0 && l.step == 1 && !l.across) l.row_gap = rounded_up(columns, step) - columns;
}
struct DenseRows {
  TensorId tensor;
  Refusal refusal;
};
template <TensorId kTensor>
constexpr auto kDenseRowsName =
    memory_refusals::kName<kTensor, 0>("dense rows that are no multiple of 16 bytes");
// The refusal of dense rows for each tensor that has the problem's own format.
constexpr auto kDenseRows = []<size_t... n>(std::index_sequence<n...>) {
  constexpr auto& ids = kMatrixTensors;
  return std::array{DenseRows{ids[n], {kDenseRowsName<ids[n]>.data(), nothing, pad_rows<ids[n]>}}...};
}(std::make_index_sequence<kMatrixTensors.size()>());

class Asking {
 public:
  Asking(Target& target, const AskedLate& late) : target_(target), taker_(target, late) {}

  Refused all() {
    // Finds a small problem that the kernel takes. Each question below changes this problem.
    if (!find_base()) return {};
    for (const Feature* feature : all_features()) {
      for (const Refusal& refusal : feature->refusals) {
        // If the base has unequal dims, the kernel takes them. The question would use other dims, which may be
        // outside of the domain.
        const bool shown = refusal.limit == Limit::kEqualDims && base_.problem.dim_qk != base_.problem.dim_v;
        if (!shown && refuses([&](Case& c) { refusal.ask(c.problem); })) refused_.those.push_back(&refusal);
      }
    }
    ask_for_sizes();
    ask_for_the_rest();
    for (const MemoryRefusals& of : kMemoryRefusals) ask_for_memory(of);
    return refused_;
  }

 private:
  bool takes(const Case& c) {
    if (taker_.gives_up()) return true;
    return !illegal(c) && !taker_.refusal(c);
  }

  bool refuses(const Change& change) {
    Case c = base_;
    strip_refused(refused_, c);  // for example a format that the kernel refuses
    change(c);
    return !takes(c);
  }

  const std::optional<attn_domain>& declared() const {
    return target_.terms ? target_.terms : target_.info().domain;
  }
  bool declares_dense() const { return declared() && declared()->layout == ATTN_LAYOUT_DENSE; }

  // Finds a small problem that the kernel takes. Tries the plainest ones first, and problems with one head or
  // one query only if no other is taken.
  bool find_base() {
    return find_base(2, false) || find_base(1, false) || find_base(2, true) || find_base(1, true);
  }
  bool find_base(int64_t heads, bool one_query) {
    struct Size {
      int64_t seq, dim;
    };
    for (const Size size : {Size{2, 8},
                            {2, 64},
                            {64, 64},
                            {128, 64},
                            {128, 128},
                            {512, 64},
                            {2, 32},
                            {2, 96},
                            {2, 256},
                            {16, 16}}) {
      for (const bool lse : {true, false}) {
        for (const auto& [causal, align] : {std::pair<bool, int32_t>{false, ATTN_TOP_LEFT},
                                            {true, ATTN_TOP_LEFT},
                                            {true, ATTN_BOTTOM_RIGHT}}) {
          for (const int32_t dtype : {ATTN_F16, ATTN_BF16}) {
            Case c;
            lengths(c, one_query ? 1 : size.seq, size.seq);
            dims(c, size.dim);
            c.problem.heads_q = c.problem.heads_kv = heads;
            c.problem.dtype = dtype;
            c.problem.causal = causal;
            c.problem.align = align;
            c.problem.scale = 1.0f / std::sqrt(static_cast<float>(size.dim));
            c.want_lse = lse;
            c.env.variant = target_.info().variants.empty() ? 0 : 1;
            if (const auto& domain = declared()) {
              fit(*domain, c);
              if (domain->align) c.problem.align = domain->align - 1;
            }
            if (!takes(c)) continue;
            base_ = c;
            if (!lse) refused_.those.push_back(&kLse);
            if (causal) refused_.those.push_back(&kNotCausal);
            return true;
          }
        }
      }
    }
    return false;
  }

  // Some kernels refuse a size only because its dense rows are unaligned. True if the case is taken
  // with longer rows. `needed` collects the tensors that need them.
  bool takes_padded(const Case& c, std::array<bool, std::size(kDenseRows)>& needed) {
    Case longer = c;
    for (const DenseRows& rows : kDenseRows) rows.refusal.strip(longer);
    if (longer == c || declares_dense() || !takes(longer)) return false;
    for (size_t n = 0; n < needed.size(); ++n) {
      const auto t = static_cast<size_t>(kDenseRows[n].tensor);
      Case without = longer;
      without.layout[t] = c.layout[t];
      needed[n] = needed[n] || (without != longer && !takes(without));
    }
    return true;
  }

  void ask_for_sizes() {
    Bases bases = {base_};
    for (const auto& [seq, dim, heads] : {std::array<int64_t, 3>{256, 64, 4}, {128, 128, 2}}) {
      Case c = base_;
      lengths(c, base_.problem.seq_q == 1 ? 1 : seq, seq);
      dims(c, dim);
      c.problem.scale = 1.0f / std::sqrt(static_cast<float>(dim));
      c.problem.heads_q = c.problem.heads_kv = heads;
      if (takes(c)) bases.push_back(c);
    }
    // The feature "equal dims" was asked for at one size only. Asking for sizes decides it, so it
    // is removed here.
    std::erase_if(refused_.those, [](const Refusal* r) { return r->limit == Limit::kEqualDims; });
    std::array<bool, std::size(kDenseRows)> padded = {};
    refused_.sizes = sizes_taken(bases, [&](const Case& c) { return takes(c) || takes_padded(c, padded); });
    for (size_t n = 0; n < padded.size(); ++n) {
      if (padded[n]) refused_.those.push_back(&kDenseRows[n].refusal);
    }
    if (refused_.sizes && refused_.sizes->equal_lengths) refused_.those.push_back(&kOtherLengths);
  }

  void ask_for_the_rest() {
    const auto ask = [&](const Refusal& refusal, const Change& change) {
      if (refuses(change)) refused_.those.push_back(&refusal);
    };
    ask(kScale, [](Case& c) { c.problem.scale *= 1.5f; });
    ask(kNegativeScale, [](Case& c) { c.problem.scale = -c.problem.scale; });
    ask(kZeroScale, [](Case& c) { c.problem.scale = 0; });
    if (refuses([](Case& c) { c.env.shared_memory_limit = kSharedOfDevices[1]; })) {
      refused_.those.push_back(&kLessShared);
    } else {
      ask(kLittleShared, [](Case& c) { c.env.shared_memory_limit = kSharedOfDevices[0]; });
    }
    if (target_.info().refuses_late) {
      ask(kNotFinite, [](Case& c) {
        c.planted.push_back({.tensor = TensorId::kQ, .bits = known_bits(c.problem.dtype).nan});
      });
    }
    const auto takes = [&](Limit limit) {
      return std::ranges::none_of(refused_.those, [&](const Refusal* r) { return r->limit == limit; });
    };
    const Change bias = [](Case& c) { c.problem.bias.emplace().dtype = c.problem.dtype; };
    const Change mask = [](Case& c) { c.problem.mask = Mask{}; };
    const bool causal = takes(Limit::kNoCausal), masks = !refuses(mask), biases = !refuses(bias);
    if (causal) {
      const int64_t more = takes(Limit::kEqualLengths) ? base_.problem.seq_q : 0;
      const auto refuses_diagonal = [&](int32_t align) {
        return refuses([&](Case& c) {
          c.problem.causal = true;
          c.problem.align = align;
          c.problem.seq_k += more;
        });
      };
      const bool bottom_right = refuses_diagonal(ATTN_BOTTOM_RIGHT), top_left = refuses_diagonal(ATTN_TOP_LEFT);
      // If both alignments are refused, the kernel refuses unequal lengths, and nothing is known
      // about diagonals.
      if (bottom_right != top_left) refused_.those.push_back(bottom_right ? &kBottomRight : &kTopLeft);
    }
    if (causal && base_.problem.causal == false && (masks || biases)) {
      ask(kCausalWithMask, [&](Case& c) {
        c.problem.causal = true;
        (masks ? mask : bias)(c);
      });
    }
    if (biases) {
      ask(kOtherBias,
          [](Case& c) { c.problem.bias.emplace().dtype = c.problem.dtype == ATTN_F32 ? ATTN_F16 : ATTN_F32; });
    }
    if (masks && biases) {
      ask(kBiasWithMask, [&](Case& c) {
        bias(c);
        mask(c);
      });
    }
  }

  // Asks which layouts of a tensor with several rows and heads are taken. Asks about rows before base
  // addresses, because the base of a tensor at a page's end depends on the length of its rows.
  void ask_for_memory(const MemoryRefusals& of) {
    const auto refuses_layout = [&](const std::function<void(const Case&, TensorLayout&)>& change) {
      return refuses([&](Case& c) {
        make_present(c, of.tensor);
        if (of.tensor == TensorId::kBias) c.problem.bias->dtype = c.problem.dtype;
        change(c, c.layout[static_cast<size_t>(of.tensor)]);
      });
    };
    if (refuses_layout([](const Case&, TensorLayout&) {})) return;  // the tensor itself is refused
    const auto ask = [&](const Refusal& refusal, const std::function<void(TensorLayout&)>& change) {
      if (refuses_layout([&](const Case&, TensorLayout& l) { change(l); })) refused_.those.push_back(&refusal);
    };
    ask(of.order, [](TensorLayout& l) { l.order = {0, 2, 1}; });
    ask(of.junk, [](TensorLayout& l) { l.junk_unit_strides = true; });
    ask(of.step, [](TensorLayout& l) { l.step = 2; });
    ask(of.across, [](TensorLayout& l) { l.across = true; });
    // Only rows run backwards, so that columns still lie side by side.
    ask(of.backwards, [](TensorLayout& l) { l.backwards = 4; });
    if (const auto once = once_of(of.tensor)) {
      if (refuses([&](Case& c) { c.once.*once = {.batch = true, .head = true}; }))
        refused_.those.push_back(&of.once);
    }
    ask(of.spread, [](TensorLayout& l) { l.spread = int64_t{1} << 32; });
    // The smallest alignment at which `change` is taken. nullptr if the kernel takes steps of one
    // element, so no alignment is needed.
    const auto least = [&](const auto& change) -> const memory_refusals::Alignment* {
      if (!refuses_layout([&](const Case&, TensorLayout& l) { change(l, 1); })) return nullptr;
      for (const memory_refusals::Alignment& a : of.alignments) {
        if (!refuses_layout([&](const Case& c, TensorLayout& l) {
              change(l, std::max<int64_t>(a.bytes / element_bytes(c.problem, of.tensor), 1));
            }))
          return &a;
      }
      return &of.alignments.back();
    };
    const int64_t columns = logical_size(base_.problem, of.tensor)[3];
    const auto row_of = [&](TensorLayout& l, int64_t step) {
      // The row is an odd number of steps, so that it has no larger alignment.
      int64_t row = (columns / step + 1) * step;
      if (row / step % 2 == 0) row += step;
      l.row_gap = row - columns;
    };
    if (refuses_layout([&](const Case&, TensorLayout& l) { row_of(l, 128); })) {
      refused_.those.push_back(&of.gaps);
    } else if (const auto* a = least(row_of)) {
      refused_.those.push_back(a->rows);
    }
    if (const auto *a = least([](TensorLayout& l, int64_t step) { l.offset = step; }))
      refused_.those.push_back(a->base);
  }

  Target& target_;
  Case base_;
  Refused refused_;
  Taker taker_;
};

}  // namespace

const Refusal* refusal_of_several(Limit limit) {
  for (const Refusal* refusal : {&kNegativeScale, &kOtherBias, &kBiasWithMask, &kCausalWithMask, &kNotFinite}) {
    if (refusal->limit == limit) return refusal;
  }
  return nullptr;
}

std::optional<std::string> Taker::refusal(const Case& c) {
  const uint64_t features = target_.info().features;
  const std::vector<const Operation*> operations = operations_for(c.problem.features, features);
  if (operations.empty()) return refusal_of_call(c);
  for (const Operation* operation : operations) {
    Case call = c;
    make_call(*operation, call, features);
    if (operation_of(c.problem.features).feature != operation->feature) order_shaped(c, call);
    if (illegal(call)) continue;  // its tensors may be too large: this operation is not asked about
    if (auto why = refusal_of_call(call)) return why;
  }
  return std::nullopt;
}

std::optional<std::string> Taker::refusal_of_call(const Case& asked) {
  Execution e(asked, target_);
  const PlanReply& planned = e.planned;
  faults_ += planned.status == ATTN_FAULT;
  if (planned.no_memory) return std::nullopt;
  if (planned.status == ATTN_UNSUPPORTED || planned.status == ATTN_INVALID) return planned.reason;
  const bool enough = spent_ > late_.seconds || gives_up();
  const bool runs = target_.info().refuses_late || late_.runs;
  if (!runs || enough || !e.why_not().empty()) return std::nullopt;
  const RunReply ran = e.run(asked.calls.front());
  spent_ += e.kernel_s;
  if (ran.no_memory) return std::nullopt;
  if (late_.runs) {
    if (auto why = not_taken(e, ran)) return why;
  }
  const bool raised = ran.status == ATTN_FAULT && !ran.crash && !ran.timed_out;
  if (ran.status == ATTN_UNSUPPORTED || (raised && late_.raised))
    return ran.fault ? ran.fault->message : "refused";
  faults_ += ran.status != ATTN_OK;
  return std::nullopt;
}

Refused ask_for_refusals(Target& target, const AskedLate& late) { return Asking(target, late).all(); }

Refused with_unspoken(Refused left_out, const attn_domain& asked, const Refused& by_kernel) {
  const auto says = [](const attn_sizes& s) { return s.least || s.most || s.multiple || s.count; };
  const bool lengths = says(asked.seq_q) || says(asked.seq_k), dims = says(asked.dim_qk) || says(asked.dim_v);
  const auto must_take = [&](Limit limit) {
    return (limit == Limit::kEqualLengths && lengths && !asked.equal_lengths) ||
           (limit == Limit::kNoF16 && (asked.dtypes >> ATTN_F16 & 1)) ||
           (limit == Limit::kNoBf16 && (asked.dtypes >> ATTN_BF16 & 1));
  };
  for (const Refusal* refusal : by_kernel.those) {
    if (!must_take(refusal->limit) && std::ranges::find(left_out.those, refusal) == left_out.those.end())
      left_out.those.push_back(refusal);
  }
  if (!by_kernel.sizes) return left_out;
  attn_domain sizes = *by_kernel.sizes;
  for (const auto size : {&attn_domain::batch, &attn_domain::heads_q, &attn_domain::group, &attn_domain::seq_q,
                          &attn_domain::seq_k, &attn_domain::dim_qk, &attn_domain::dim_v}) {
    if (says(asked.*size)) sizes.*size = {};
  }
  if (lengths) sizes.equal_lengths = 0;
  if (dims) sizes.equal_dims = 0;
  if (says_sizes(sizes)) left_out.sizes = sizes;
  return left_out;
}

bool speaks_of(const Property& property, const Refused& refused) {
  return std::ranges::none_of(refused.those, [&](const Refusal* refusal) {
    return std::ranges::any_of(
        refusal->properties, [&](const char* name) { return name && std::string_view(name) == property.name; });
  });
}

std::string in_words(const Refused& refused) {
  // A refusal that several tensors share is printed once.
  std::vector<std::string> words;
  std::vector<std::pair<std::string_view, std::string>> of_tensors;
  for (const Refusal* refusal : refused.those) {
    const std::string_view name = refusal->name;
    const size_t colon = name.find(": ");
    if (colon == name.npos) {
      words.emplace_back(name);
      continue;
    }
    const std::string_view what = name.substr(colon + 2);
    const auto at = std::ranges::find(of_tensors, what, &std::pair<std::string_view, std::string>::first);
    if (at == of_tensors.end()) {
      of_tensors.emplace_back(what, name.substr(0, colon));
    } else {
      at->second += cat(" ", name.substr(0, colon));
    }
  }
  for (const auto& [what, tensors] : of_tensors) words.push_back(cat(what, " (", tensors, ")"));
  if (refused.sizes) {
    for (std::string& of : in_words(*refused.sizes)) {
      if (std::ranges::find(words, of) == words.end()) words.push_back(std::move(of));
    }
  }
  return join(words, ", ");
}

}  // namespace attnfuzz
