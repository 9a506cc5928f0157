// cuBLAS's matrix products on the executor: gemm in fp32, in fp16, and with the formats of cublasGemmEx, each
// for one product or a strided batch. Matrices are in column order, as in cuBLAS. Sums are in fp32, in the
// order of k; a result is rounded once to C's format.
//
// This is for sources that call cuBLAS before and after their own kernels. Only the kernels are meant to be
// judged. cublasLt has only its handle.
#pragma once

#include <stdint.h>

#include "kernels/cuda_source/cuda/host.h"
#include "kernels/executor/cuda_words.h"

enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
using cudaDataType = cudaDataType_t;

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_INVALID_VALUE = 7,
  CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_NOT_SUPPORTED = 15
};
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C };
enum cublasMath_t {
  CUBLAS_DEFAULT_MATH = 0,
  CUBLAS_TENSOR_OP_MATH = 1,
  CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3
};
enum cublasComputeType_t {
  CUBLAS_COMPUTE_16F = 64,
  CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_FAST_16F = 74,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75,
  CUBLAS_COMPUTE_32F_FAST_TF32 = 77
};
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99 };
enum cublasPointerMode_t { CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE };

struct cublasContext {
  cudaStream_t stream = nullptr;
};
using cublasHandle_t = cublasContext*;
using cublasLtHandle_t = cublasContext*;

namespace simt::blas {

inline float read(const void* matrix, int64_t at, cudaDataType_t type) {
  if (type == CUDA_R_32F) return static_cast<const float*>(matrix)[at];
  if (type == CUDA_R_16F) return __half2float(static_cast<const half*>(matrix)[at]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(matrix)[at]);
}
inline void write(void* matrix, int64_t at, cudaDataType_t type, float value) {
  if (type == CUDA_R_32F) static_cast<float*>(matrix)[at] = value;
  if (type == CUDA_R_16F) static_cast<half*>(matrix)[at] = __float2half(value);
  if (type == CUDA_R_16BF) static_cast<__nv_bfloat16*>(matrix)[at] = __float2bfloat16(value);
}

struct Matrix {
  const void* data;
  cudaDataType_t type;
  int64_t leading, stride;
  cublasOperation_t op = CUBLAS_OP_N;
  int64_t at(int64_t row, int64_t column) const {
    return op == CUBLAS_OP_N ? row + column * leading : column + row * leading;
  }
};

// C = alpha A B + beta C, `batch` times. C is not read if beta is 0.
inline cublasStatus_t multiply(int m, int n, int k, float alpha, Matrix a, Matrix b, float beta, void* c,
                               cudaDataType_t c_type, int64_t c_leading, int64_t c_stride, int batch) {
  for (const cudaDataType_t type : {a.type, b.type, c_type}) {
    if (type != CUDA_R_32F && type != CUDA_R_16F && type != CUDA_R_16BF) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (m < 0 || n < 0 || k < 0 || batch < 0) return CUBLAS_STATUS_INVALID_VALUE;
  for (int64_t entry = 0; entry < batch; ++entry) {
    for (int64_t column = 0; column < n; ++column) {
      for (int64_t row = 0; row < m; ++row) {
        float sum = 0;
        for (int64_t i = 0; i < k; ++i)
          sum += read(a.data, entry * a.stride + a.at(row, i), a.type) *
                 read(b.data, entry * b.stride + b.at(i, column), b.type);
        const int64_t at = entry * c_stride + row + column * c_leading;
        write(c, at, c_type, beta == 0 ? alpha * sum : alpha * sum + beta * read(c, at, c_type));
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}

// The value that alpha or beta points to.
inline float factor(const void* value, cublasComputeType_t type) {
  return type == CUBLAS_COMPUTE_16F ? __half2float(*static_cast<const half*>(value))
                                    : *static_cast<const float*>(value);
}

}  // namespace simt::blas

inline cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) { return cublasCreate(handle); }
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return cublasDestroy(handle); }
inline cublasStatus_t cublasSetStream(cublasHandle_t, cudaStream_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetWorkspace(cublasHandle_t, void*, size_t) { return CUBLAS_STATUS_SUCCESS; }
inline cublasStatus_t cublasSetPointerMode(cublasHandle_t, cublasPointerMode_t mode) {
  return mode == CUBLAS_POINTER_MODE_HOST ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
inline const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS" : "an error of cuBLAS";
}

inline cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n, int k, const void* alpha,
    const void* a, cudaDataType_t a_type, int lda, long long a_stride, const void* b, cudaDataType_t b_type,
    int ldb, long long b_stride, const void* beta, void* c, cudaDataType_t c_type, int ldc, long long c_stride,
    int batch, cublasComputeType_t type, cublasGemmAlgo_t = CUBLAS_GEMM_DEFAULT) {
  return simt::blas::multiply(m, n, k, simt::blas::factor(alpha, type), {a, a_type, lda, a_stride, op_a},
                              {b, b_type, ldb, b_stride, op_b}, simt::blas::factor(beta, type), c, c_type, ldc,
                              c_stride, batch);
}
inline cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                   int n, int k, const void* alpha, const void* a, cudaDataType_t a_type,
                                   int lda, const void* b, cudaDataType_t b_type, int ldb, const void* beta,
                                   void* c, cudaDataType_t c_type, int ldc, cublasComputeType_t type,
                                   cublasGemmAlgo_t algo = CUBLAS_GEMM_DEFAULT) {
  return cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, alpha, a, a_type, lda, 0, b, b_type, ldb, 0,
                                    beta, c, c_type, ldc, 0, 1, type, algo);
}
inline cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a,
                                                cublasOperation_t op_b, int m, int n, int k, const float* alpha,
                                                const float* a, int lda, long long a_stride, const float* b,
                                                int ldb, long long b_stride, const float* beta, float* c,
                                                int ldc, long long c_stride, int batch) {
  return cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, alpha, a, CUDA_R_32F, lda, a_stride, b,
                                    CUDA_R_32F, ldb, b_stride, beta, c, CUDA_R_32F, ldc, c_stride, batch,
                                    CUBLAS_COMPUTE_32F);
}
inline cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                  int n, int k, const float* alpha, const float* a, int lda, const float* b,
                                  int ldb, const float* beta, float* c, int ldc) {
  return cublasSgemmStridedBatched(handle, op_a, op_b, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0,
                                   1);
}
inline cublasStatus_t cublasHgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a,
                                                cublasOperation_t op_b, int m, int n, int k, const half* alpha,
                                                const half* a, int lda, long long a_stride, const half* b,
                                                int ldb, long long b_stride, const half* beta, half* c, int ldc,
                                                long long c_stride, int batch) {
  return cublasGemmStridedBatchedEx(handle, op_a, op_b, m, n, k, alpha, a, CUDA_R_16F, lda, a_stride, b,
                                    CUDA_R_16F, ldb, b_stride, beta, c, CUDA_R_16F, ldc, c_stride, batch,
                                    CUBLAS_COMPUTE_16F);
}
inline cublasStatus_t cublasHgemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m,
                                  int n, int k, const half* alpha, const half* a, int lda, const half* b,
                                  int ldb, const half* beta, half* c, int ldc) {
  return cublasHgemmStridedBatched(handle, op_a, op_b, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0,
                                   1);
}
