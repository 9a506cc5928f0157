// The PTX of wgmma.h's products, one block for each width, because each register must be a separate operand in
// PTX. Only wgmma.h includes this file, which undefines its macros at the end.
#pragma once

namespace attn {

template <class T, int M>
__device__ void wgmma_ss(float (&d)[M][4], WgmmaOperand a, WgmmaOperand b, bool accumulate);
template <class T, int M>
__device__ void wgmma_tt(float (&d)[M][4], WgmmaOperand a, WgmmaOperand b, bool accumulate);
template <class T, int M>
__device__ void wgmma_rs(float (&d)[M][4], const uint32_t (&a)[4], WgmmaOperand b, bool accumulate);

// Operands of 16, 64 and 256 columns, and their names.
#define ATTN_D8(d, n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define ATTN_D16(d, n) ATTN_D8(d, n), ATTN_D8(d, n + 1)
#define ATTN_D64(d, n) ATTN_D16(d, n), ATTN_D16(d, n + 2), ATTN_D16(d, n + 4), ATTN_D16(d, n + 6)
#define ATTN_D80(d) ATTN_D64(d, 0), ATTN_D16(d, 8)
#define ATTN_D96(d) ATTN_D64(d, 0), ATTN_D16(d, 8), ATTN_D16(d, 10)
#define ATTN_D128(d) ATTN_D64(d, 0), ATTN_D64(d, 8)
#define ATTN_D256(d) ATTN_D64(d, 0), ATTN_D64(d, 8), ATTN_D64(d, 16), ATTN_D64(d, 24)
#define ATTN_N64                                                           \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ATTN_N80 ATTN_N64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define ATTN_N96 ATTN_N80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define ATTN_N128_REST                                                               \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define ATTN_N128 ATTN_N64 ", " ATTN_N128_REST
#define ATTN_N256_REST                                                                           \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define ATTN_N256 ATTN_N128 ", " ATTN_N256_REST

// P0, P1, ...: the numbers of the asm operands after D. TRANSPOSED: of A and of B.
#define ATTN_SHARED(NAME, TRANSPOSED, T, TYPE, N, NAMES, P0, P1, P2, ...)                             \
  template <>                                                                                         \
  __device__ __forceinline__ void NAME<T, N / 8>(float(&d)[N / 8][4], WgmmaOperand a, WgmmaOperand b, \
                                                 bool accumulate) {                                   \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P2                                             \
                 ", 0;\n"                                                                             \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" NAMES "}, %" #P0 \
                 ", %" #P1 ", p, 1, 1, " TRANSPOSED ";\n}\n"                                          \
                 : __VA_ARGS__                                                                        \
                 : "l"(a.bits), "l"(b.bits), "r"(static_cast<int>(accumulate)));                      \
  }
#define ATTN_SS(...) ATTN_SHARED(wgmma_ss, "0, 0", __VA_ARGS__)
#define ATTN_TT(...) ATTN_SHARED(wgmma_tt, "1, 1", __VA_ARGS__)
#define ATTN_RS(T, TYPE, N, NAMES, P0, P1, P2, P3, P4, P5, ...)                                         \
  template <>                                                                                           \
  __device__ __forceinline__ void wgmma_rs<T, N / 8>(float(&d)[N / 8][4], const uint32_t(&a)[4],        \
                                                     WgmmaOperand b, bool accumulate) {                 \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #P5                                               \
                 ", 0;\n"                                                                               \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" NAMES "}, {%" #P0 \
                 ", %" #P1 ", %" #P2 ", %" #P3 "}, %" #P4 ", p, 1, 1, 1;\n}\n"                          \
                 : __VA_ARGS__                                                                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b.bits),                             \
                   "r"(static_cast<int>(accumulate)));                                                  \
  }
#define ATTN_BOTH_FORMATS(KIND, ...) ATTN_##KIND(F16, "f16", __VA_ARGS__) ATTN_##KIND(BF16, "bf16", __VA_ARGS__)

ATTN_BOTH_FORMATS(SS, 64, ATTN_N64, 32, 33, 34, ATTN_D64(d, 0))
ATTN_BOTH_FORMATS(SS, 80, ATTN_N80, 40, 41, 42, ATTN_D80(d))
ATTN_BOTH_FORMATS(SS, 96, ATTN_N96, 48, 49, 50, ATTN_D96(d))
ATTN_BOTH_FORMATS(SS, 128, ATTN_N128, 64, 65, 66, ATTN_D128(d))
ATTN_BOTH_FORMATS(SS, 256, ATTN_N256, 128, 129, 130, ATTN_D256(d))
ATTN_BOTH_FORMATS(TT, 64, ATTN_N64, 32, 33, 34, ATTN_D64(d, 0))
ATTN_BOTH_FORMATS(RS, 64, ATTN_N64, 32, 33, 34, 35, 36, 37, ATTN_D64(d, 0))
ATTN_BOTH_FORMATS(RS, 80, ATTN_N80, 40, 41, 42, 43, 44, 45, ATTN_D80(d))
ATTN_BOTH_FORMATS(RS, 96, ATTN_N96, 48, 49, 50, 51, 52, 53, ATTN_D96(d))
ATTN_BOTH_FORMATS(RS, 128, ATTN_N128, 64, 65, 66, 67, 68, 69, ATTN_D128(d))
ATTN_BOTH_FORMATS(RS, 256, ATTN_N256, 128, 129, 130, 131, 132, 133, ATTN_D256(d))

#undef ATTN_D8
#undef ATTN_D16
#undef ATTN_D64
#undef ATTN_D80
#undef ATTN_D96
#undef ATTN_D128
#undef ATTN_D256
#undef ATTN_N64
#undef ATTN_N80
#undef ATTN_N96
#undef ATTN_N128_REST
#undef ATTN_N128
#undef ATTN_N256_REST
#undef ATTN_N256
#undef ATTN_SHARED
#undef ATTN_SS
#undef ATTN_TT
#undef ATTN_RS
#undef ATTN_BOTH_FORMATS

}  // namespace attn
