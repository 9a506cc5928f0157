// <mma.h> on the executor: nvcuda::wmma. A product is a collective of the warp.
//
// CUDA does not say which lane holds which element of a fragment. Element-wise work on fragments gives right
// results in any layout. Code that relies on a GPU's layout of A or B gives wrong ones here, because the layout
// differs: each lane holds consecutive elements in row-major order, for A and B alike, and if kTwice, lanes l
// and l + 16 hold the same elements. Accumulators of 16 x 16 have the layout of mma.m16n8k16's. Sums are fp32,
// rounded to nearest or truncated as the schedule says (schedule.h). A product of precision::tf32 ignores the
// low 13 bits of its factors, so factors without __float_to_tf32() are truncated.
#pragma once

#include "kernels/cuda_source/cuda/api.h"
#include "kernels/primitives/matrix.h"

namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
}  // namespace precision

namespace detail {

template <class T>
struct Stored {
  using type = T;
};
template <>
struct Stored<precision::tf32> {
  using type = float;
};

// The rows and columns of a matrix by its use.
template <class Use, int M, int N, int K>
struct Extent {
  static constexpr int kRows = M, kColumns = N;
};
template <int M, int N, int K>
struct Extent<matrix_a, M, N, K> {
  static constexpr int kRows = M, kColumns = K;
};
template <int M, int N, int K>
struct Extent<matrix_b, M, N, K> {
  static constexpr int kRows = K, kColumns = N;
};

}  // namespace detail

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
  using element_type = typename detail::Stored<T>::type;
  using Extent = detail::Extent<Use, M, N, K>;
  static constexpr bool kTf32 = std::is_same_v<T, precision::tf32>;
  static constexpr int kElements = Extent::kRows * Extent::kColumns;
  static constexpr bool kTwice = !std::is_same_v<Use, accumulator> && kElements == 256;
  static constexpr int num_elements = kTwice ? 16 : kElements / 32;
  static constexpr int num_storage_elements = num_elements;

  element_type x[num_elements];

  // The place of element i of a lane.
  struct At {
    int row, column;
  };
  static At at(int lane, int i) {
    if constexpr (std::is_same_v<Use, accumulator> && M == 16 && N == 16) {
      return {lane / 4 + 8 * (i / 2 % 2), 2 * (lane % 4) + i % 2 + 8 * (i / 4)};
    } else {
      const int linear = (kTwice ? lane % 16 : lane) * num_elements + i;
      return {linear / Extent::kColumns, linear % Extent::kColumns};
    }
  }
};

namespace detail {

// Waits for the warp, because all its lanes take part in reading and writing a fragment.
template <class F>
struct Together {
  static constexpr const char* kName = "a wmma load, store or fill";
  static void run(simt::Lanes<Together>, const simt::Meeting& meeting) {
    attn::cpu::need_lanes(meeting, kName);
  }
};

inline int lane() { return static_cast<int>(simt::current->linear % 32); }

template <class T>
inline void check_address(const T* pointer, unsigned stride, simt::Place here) {
  if (reinterpret_cast<uintptr_t>(pointer) % 32 != 0)
    simt::fault(ATTN_REPORT_ALIGNMENT, simt::current, here,
                "a wmma load or store at %p: not a multiple of 32 bytes", static_cast<const void*>(pointer));
  const unsigned multiple = 16 / sizeof(T);
  if (stride % multiple != 0)
    simt::fault(ATTN_REPORT_ALIGNMENT, simt::current, here,
                "a wmma load or store with a stride of %u: not a multiple of %u", stride, multiple);
}

template <class Fragment, class Pointer>
inline void load(Fragment& f, const Pointer* from, unsigned stride, bool by_row, simt::Place here) {
  check_address(from, stride, here);
  Together<Fragment> all;
  simt::meet(all, simt::kFullMask, here);
  for (int i = 0; i < Fragment::num_elements; ++i) {
    const auto at = Fragment::at(lane(), i);
    f.x[i] = by_row ? from[at.row * int64_t{stride} + at.column] : from[at.column * int64_t{stride} + at.row];
  }
}

template <class A, class B, class C, class D>
struct Product {
  static constexpr const char* kName = "mma_sync";
  const A* a;
  const B* b;
  const C* c;
  D* d;

