// A plug-in around a CUDA kernel as it stands, in a few lines: what the kernel takes is
// declared, and everything else about the contract is done here.
//
//   #include "attention.cu"              // void launch(const half* q, ..., int B, int H, int S, int D)
//   #include "kernels/adapter.h"
//
//   struct Mine {
//     static constexpr const char* kName = "mine";
//     static constexpr attn::Takes kTakes = {.dim = attn::one_of(32, 64), .equal_lengths = true};
//     static void run(const attn::Args& a) { launch(a.q, a.k, a.v, a.o, a.B, a.H, a.S, a.D); }
//   };
//   ATTN_ADAPTER(Mine)
//
// A problem that Takes does not name is refused with the reason. One that it names is given
// to run() with dense tensors: where the caller's are not dense, lie at an address that is
// not a multiple of `align`, or are in another format or order than the kernel's, run() gets
// copies in the workspace, between guards, that are compared with what they were made of
// afterwards; Q is multiplied by what the kernel's own scale lacks. The plan's path says
// what was done. So a copy hides strides, never elements.
//
// A kernel of fp32 gets its inputs converted, exactly, and its output rounded once:
// attention as a caller in fp16 or bf16 would have it. Errors below that rounding are
// not seen.
//
// Struct members beside these, if wanted:
//   static void plan(const attn::Call&, attn_plan*)   more of the plan than the loosest classes
//   static constexpr const char* kDescription
// In C++20; on the executor and, compiled by nvcc, on a GPU.
#pragma once

#include <array>
#include <initializer_list>
#include <type_traits>

#include "kernels/identity.h"
#include "kernels/plug_in.h"
#include "kernels/primitives/launch.h"

#ifndef __CUDACC__
#include "kernels/simt/cuda_runtime.h"
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#elif __has_feature(memory_sanitizer)
#include <sanitizer/msan_interface.h>
#endif
#endif

namespace attn {

// --- What a kernel takes --------------------------------------------------------------

// Which values a size may have.
struct Sizes {
  int64_t least = 1, most = int64_t{1} << 40, multiple = 1;
  std::array<int64_t, 12> set = {};  // of these, where `count` is not 0
  int count = 0;

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

enum class Formats { kF16 = 1, kBf16 = 2, kEither = 3, kF32 = 4 };  // kF32: by conversion
enum class Order { kBhsd, kBshd };                                  // dense, outermost first
enum class Causal { kNever, kOnly, kEither };
enum class Lse { kNone, kWritten };  // none: a problem that wants it is refused. Dense (b, h, s), natural log
enum class Scale { kGiven, kOwn };   // own: 1 / sqrt(dim); the rest of it is multiplied into Q

struct Takes {
  Formats format = Formats::kF16;
  Sizes dim = {};  // of Q and K; of V as well, where equal_dims
  Sizes dim_v = {};
  Sizes seq = {};  // of queries; of keys as well, where equal_lengths
  Sizes seq_k = {};
  Sizes batch = at_most(128);
  Sizes heads = at_most(128);
  Sizes group = one_of(1);  // query heads a head of K and V
  bool equal_dims = true;
  bool equal_lengths = false;
  Causal causal = Causal::kNever;
  attn_align align = ATTN_TOP_LEFT;  // of the causal mask, where lengths differ
  Lse lse = Lse::kNone;
  Scale scale = Scale::kGiven;
  Order order = Order::kBhsd;
  uintptr_t align_bytes = 16;  // of each pointer
  int page = 0;                // keys a page: K and V come in pages, with a.pages and a.lengths
  bool keeps_scratch = false;  // what it takes with cudaMalloc may live until the next call
  int64_t tile = 64;           // of queries and keys: where borders are aimed at

