// Declares the problems that a kernel behind an adapter takes, and refuses all others.
//
//   constexpr attn::Takes takes = {.dim = attn::one_of(32, 64), .equal_lengths = true};
//   takes.domain()          // the same as an attn_domain, from which cases are drawn
//   refusal(takes, call)    // "a head dimension of 48: it takes 32 or 64", or ""
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <concepts>
#include <string>
#include <utility>

#include "kernels/plug_in.h"

namespace attn {

// The values that a size may have. An integer stands for itself: dim = 64.
struct Sizes {
  int64_t least = 1, most = int64_t{1} << 40, multiple = 1;
  std::array<int64_t, 12> set = {};  // if `count` is not 0, only the first `count` of these
  int count = 0;

  constexpr Sizes() = default;
  template <std::integral N>
    requires(!std::same_as<N, bool>)
  constexpr Sizes(N only) : set{static_cast<int64_t>(only)}, count(1) {}
  constexpr bool operator==(const Sizes&) const = default;

  constexpr bool take(int64_t n) const {
    for (int i = 0; i < count; ++i) {
      if (set[static_cast<size_t>(i)] == n) return true;
    }
    return count == 0 && n >= least && n <= most && n % multiple == 0;
  }
  constexpr attn_sizes sizes() const {
    attn_sizes result = {least, most < int64_t{1} << 40 ? most : 0, multiple, count, {}};
    for (int i = 0; i < count; ++i) result.list[i] = set[static_cast<size_t>(i)];
    return result;
  }
  std::string words() const {
    std::string result;
    for (int i = 0; i < count; ++i)
      result += (i ? i + 1 == count ? " or " : ", " : "") + std::to_string(set[static_cast<size_t>(i)]);
    if (count) return result;
    if (multiple > 1) result = "a multiple of " + std::to_string(multiple) + ", ";
    return result + "at least " + std::to_string(least) +
           (most < int64_t{1} << 40 ? " and at most " + std::to_string(most) : "");
  }
  constexpr Sizes up_to(int64_t n) const {
    Sizes result = *this;
    result.most = n;
    return result;
  }
  constexpr Sizes from(int64_t n) const {
    Sizes result = *this;
    result.least = n;
    return result;
  }
};
constexpr Sizes any_size() { return {}; }
constexpr Sizes at_most(int64_t n) { return Sizes{}.up_to(n); }
constexpr Sizes between(int64_t least, int64_t most) { return Sizes{}.from(least).up_to(most); }
constexpr Sizes multiple_of(int64_t n) {
  Sizes result;
  result.multiple = n;
  return result;
}
template <class... N>
constexpr Sizes one_of(N... values) {
  Sizes result;
  result.set = {static_cast<int64_t>(values)...};
  result.count = sizeof...(values);
  return result;
}

// Formats of Q, K, V and O, as bits 1 << attn_dtype. kOfFunction: the formats of the entry's parameters
// (entry.h).
enum class Formats { kOfFunction = 0, kF16 = 1, kBf16 = 2, kEither = 3, kF32 = 4, kAny = 7 };
constexpr Formats operator|(Formats a, Formats b) {
  return static_cast<Formats>(static_cast<int>(a) | static_cast<int>(b));
}
enum class Order { kBhsd, kBshd };  // dense, outermost first
enum class Causal { kNever, kOnly, kEither };
// kNone: a problem that wants an LSE is refused. kWritten: the LSE is dense (b, h, s), natural, and -inf for a
// row that sees no key. The kernel's plan() may set lse_base or lse_dead to other values.
enum class Lse { kNone, kWritten };
// kOwn: the kernel multiplies by 1 / sqrt(dim); the adapter multiplies Q by the rest of the problem's scale.
// kPositive: the scale is given and must be above 0. A kernel needs this if it sets hidden scores to -inf
// before it multiplies by the scale.
enum class Scale { kGiven, kOwn, kPositive };
// A Scale, or a number: the kernel's own constant scale. It is 1 if the kernel expects a scaled Q.
class ScaleRule {
 public:
  constexpr ScaleRule(Scale rule) : rule_(rule) {}
  constexpr ScaleRule(double own)
      : rule_(Scale::kOwn),
        own_(own > 0 ? static_cast<float>(own) : throw "a scale of the kernel's own is above 0") {}
  constexpr bool operator==(Scale rule) const { return rule_ == rule; }
  float own(const attn_problem& p) const {
    return own_ != 0 ? own_ : 1.0f / std::sqrt(static_cast<float>(p.dim_qk));
  }

