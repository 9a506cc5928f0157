// CUDA's short vectors: fields x y z w, make_float4(...), and CUDA's alignment.
#ifndef ATTNFUZZ_KERNELS_SIMT_CUDA_VECTOR_H_
#define ATTNFUZZ_KERNELS_SIMT_CUDA_VECTOR_H_

#include "kernels/simt/cuda.h"

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

using char1 = simt::Vector1<signed char>;
using char2 = simt::Vector2<signed char>;
using char3 = simt::Vector3<signed char>;
using char4 = simt::Vector4<signed char>;
using uchar1 = simt::Vector1<unsigned char>;
using uchar2 = simt::Vector2<unsigned char>;
using uchar3 = simt::Vector3<unsigned char>;
using uchar4 = simt::Vector4<unsigned char>;
using short1 = simt::Vector1<short>;
using short2 = simt::Vector2<short>;
using short3 = simt::Vector3<short>;
using short4 = simt::Vector4<short>;
using ushort1 = simt::Vector1<unsigned short>;
using ushort2 = simt::Vector2<unsigned short>;
using ushort3 = simt::Vector3<unsigned short>;
using ushort4 = simt::Vector4<unsigned short>;
using int1 = simt::Vector1<int>;
using int2 = simt::Vector2<int>;
using int3 = simt::Vector3<int>;
using int4 = simt::Vector4<int>;
using uint1 = simt::Vector1<unsigned>;
using uint2 = simt::Vector2<unsigned>;
using uint4 = simt::Vector4<unsigned>;
using float1 = simt::Vector1<float>;
using float2 = simt::Vector2<float>;
using float3 = simt::Vector3<float>;
using float4 = simt::Vector4<float>;
using double1 = simt::Vector1<double>;
using double2 = simt::Vector2<double>;
using double3 = simt::Vector3<double>;
using double4 = simt::Vector4<double>;
using longlong1 = simt::Vector1<long long>;
using longlong2 = simt::Vector2<long long>;
using longlong3 = simt::Vector3<long long>;
using longlong4 = simt::Vector4<long long>;
using ulonglong1 = simt::Vector1<unsigned long long>;
using ulonglong2 = simt::Vector2<unsigned long long>;
using ulonglong3 = simt::Vector3<unsigned long long>;
using ulonglong4 = simt::Vector4<unsigned long long>;
using long1 = simt::Vector1<long>;
using long2 = simt::Vector2<long>;
using long3 = simt::Vector3<long>;
using long4 = simt::Vector4<long>;
using ulong1 = simt::Vector1<unsigned long>;
using ulong2 = simt::Vector2<unsigned long>;
using ulong3 = simt::Vector3<unsigned long>;
using ulong4 = simt::Vector4<unsigned long>;

inline char1 make_char1(signed char x) { return {x}; }
inline char2 make_char2(signed char x, signed char y) { return {x, y}; }
inline char3 make_char3(signed char x, signed char y, signed char z) { return {x, y, z}; }
inline char4 make_char4(signed char x, signed char y, signed char z, signed char w) { return {x, y, z, w}; }
inline uchar1 make_uchar1(unsigned char x) { return {x}; }
inline uchar2 make_uchar2(unsigned char x, unsigned char y) { return {x, y}; }
inline uchar3 make_uchar3(unsigned char x, unsigned char y, unsigned char z) { return {x, y, z}; }
inline uchar4 make_uchar4(unsigned char x, unsigned char y, unsigned char z, unsigned char w) {
  return {x, y, z, w};
}
inline short1 make_short1(short x) { return {x}; }
inline short2 make_short2(short x, short y) { return {x, y}; }
inline short3 make_short3(short x, short y, short z) { return {x, y, z}; }
inline short4 make_short4(short x, short y, short z, short w) { return {x, y, z, w}; }
inline ushort1 make_ushort1(unsigned short x) { return {x}; }
inline ushort2 make_ushort2(unsigned short x, unsigned short y) { return {x, y}; }
inline ushort3 make_ushort3(unsigned short x, unsigned short y, unsigned short z) { return {x, y, z}; }
inline ushort4 make_ushort4(unsigned short x, unsigned short y, unsigned short z, unsigned short w) {
  return {x, y, z, w};
}
inline int1 make_int1(int x) { return {x}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int3 make_int3(int x, int y, int z) { return {x, y, z}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline uint1 make_uint1(unsigned x) { return {x}; }
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float1 make_float1(float x) { return {x}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline double1 make_double1(double x) { return {x}; }
inline double2 make_double2(double x, double y) { return {x, y}; }
inline double3 make_double3(double x, double y, double z) { return {x, y, z}; }
inline double4 make_double4(double x, double y, double z, double w) { return {x, y, z, w}; }
inline longlong1 make_longlong1(long long x) { return {x}; }
inline longlong2 make_longlong2(long long x, long long y) { return {x, y}; }
inline longlong3 make_longlong3(long long x, long long y, long long z) { return {x, y, z}; }
inline longlong4 make_longlong4(long long x, long long y, long long z, long long w) { return {x, y, z, w}; }
inline ulonglong1 make_ulonglong1(unsigned long long x) { return {x}; }
inline ulonglong2 make_ulonglong2(unsigned long long x, unsigned long long y) { return {x, y}; }
inline ulonglong3 make_ulonglong3(unsigned long long x, unsigned long long y, unsigned long long z) {
  return {x, y, z};
}
inline ulonglong4 make_ulonglong4(unsigned long long x, unsigned long long y, unsigned long long z,
                                  unsigned long long w) {
  return {x, y, z, w};
}
inline long1 make_long1(long x) { return {x}; }
inline long2 make_long2(long x, long y) { return {x, y}; }
inline long3 make_long3(long x, long y, long z) { return {x, y, z}; }
inline long4 make_long4(long x, long y, long z, long w) { return {x, y, z, w}; }
inline ulong1 make_ulong1(unsigned long x) { return {x}; }
inline ulong2 make_ulong2(unsigned long x, unsigned long y) { return {x, y}; }
inline ulong3 make_ulong3(unsigned long x, unsigned long y, unsigned long z) { return {x, y, z}; }
inline ulong4 make_ulong4(unsigned long x, unsigned long y, unsigned long z, unsigned long w) {
  return {x, y, z, w};
}

#endif  // ATTNFUZZ_KERNELS_SIMT_CUDA_VECTOR_H_