  constexpr attn_domain domain() const {
    attn_domain d = {};
    d.size = sizeof d;
    d.dtypes = format == Formats::kF16 ? 1u << ATTN_F16 : format == Formats::kBf16 ? 1u << ATTN_BF16 : 0;
    d.batch = batch.sizes(), d.heads_q = heads.sizes(), d.group = group.sizes();
    d.seq_q = seq.sizes(), d.seq_k = (equal_lengths ? seq : seq_k).sizes();
    d.dim_qk = dim.sizes(), d.dim_v = (equal_dims ? dim : dim_v).sizes();
    d.equal_lengths = equal_lengths;
    d.equal_dims = equal_dims;
    d.causal = causal == Causal::kNever ? 1 : causal == Causal::kOnly ? 2 : 0;
    d.align = causal == Causal::kNever ? 0 : 1 + align;
    d.lse = lse == Lse::kNone ? 1 : 0;
    d.usual_scale = scale == Scale::kOwn;
    return d;
  }
};

// --- What it is called with --------------------------------------------------------------

// Converts to whatever pointer the kernel's function wants.
struct Pointer {
  void* data = nullptr;
  template <class T>
  operator T*() const {
    return static_cast<T*>(data);
  }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

struct Args {
  Pointer q, k, v, o;
  float* lse = nullptr;  // never null where Takes has it
  int B, H, Hkv, S, Sq, Sk, D, Dv;
  float scale;
  bool causal;
  attn_dtype dtype;  // of the problem
#ifdef __CUDACC__
  cudaStream_t stream;
#else
  ::cudaStream_t stream;
#endif
  // Of pages: K and V are (page number, key, head, dim); of batch entry b the n-th page is
  // pages[b * pages_each + n], and lengths[b] keys count.
  const int* pages = nullptr;
  const int* lengths = nullptr;
  int pages_each = 0, pages_all = 0;
};

namespace adapter_detail {

enum Piece { kQ, kK, kV, kO, kLse, kPages, kLengths, kPieces };
inline constexpr const char* kPieceNames[] = {"Q", "K", "V", "O", "LSE", "the page table", "the lengths"};

// One tensor of the caller's and what the kernel gets.
struct Copy {
  attn_tensor from = {};
  int64_t shape[4] = {};   // the caller's
  int64_t stride[4] = {};  // of the copy
  int64_t elements = 0;    // of the copy
  size_t bytes_each = 2;   // of the copy's
  bool made = false;
  uint64_t offset = 0;  // in the workspace
  uint64_t bytes() const { return static_cast<uint64_t>(elements) * bytes_each; }
};

inline constexpr uint64_t kGap = 256;
inline constexpr unsigned char kGuard = 0xFF;  // a NaN in every format

struct Layout {
  std::array<Copy, kPieces> pieces = {};
  uint64_t bytes = 0;
  float factor = 1;  // of Q
  bool converts = false, folds = false;
  int64_t pages_each = 0;
};

inline float usual_scale(const attn_problem& p) { return 1.0f / std::sqrt(static_cast<float>(p.dim_qk)); }

inline bool is_dense(const attn_tensor& t, const int64_t (&shape)[4], const int64_t (&stride)[4]) {
  for (int i = 0; i < 4; ++i) {
    if (shape[i] > 1 && t.stride[i] != stride[i]) return false;
  }
  return true;
}

// Of two elements in memory: read as one, written as the other.
struct Element {
  __host__ __device__ static float read16(uint16_t bits, bool bf16) {
    if (bf16) {
      const uint32_t wide = static_cast<uint32_t>(bits) << 16;
      float result;
      memcpy(&result, &wide, sizeof result);
      return result;
    }
#ifdef __CUDA_ARCH__
    return to_float(F16{bits});
#elif defined(__CUDACC__)
    return 0;
#else
    return static_cast<float>(__builtin_bit_cast(_Float16, bits));
#endif
  }
  __host__ __device__ static uint16_t write16(float value, bool bf16) {
    if (bf16) {
      uint32_t bits;
      memcpy(&bits, &value, sizeof bits);
      if (value != value) return static_cast<uint16_t>(bits >> 16 | 0x40);
      return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    }
#ifdef __CUDA_ARCH__
    return from_float<F16>(value).bits;
#elif defined(__CUDACC__)
    return 0;
#else
    return __builtin_bit_cast(uint16_t, static_cast<_Float16>(value));
#endif
  }
};

// How elements go from the caller's tensor to the copy, and back.
struct Move {
  attn_tensor outer;
  char* copy;
  int64_t shape[4], stride[4];
  int wide;  // bytes of the copy's elements
  int outer_bytes;
  bool bf16;
  float factor;
  bool out;          // from the copy
  const int* pages;  // null: none
  int64_t page, pages_each;
  unsigned* differences;  // not null: compared instead

