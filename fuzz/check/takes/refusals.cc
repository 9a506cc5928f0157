#include "fuzz/check/takes/refusals.h"

#include <algorithm>
#include <functional>

#include "fuzz/check/takes/combined_refusals.h"
#include "fuzz/check/takes/memory_refusals.h"
#include "fuzz/check/takes/sizes_taken.h"
#include "properties/case/places/planted_rank.h"
#include "properties/draw/draw.h"
#include "properties/judge/target/target.h"

namespace attnfuzz {
namespace {

using namespace combined_refusals;
using Change = std::function<void(Case&)>;

void lengths(Case& c, int64_t seq_q, int64_t seq_k) {
  c.problem.seq_q = seq_q;
  c.problem.seq_k = seq_k;
}
void dims(Case& c, int64_t dim) { c.problem.dim_qk = c.problem.dim_v = dim; }

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

  bool declares_dense() const {
    const auto& domain = target_.domain();
    return domain && domain->layout == ATTN_LAYOUT_DENSE;
  }

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
            c.want_lse = lse;
            make_ordinary(target_, c);
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
      usual_scale(c);
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

Refused ask_for_refusals(Target& target, const AskedLate& late) { return Asking(target, late).all(); }

}  // namespace attnfuzz