  SIMT_SLOTS static void run(simt::Lanes<Product> lanes, const simt::Meeting& meeting) {
    attn::cpu::need_lanes(meeting, kName);
    constexpr int kM = C::Extent::kRows, kN = C::Extent::kColumns, kK = A::Extent::kColumns;
    float a[kM][kK], b[kK][kN], sum[kM][kN];
    for (int lane = 0; lane < 32; ++lane) {
      spread(*lanes[lane].a, lane, a);
      spread(*lanes[lane].b, lane, b);
      spread(*lanes[lane].c, lane, sum);
    }
    for (int i = 0; i < kM; ++i) {
      if (meeting.geometry->mma_truncates) {
        for (int j = 0; j < kN; ++j) {
          double exact = sum[i][j];
          for (int k = 0; k < kK; ++k) exact += static_cast<double>(a[i][k]) * b[k][j];
          uint64_t bits = __builtin_bit_cast(uint64_t, exact);
          bits &= ~((uint64_t{1} << 29) - 1);
          sum[i][j] = static_cast<float>(__builtin_bit_cast(double, bits));
        }
      } else {
        for (int k = 0; k < kK; ++k) {
          for (int j = 0; j < kN; ++j) sum[i][j] = __builtin_fmaf(a[i][k], b[k][j], sum[i][j]);
        }
      }
    }
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < D::num_elements; ++i) {
        const auto at = D::at(lane, i);
        lanes[lane].d->x[i] = static_cast<typename D::element_type>(sum[at.row][at.column]);
      }
    }
  }

  template <class Fragment, int kRows, int kColumns>
  SIMT_SLOTS static void spread(const Fragment& f, int lane, float (&to)[kRows][kColumns]) {
    for (int i = 0; i < Fragment::num_elements; ++i) {
      const auto at = Fragment::at(lane, i);
      const auto x = static_cast<float>(f.x[i]);
      to[at.row][at.column] = Fragment::kTf32 ? simt::as_tf32(x) : x;
    }
  }
};

}  // namespace detail

template <class Use, int M, int N, int K, class T, class Layout, class V>
inline void fill_fragment(fragment<Use, M, N, K, T, Layout>& f, V value) {
  for (auto& x : f.x) x = static_cast<typename fragment<Use, M, N, K, T, Layout>::element_type>(value);
}

template <class Use, int M, int N, int K, class T, class Layout>
inline void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& f,
                             const typename fragment<Use, M, N, K, T, Layout>::element_type* from,
                             unsigned stride, simt::Place here = simt::Place::now()) {
  detail::load(f, from, stride, std::is_same_v<Layout, row_major>, here);
}
template <int M, int N, int K, class T>
inline void load_matrix_sync(fragment<accumulator, M, N, K, T>& f, const T* from, unsigned stride,
                             layout_t layout, simt::Place here = simt::Place::now()) {
  detail::load(f, from, stride, layout == mem_row_major, here);
}

template <int M, int N, int K, class T>
inline void store_matrix_sync(T* to, const fragment<accumulator, M, N, K, T>& f, unsigned stride,
                              layout_t layout, simt::Place here = simt::Place::now()) {
  using Fragment = fragment<accumulator, M, N, K, T>;
  detail::check_address(to, stride, here);
  detail::Together<Fragment> all;
  simt::meet(all, simt::kFullMask, here);
  for (int i = 0; i < Fragment::num_elements; ++i) {
    const auto at = Fragment::at(detail::lane(), i);
    (layout == mem_row_major ? to[at.row * int64_t{stride} + at.column]
                             : to[at.column * int64_t{stride} + at.row]) = f.x[i];
  }
}

template <int M, int N, int K, class TA, class LA, class TB, class LB, class TC, class TD>
inline void mma_sync(fragment<accumulator, M, N, K, TD>& d, const fragment<matrix_a, M, N, K, TA, LA>& a,
                     const fragment<matrix_b, M, N, K, TB, LB>& b, const fragment<accumulator, M, N, K, TC>& c,
                     simt::Place here = simt::Place::now()) {
  detail::Product<fragment<matrix_a, M, N, K, TA, LA>, fragment<matrix_b, M, N, K, TB, LB>,
                  fragment<accumulator, M, N, K, TC>, fragment<accumulator, M, N, K, TD>>
      product{&a, &b, &c, &d};
  simt::meet(product, simt::kFullMask, here);
}

inline float __float_to_tf32(float x) {
  return __builtin_bit_cast(float, simt::round_to_tf32(__builtin_bit_cast(uint32_t, x)));
}

}  // namespace nvcuda::wmma