  __host__ __device__ void operator()(int64_t n) const {
    const int64_t d = n % shape[3], s = n / shape[3] % shape[2], h = n / shape[3] / shape[2] % shape[1];
    const int64_t b = n / shape[3] / shape[2] / shape[1];
    char* mine = static_cast<char*>(outer.data) + outer_bytes * (b * outer.stride[0] + h * outer.stride[1] +
                                                                 s * outer.stride[2] + d * outer.stride[3]);
    int64_t at = b * stride[0] + h * stride[1] + s * stride[2] + d * stride[3];
    if (pages) {  // (page number, key, head, dim)
      const int64_t number = pages[b * pages_each + s / page];
      at = ((number * page + s % page) * shape[1] + h) * shape[3] + d;
    }
    char* its = copy + wide * at;
    if (outer_bytes == wide && factor == 1) {
      if (differences) {
        if (memcmp(mine, its, static_cast<size_t>(wide)) != 0) ++*differences;
      } else {
        memcpy(out ? mine : its, out ? its : mine, static_cast<size_t>(wide));
      }
      return;
    }
    uint16_t bits;
    float value;
    if (out) {
      memcpy(&value, its, sizeof value);
      bits = Element::write16(value, bf16);
      memcpy(mine, &bits, sizeof bits);
      return;
    }
    memcpy(&bits, mine, sizeof bits);
    value = Element::read16(bits, bf16) * factor;
    bits = Element::write16(value, bf16);
    const void* result = wide == 4 ? static_cast<const void*>(&value) : &bits;
    if (differences) {
      if (memcmp(its, result, static_cast<size_t>(wide)) != 0) ++*differences;
    } else {
      memcpy(its, result, static_cast<size_t>(wide));
    }
  }
};

#ifdef __CUDACC__
static __global__ void move_all(Move move, int64_t count) {
  for (int64_t n = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; n < count;
       n += int64_t{gridDim.x} * blockDim.x)
    move(n);
}
static __global__ void fill_bytes(unsigned char* at, unsigned char value, int64_t count) {
  for (int64_t n = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; n < count;
       n += int64_t{gridDim.x} * blockDim.x)
    at[n] = value;
}
#endif

// Pages lie in another order than the keys they hold: number of the n-th of `all`.
__host__ __device__ inline int page_number(int64_t n, int64_t all) {
  int64_t step = all / 2 + 1;
  for (;; ++step) {
    int64_t a = step, b = all;
    while (b) {
      const int64_t rest = a % b;
      a = b;
      b = rest;
    }
    if (a == 1) return static_cast<int>((n * step + all / 3) % all);
  }
}

__host__ __device__ inline void fill_page(int64_t n, int* pages, int* lengths, const int64_t* given,
                                          int64_t batch, int64_t each, int64_t keys) {
  pages[n] = page_number(n, batch * each);
  if (n % each != 0) return;
  const int64_t b = n / each, length = given ? given[b] : keys;
  lengths[b] = static_cast<int>(length < 0 ? 0 : length > keys ? keys : length);
}

#ifdef __CUDACC__
static __global__ void fill_pages(int* pages, int* lengths, const int64_t* given, int64_t batch, int64_t each,
                                  int64_t keys) {
  for (int64_t n = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; n < batch * each;
       n += int64_t{gridDim.x} * blockDim.x)
    fill_page(n, pages, lengths, given, batch, each, keys);
}
#endif

}  // namespace adapter_detail

// The plug-in around K.
template <class K>
struct Adapted {
  static constexpr const char* kName = K::kName;
  static constexpr const char* kDescription = [] {
    if constexpr (requires { K::kDescription; }) return K::kDescription;
    return "a CUDA kernel as it stands, with an adapter";
  }();
  static constexpr attn_backend kBackend = attn::kBackend;
  static constexpr const attn_build* kBuild = &attn_build_identity;
  static constexpr const Takes& kTakes = K::kTakes;
  static constexpr attn_domain kDeclared = kTakes.domain();
  static constexpr const attn_domain* kDomain = &kDeclared;