 private:
  Scale rule_;
  float own_ = 0;  // 0: 1 / sqrt(dim)
};
// kGiven: the call takes window_left and window_right; -1 means that a side has no limit.
enum class Window { kNever, kGiven };
// kOfHeads: the kernel reads a.slopes as (H). kOfEntries: it knows a.slopes_each as well.
enum class Slopes { kNever, kOfHeads, kOfEntries };
// Takes::page of a kernel that reads the number of keys per page from a.page_size.
inline constexpr int kAnyPage = -1;

struct Takes {
  Formats format = Formats::kF16;
  Sizes dim = {};  // of Q and K; also of V if equal_dims
  Sizes dim_v = {};
  Sizes seq = {};  // of queries; also of keys if equal_lengths
  Sizes seq_k = {};
  Sizes batch = at_most(128);
  Sizes heads = at_most(128);
  Sizes group = one_of(1);  // query heads per KV head
  bool equal_dims = true;
  bool equal_lengths = false;  // seq_q = seq_k; if packed, each sequence has as many keys as queries
  Causal causal = Causal::kNever;
  attn_align align = ATTN_TOP_LEFT;  // of the causal mask, the window and slopes, if lengths differ
  Lse lse = Lse::kNone;
  ScaleRule scale = Scale::kGiven;
  Window window = Window::kNever;
  bool sink = false;  // takes problems with fp32 sinks too: a.sink
  Slopes slopes = Slopes::kNever;
  // The kernel takes only packed sequences: dense batch entries are packed for it. Keys are packed too, unless
  // they are in pages.
  bool packed = false;
  Order order = Order::kBhsd;
  uintptr_t align_bytes = 16;  // of each pointer
  int64_t shared = 0;          // bytes of shared memory that the device must give a block; 0: any device
  // The keys of a page, or kAnyPage: K and V come in pages, with a.block_table and a.key_lengths. If the
  // problem's pages have this size, the kernel gets them unchanged. All other keys are copied into pages for
  // the kernel.
  int page = 0;
  bool keeps_scratch = false;  // memory from cudaMalloc may live until the next call
  int64_t tile = 64;           // size of a tile of queries and of keys: cases are aimed at tile borders
  // True: products, sums, scaling and the exponential are in fp32 (__expf or better), and P is not rounded to
  // 16 bits. False: nothing is known about the kernel's arithmetic, so the loosest classes are assumed. For
  // fp32 inputs even these do not allow rounding products or P to fewer bits.
  bool in_fp32 = false;
  // The kernel's products are tensor-core products of Q, K, P and V in TF32, rounded to nearest.
  bool in_tf32 = false;

