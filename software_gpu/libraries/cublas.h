// SPDX-License-Identifier: Apache-2.0
//
// The supported part of cuBLAS's C interface: matrix products. A handle serves one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/driver/driver_types.h"

extern "C" {

struct cublasContext;
using cublasHandle_t = cublasContext*;

int cublasCreate_v2(cublasHandle_t* handle);
int cublasDestroy_v2(cublasHandle_t handle);
int cublasSetStream_v2(cublasHandle_t handle, callout::internal::cuda::CUstream stream);
int cublasSetPointerMode_v2(cublasHandle_t handle, int mode);
int cublasSgemm_v2(cublasHandle_t handle, int transpose_a, int transpose_b, int rows, int columns, int inner,
                   const void* alpha, const void* a, int leading_a, const void* b, int leading_b, const void* beta,
                   void* c, int leading_c);
int cublasGemmEx(cublasHandle_t handle, int transpose_a, int transpose_b, int rows, int columns, int inner,
                 const void* alpha, const void* a, int type_a, int leading_a, const void* b, int type_b, int leading_b,
                 const void* beta, void* c, int type_c, int leading_c, int compute, int algorithm);
int cublasGemmStridedBatchedEx(cublasHandle_t handle, int transpose_a, int transpose_b, int rows, int columns,
                               int inner, const void* alpha, const void* a, int type_a, int leading_a,
                               long long stride_a, const void* b, int type_b, int leading_b, long long stride_b,
                               const void* beta, void* c, int type_c, int leading_c, long long stride_c, int batch,
                               int compute, int algorithm);
}