  static Refusal plan(const Call& call, attn_plan* plan) {
    using namespace adapter_detail;
    if (const std::string why = refusal(call); !why.empty()) return {ATTN_UNSUPPORTED, why};
    const attn_problem& p = call.problem;
    plan->tile_q = plan->tile_k = kTakes.tile;
    plan->split_tiles = ceil_div(p.seq_k, kTakes.tile);
    const Layout layout = layout_of(call);
    plan->workspace_bytes = layout.bytes;
    plan->workspace_align = layout.bytes ? kGap : 1;
    if (layout.folds) plan->scale_mode = ATTN_SCALE_FOLDED_Q;
    if constexpr (requires { K::plan(call, plan); }) K::plan(call, plan);
    std::string path = kName;
    if (layout.converts) path += ", fp32 by conversion";
    if (layout.folds) path += ", scale in Q";
    std::string copies;
    for (int i = kQ; i <= kLse; ++i) {
      if (layout.pieces[static_cast<size_t>(i)].made && !(layout.converts && i != kLse))
        copies += copies.empty() ? kPieceNames[i] : std::string(" ") + kPieceNames[i];
    }
    if (!copies.empty()) path += ", copies " + copies;
    snprintf(plan->path, sizeof plan->path, "%s", path.c_str());
    return {};
  }

  static attn_status run(const Call& call, const attn_plan&) {
    using namespace adapter_detail;
    const attn_problem& p = call.problem;
    if (p.batch == 0 || p.heads_q == 0 || p.seq_q == 0) return ATTN_OK;
    const Layout layout = layout_of(call);
    if (layout.bytes > call.tensors.workspace_bytes) return ATTN_INVALID;
    auto* const space = static_cast<char*>(call.tensors.workspace);
    Args args = {};
    const auto at = [&](Piece i) {
      const Copy& c = layout.pieces[i];
      return static_cast<void*>(c.made ? space + c.offset : static_cast<char*>(c.from.data));
    };
    fill(call, space, kGuard, layout.bytes);
    if (kTakes.page > 0)
      make_pages(call, layout, static_cast<int*>(at(kPages)), static_cast<int*>(at(kLengths)));
    for (Piece i : {kQ, kK, kV}) move(call, layout, i, space, false);
    guard(layout, space, true);
    args.q = {at(kQ)}, args.k = {at(kK)}, args.v = {at(kV)}, args.o = {at(kO)};
    args.lse = static_cast<float*>(at(kLse));
    args.B = static_cast<int>(p.batch), args.H = static_cast<int>(p.heads_q),
    args.Hkv = static_cast<int>(p.heads_kv);
    args.S = args.Sk = static_cast<int>(p.seq_k), args.Sq = static_cast<int>(p.seq_q);
    args.D = static_cast<int>(p.dim_qk), args.Dv = static_cast<int>(p.dim_v);
    args.scale = kTakes.scale == Scale::kOwn ? usual_scale(p) : p.scale;
    args.causal = p.causal != 0;
    args.dtype = static_cast<attn_dtype>(p.dtype);
    args.pages = static_cast<const int*>(at(kPages)), args.lengths = static_cast<const int*>(at(kLengths));
    args.pages_each = static_cast<int>(layout.pages_each);
    args.pages_all = static_cast<int>(layout.pages_each * p.batch);
#ifdef __CUDACC__
    args.stream = static_cast<cudaStream_t>(call.env.stream);
    K::run(args);
    const cudaError_t error = cudaGetLastError();
    if (error != cudaSuccess) {
      report_launch(&call.env, ATTN_REPORT_DEVICE, cudaGetErrorString(error));
      return ATTN_LAUNCH_FAILED;
    }
    for (Piece i : {kO, kLse}) move(call, layout, i, space, true);
    return ATTN_OK;
#else
    simt::HostCall host(call.env);
    K::run(static_cast<const Args&>(args));
    const attn_status status = host.end(kTakes.keeps_scratch);
    guard(layout, space, false);
    if (status != ATTN_OK) return status;
    if (!whole(call, layout, space)) return ATTN_FAULT;
    for (Piece i : {kO, kLse}) move(call, layout, i, space, true);
    return ATTN_OK;
#endif
  }

