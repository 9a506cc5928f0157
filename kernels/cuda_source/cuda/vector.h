// CUDA's short vectors: fields x y z w, make_float4(...), and CUDA's alignment.
#pragma once

#include "kernels/executor/cuda_words.h"

namespace simt {

template <class T>
struct Vector1 {
  T x;
};

template <class T>
struct alignas(2 * sizeof(T)) Vector2 {
  T x, y;
};

template <class T>
struct Vector3 {
  T x, y, z;
};

template <class T>
struct alignas(sizeof(T) < 4 ? 4 * sizeof(T) : 16) Vector4 {
  T x, y, z, w;
};

}  // namespace simt

// The vectors of a type and the functions that make them. uint3 is in cuda_words.h, because threadIdx is one.
#define SIMT_VECTORS_1_2_4(name, T)                          \
  using name##1 = simt::Vector1<T>;                          \
  using name##2 = simt::Vector2<T>;                          \
  using name##4 = simt::Vector4<T>;                          \
  inline name##1 make_##name##1(T x) { return {x}; }         \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; } \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
#define SIMT_VECTORS(name, T)       \
  SIMT_VECTORS_1_2_4(name, T)       \
  using name##3 = simt::Vector3<T>; \
  inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }

SIMT_VECTORS(char, signed char)
SIMT_VECTORS(uchar, unsigned char)
SIMT_VECTORS(short, short)
SIMT_VECTORS(ushort, unsigned short)
SIMT_VECTORS(int, int)
SIMT_VECTORS_1_2_4(uint, unsigned)
SIMT_VECTORS(long, long)
SIMT_VECTORS(ulong, unsigned long)
SIMT_VECTORS(longlong, long long)
SIMT_VECTORS(ulonglong, unsigned long long)
SIMT_VECTORS(float, float)
SIMT_VECTORS(double, double)
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

#undef SIMT_VECTORS
#undef SIMT_VECTORS_1_2_4
