// CUDA's short vectors: fields x y z w, make_float4(...), and CUDA's alignment.
#ifndef ATTNFUZZ_KERNELS_SIMT_CUDA_VECTOR_H_
#define ATTNFUZZ_KERNELS_SIMT_CUDA_VECTOR_H_

#include "kernels/simt/cuda.h"

namespace simt {

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

using char2 = simt::Vector2<signed char>;
using char4 = simt::Vector4<signed char>;
using uchar4 = simt::Vector4<unsigned char>;
using short2 = simt::Vector2<short>;
using ushort2 = simt::Vector2<unsigned short>;
using int2 = simt::Vector2<int>;
using int3 = simt::Vector3<int>;
using int4 = simt::Vector4<int>;
using uint2 = simt::Vector2<unsigned>;
using uint4 = simt::Vector4<unsigned>;
using float2 = simt::Vector2<float>;
using float3 = simt::Vector3<float>;
using float4 = simt::Vector4<float>;
using double2 = simt::Vector2<double>;

inline int2 make_int2(int x, int y) { return {x, y}; }
inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double2 make_double2(double x, double y) { return {x, y}; }

#endif  // ATTNFUZZ_KERNELS_SIMT_CUDA_VECTOR_H_