 private:
  static std::string refusal(const Call& call) {
    const attn_problem& p = call.problem;
    const auto wrong = [](const char* what, const Sizes& sizes, int64_t n) {
      return std::string(what) + " " + std::to_string(n) + ": it takes " + sizes.words();
    };
    if (kTakes.format == Formats::kF16 && p.dtype != ATTN_F16) return "fp16 alone";
    if (kTakes.format == Formats::kBf16 && p.dtype != ATTN_BF16) return "bf16 alone";
    if (p.batch == 0 || p.heads_q == 0 || p.seq_q == 0) return {};
    if (kTakes.equal_dims && p.dim_qk != p.dim_v) return "head dimensions of Q and V that differ";
    if (!kTakes.dim.take(p.dim_qk)) return wrong("a head dimension of", kTakes.dim, p.dim_qk);
    if (!kTakes.equal_dims && !kTakes.dim_v.take(p.dim_v))
      return wrong("a head dimension of V of", kTakes.dim_v, p.dim_v);
    if (kTakes.equal_lengths && p.seq_q != p.seq_k) return "as many queries as keys alone";
    if (!kTakes.seq.take(p.seq_q)) return wrong("a number of queries of", kTakes.seq, p.seq_q);
    const Sizes& keys = kTakes.equal_lengths ? kTakes.seq : kTakes.seq_k;
    if (!keys.take(p.seq_k)) return wrong("a number of keys of", keys, p.seq_k);
    if (!kTakes.batch.take(p.batch)) return wrong("a batch of", kTakes.batch, p.batch);
    if (!kTakes.heads.take(p.heads_q)) return wrong("a number of heads of", kTakes.heads, p.heads_q);
    if (!kTakes.group.take(p.heads_q / p.heads_kv))
      return wrong("query heads a head of K and V of", kTakes.group, p.heads_q / p.heads_kv);
    if (p.causal && kTakes.causal == Causal::kNever) return "a causal mask";
    if (!p.causal && kTakes.causal == Causal::kOnly) return "the causal mask alone";
    if (p.causal && p.seq_q != p.seq_k && p.align != kTakes.align)
      return kTakes.align == ATTN_TOP_LEFT ? "causal aligned bottom-right" : "causal aligned top-left";
    if (p.window_left >= 0 || p.window_right >= 0) return "a window";
    if (p.softcap != 0) return "a softcap";
    if (p.bias_dtype != ATTN_NONE) return "a bias";
    if (p.has_mask) return "a mask";
    if (p.has_key_lengths && kTakes.page == 0) return "key lengths";
    if (call.tensors.lse.data && kTakes.lse == Lse::kNone) return "an LSE";
    if (kTakes.scale == Scale::kOwn && !std::isfinite(p.scale / adapter_detail::usual_scale(p)))
      return "such a scale";
    for (const int64_t n : {p.batch * p.heads_q, p.seq_q, p.seq_k}) {
      if (n > 0x7FFFFFFF / 512) return "more than its integers hold";
    }
    return {};
  }