  // The adapter's static_asserts ask these questions of a declaration, because a statement that would be ignored
  // is an error.
  constexpr bool has_tile() const { return tile >= 1; }
  constexpr bool has_alignment() const { return std::has_single_bit(align_bytes); }
  constexpr bool uses_dim_v() const { return !equal_dims || dim_v == Sizes{}; }
  constexpr bool uses_seq_k() const { return !equal_lengths || seq_k == Sizes{}; }
  // True if some problem has a causal mask, a window or slopes.
  constexpr bool has_diagonal() const {
    return causal != Causal::kNever || window != Window::kNever || slopes != Slopes::kNever;
  }
  constexpr attn_domain domain() const {
    attn_domain d = {};
    d.size = sizeof d;
    d.dtypes = static_cast<uint32_t>(format);
    d.batch = batch.sizes(), d.heads_q = heads.sizes(), d.group = group.sizes();
    d.seq_q = seq.sizes(), d.seq_k = (equal_lengths ? seq : seq_k).sizes();
    d.dim_qk = dim.sizes(), d.dim_v = (equal_dims ? dim : dim_v).sizes();
    d.equal_lengths = equal_lengths;
    d.equal_dims = equal_dims;
    d.causal = causal == Causal::kNever ? 1 : causal == Causal::kOnly ? 2 : 0;
    d.align = has_diagonal() ? 1 + align : 0;
    d.lse = lse == Lse::kNone ? 1 : 0;
    d.usual_scale = scale == Scale::kOwn;  // also for a constant scale: Q is multiplied by the rest
    return d;
  }
};

// True if the lengths of queries and keys may differ in some batch entry, so that the alignment of a causal
// mask, a window or slopes matters.
inline bool may_be_unequal(const attn_problem& p) {
  return p.seq_q != p.seq_k || p.ragged || p.has_key_lengths;
}

// The reason why a problem's sinks or slopes are refused; empty if they are taken. The adapter does not copy
// them, so the kernel must be able to read their layout.
inline std::string refusal_of_heads(const Takes& takes, const Call& call) {
  const attn_problem& p = call.problem;
  const auto apart = [&](const attn_tensor& t) { return p.heads_q > 1 && t.stride[1] != 1; };
  if (p.has_sink && !takes.sink) return "sinks";
  if (p.has_sink && p.sink_dtype != ATTN_F32) return "sinks in 16 bits";
  if (p.has_sink && apart(call.tensors.sink)) return "sinks that do not lie side by side";
  if (!p.has_alibi) return {};
  const int64_t each = p.batch > 1 ? call.tensors.slopes.stride[0] : 0;
  if (takes.slopes == Slopes::kNever) return "slopes";
  if (apart(call.tensors.slopes) || (each != 0 && each != p.heads_q)) return "slopes that do not lie side by side";
  if (each != 0 && takes.slopes == Slopes::kOfHeads) return "slopes of each batch entry";
  if (may_be_unequal(p) && p.align != takes.align)
    return takes.align == ATTN_TOP_LEFT ? "slopes aligned bottom-right" : "slopes aligned top-left";
  return {};
}

// The reason why a problem is refused; empty if it is taken.
inline std::string refusal(const Takes& takes, const Call& call) {
  const attn_problem& p = call.problem;
  const auto wrong = [](const char* what, const Sizes& sizes, int64_t n) {
    return std::string(what) + " " + std::to_string(n) + ": it takes " + sizes.words();
  };
  if (!(static_cast<int>(takes.format) >> p.dtype & 1)) {
    std::string words;
    for (const auto& [format, name] :
         {std::pair{Formats::kF16, "fp16"}, {Formats::kBf16, "bf16"}, {Formats::kF32, "fp32"}}) {
      if ((takes.format | format) == takes.format) words += (words.empty() ? "" : " and ") + std::string(name);
    }
    return words + " alone";
  }
  if (call.env.shared_memory_limit < takes.shared)
    return "a device with " + std::to_string(call.env.shared_memory_limit) +
           " bytes of shared memory a block: it takes at least " + std::to_string(takes.shared);
  if (p.batch == 0 || p.heads_q == 0 || p.seq_q == 0) return {};
  if (takes.equal_dims && p.dim_qk != p.dim_v) return "head dimensions of Q and V that differ";
  if (!takes.dim.take(p.dim_qk)) return wrong("a head dimension of", takes.dim, p.dim_qk);
  if (!takes.equal_dims && !takes.dim_v.take(p.dim_v))
    return wrong("a head dimension of V of", takes.dim_v, p.dim_v);
  if (takes.equal_lengths && p.seq_q != p.seq_k) return "different numbers of queries and keys";
  if (!takes.seq.take(p.seq_q)) return wrong("a number of queries of", takes.seq, p.seq_q);
  const Sizes& keys = takes.equal_lengths ? takes.seq : takes.seq_k;
  if (!keys.take(p.seq_k)) return wrong("a number of keys of", keys, p.seq_k);
  if (!takes.batch.take(p.batch)) return wrong("a batch of", takes.batch, p.batch);
  if (!takes.heads.take(p.heads_q)) return wrong("a number of heads of", takes.heads, p.heads_q);
  if (!takes.group.take(p.heads_q / p.heads_kv))
    return wrong("a number of query heads per KV head of", takes.group, p.heads_q / p.heads_kv);
  if (p.causal && takes.causal == Causal::kNever) return "a causal mask";
  if (!p.causal && takes.causal == Causal::kOnly) return "no causal mask";
  if (p.ragged && !takes.packed) return "packed sequences";
  if (p.causal && may_be_unequal(p) && p.align != takes.align)
    return takes.align == ATTN_TOP_LEFT ? "causal aligned bottom-right" : "causal aligned top-left";
  const bool window = p.window_left >= 0 || p.window_right >= 0;
  if (window && takes.window == Window::kNever) return "a window";
  if (window && may_be_unequal(p) && p.align != takes.align)
    return takes.align == ATTN_TOP_LEFT ? "a window aligned bottom-right" : "a window aligned top-left";
  if (std::string why = refusal_of_heads(takes, call); !why.empty()) return why;
  if (p.softcap != 0) return "a softcap";
  if (p.bias_dtype != ATTN_NONE) return "a bias";
  if (p.has_mask) return "a mask";
  if (p.has_key_lengths && takes.page == 0) return "key lengths";
  if (call.tensors.lse.data && takes.lse == Lse::kNone) return "an LSE";
  if (takes.scale == Scale::kOwn && !std::isfinite(p.scale / takes.scale.own(p))) return "a scale out of range";
  if (takes.scale == Scale::kPositive && !(p.scale > 0)) return "a scale that is not positive";
  const bool either = takes.packed || takes.page != 0;
  const int64_t rows_q = either ? rows_of_queries(p).entries * rows_of_queries(p).count : 0,
                rows_k = either ? rows_of_keys(p).entries * rows_of_keys(p).count : 0;
  for (const int64_t n : {p.batch * p.heads_q, p.seq_q, p.seq_k, rows_q, rows_k}) {
    if (n > 0x7FFFFFFF / 512) return "more rows or heads than its integers hold";
  }
  return {};
}

}  // namespace attn