  static adapter_detail::Layout layout_of(const Call& call) {
    using namespace adapter_detail;
    const attn_problem& p = call.problem;
    const attn_tensors t = strided(p, call.tensors);
    Layout layout;
    layout.converts = kTakes.format == Formats::kF32;
    if (kTakes.scale == Scale::kOwn) layout.factor = p.scale / usual_scale(p);
    if (std::fabs(layout.factor - 1) < 1e-6f) layout.factor = 1;
    layout.folds = layout.factor != 1 && !layout.converts;
    layout.pages_each = kTakes.page > 0 ? ceil_div(p.seq_k, kTakes.page) : 0;
    const auto add = [&](Piece i, const attn_tensor& tensor, int64_t h, int64_t s, int64_t d) {
      Copy& c = layout.pieces[i];
      const int64_t shape[4] = {p.batch, h, s, d};
      const bool by_head = kTakes.order == Order::kBhsd || i == kLse;
      const int64_t stride[4] = {h * s * d, by_head ? s * d : d, by_head ? d : h * d, 1};
      c.from = tensor;
      for (int n = 0; n < 4; ++n) c.shape[n] = shape[n], c.stride[n] = stride[n];
      c.elements = p.batch * h * s * d;
      c.bytes_each = i == kLse || layout.converts ? 4 : 2;
      const bool paged = kTakes.page > 0 && (i == kK || i == kV);
      if (paged) c.elements = p.batch * layout.pages_each * kTakes.page * h * d;
      c.made = paged || (layout.converts && i != kLse) || (i == kQ && layout.factor != 1) ||
               tensor.data == nullptr || !is_dense(tensor, shape, stride) ||
               reinterpret_cast<uintptr_t>(tensor.data) % kTakes.align_bytes != 0;
      if (i == kLse && kTakes.lse == Lse::kNone) c.made = false, c.elements = 0;
    };
    add(kQ, t.q, p.heads_q, p.seq_q, p.dim_qk);
    add(kK, t.k, p.heads_kv, p.seq_k, p.dim_qk);
    add(kV, t.v, p.heads_kv, p.seq_k, p.dim_v);
    add(kO, t.o, p.heads_q, p.seq_q, p.dim_v);
    add(kLse, t.lse, p.heads_q, p.seq_q, 1);
    if (kTakes.page > 0) {
      for (Piece i : {kPages, kLengths}) {
        layout.pieces[i].made = true;
        layout.pieces[i].bytes_each = 4;
        layout.pieces[i].elements = i == kPages ? p.batch * layout.pages_each : p.batch;
      }
    }
    for (Copy& c : layout.pieces) {
      if (!c.made) continue;
      c.offset = layout.bytes + kGap;
      layout.bytes = (c.offset + c.bytes() + kGap - 1) / kGap * kGap;
    }
    if (layout.bytes) layout.bytes += kGap;
    return layout;
  }

  static void fill([[maybe_unused]] const Call& call, char* at, unsigned char value, uint64_t bytes) {
    if (bytes == 0) return;
#ifdef __CUDACC__
    launch(adapter_detail::fill_bytes, dim3(256), dim3(256), 0, &call.env, reinterpret_cast<unsigned char*>(at),
           value, static_cast<int64_t>(bytes));
#else
    memset(at, value, bytes);
#if __has_feature(memory_sanitizer)
    __msan_poison(at, bytes);
#endif
#endif
  }

  static void make_pages(const Call& call, const adapter_detail::Layout& layout, int* pages, int* lengths) {
    const attn_problem& p = call.problem;
    const int64_t* given = p.has_key_lengths ? call.tensors.key_lengths : nullptr;
#ifdef __CUDACC__
    launch(adapter_detail::fill_pages, dim3(64), dim3(256), 0, &call.env, pages, lengths, given, p.batch,
           layout.pages_each, p.seq_k);
#else
    for (int64_t n = 0; n < p.batch * layout.pages_each; ++n)
      adapter_detail::fill_page(n, pages, lengths, given, p.batch, layout.pages_each, p.seq_k);
#endif
  }

  // Between the caller's tensor and its copy; `differences`: compares.
  static void move([[maybe_unused]] const Call& call, const adapter_detail::Layout& layout,
                   adapter_detail::Piece i, char* space, bool out, unsigned* differences = nullptr) {
    using namespace adapter_detail;
    const Copy& c = layout.pieces[i];
    if (!c.made || c.from.data == nullptr) return;
    Move move = {};
    move.outer = c.from;
    move.copy = space + c.offset;
    for (int n = 0; n < 4; ++n) move.shape[n] = c.shape[n], move.stride[n] = c.stride[n];
    move.wide = static_cast<int>(c.bytes_each);
    move.outer_bytes = i == kLse ? 4 : 2;
    move.bf16 = call.problem.dtype == ATTN_BF16;
    move.factor = i == kQ ? layout.factor : 1;
    move.out = out;
    if (kTakes.page > 0 && (i == kK || i == kV)) {
      move.pages = reinterpret_cast<const int*>(space + layout.pieces[kPages].offset);
      move.page = kTakes.page;
      move.pages_each = layout.pages_each;
    }
    move.differences = differences;
    const int64_t count = c.shape[0] * c.shape[1] * c.shape[2] * c.shape[3];
#ifdef __CUDACC__
    if (count > 0) launch(move_all, dim3(256), dim3(256), 0, &call.env, move, count);
#else
    for (int64_t n = 0; n < count; ++n) move(n);
#endif
  }

#ifndef __CUDACC__
  // Nobody may touch what lies between the copies.
  static void guard([[maybe_unused]] const adapter_detail::Layout& layout, [[maybe_unused]] char* space,
                    [[maybe_unused]] bool on) {
#if __has_feature(address_sanitizer)
    each_gap(layout, [&](uint64_t begin, uint64_t end, int) {
      if (on) {
        __asan_poison_memory_region(space + begin, end - begin);
      } else {
        __asan_unpoison_memory_region(space + begin, end - begin);
      }
    });
#endif
  }
  template <class F>
  static void each_gap(const adapter_detail::Layout& layout, F f) {
    uint64_t at = 0;
    int last = -1;
    for (int i = 0; i < adapter_detail::kPieces; ++i) {
      const adapter_detail::Copy& c = layout.pieces[static_cast<size_t>(i)];
      if (!c.made) continue;
      f(at, c.offset, last < 0 ? i : last);
      at = c.offset + c.bytes();
      last = i;
    }
    if (last >= 0) f(at, layout.bytes, last);
  }

  // What lies between the copies is as it was, and so are the inputs.
  static bool whole(const Call& call, const adapter_detail::Layout& layout, char* space) {
    using namespace adapter_detail;
    bool whole = true;
    const auto tell = [&](const std::string& words) {
      if (whole) report_launch(&call.env, ATTN_REPORT_ADDRESS, words.c_str());
      whole = false;
    };
    each_gap(layout, [&](uint64_t begin, uint64_t end, int piece) {
#if __has_feature(memory_sanitizer)
      __msan_unpoison(space + begin, end - begin);
#endif
      for (uint64_t n = begin; n < end; ++n) {
        if (static_cast<unsigned char>(space[n]) != kGuard)
          return tell(std::string("the kernel wrote outside of ") + kPieceNames[piece]);
      }
    });
    for (Piece i : {kQ, kK, kV}) {
      unsigned differences = 0;
      move(call, layout, i, space, false, &differences);
      if (differences) tell(std::string("the kernel wrote into its input ") + kPieceNames[i]);
    }
    return whole;
  }
#else
  static void guard(const adapter_detail::Layout&, char*, bool) {}
#endif
};

}  // namespace attn

// Exports it: the library's only kernel.
#define ATTN_ADAPTER(K)                                                          \
  static const attn_kernel attn_adapted_##K = attn::plug_in<attn::Adapted<K>>(); \
  const attn_kernel* attn_kernel_at(uint32_t index) { return index == 0 ? &attn_adapted_##K : nullptr; }
