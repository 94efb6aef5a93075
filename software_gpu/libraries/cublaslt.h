// SPDX-License-Identifier: Apache-2.0
//
// The supported part of cuBLASLt's C interface: descriptions of products, one algorithm, and its execution.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "cuda/driver/driver_types.h"

extern "C" {

struct cublasLtContext;
using cublasLtHandle_t = cublasLtContext*;

/// The attributes as the caller set them: integers of up to 8 bytes, or pointers.
struct CublasLtAttributes {
  std::map<int, uint64_t> values;
};
struct cublasLtMatmulDescOpaque : CublasLtAttributes {};
struct cublasLtMatrixLayoutOpaque : CublasLtAttributes {};
struct cublasLtMatmulPreferenceOpaque : CublasLtAttributes {};
using cublasLtMatmulDesc_t = cublasLtMatmulDescOpaque*;
using cublasLtMatrixLayout_t = cublasLtMatrixLayoutOpaque*;
using cublasLtMatmulPreference_t = cublasLtMatmulPreferenceOpaque*;

struct cublasLtMatmulAlgo_t {
  uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  size_t workspaceSize;
  int state;
  float wavesCount;
  int reserved[4];
};

int cublasLtCreate(cublasLtHandle_t* handle);
int cublasLtDestroy(cublasLtHandle_t handle);
size_t cublasLtGetVersion();
int cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, int compute, int scale);
int cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description);
int cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description, int attribute, const void* from, size_t bytes);
int cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t description, int attribute, void* to, size_t bytes,
                                   size_t* written);
int cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, int type, uint64_t rows, uint64_t columns,
                               int64_t leading);
int cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout);
int cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, int attribute, const void* from, size_t bytes);
int cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout, int attribute, void* to, size_t bytes,
                                     size_t* written);
int cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
                                   cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                   cublasLtMatmulPreference_t preference, int wanted,
                                   cublasLtMatmulHeuristicResult_t* results, int* found);
int cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void* alpha, const void* a,
                   cublasLtMatrixLayout_t layout_a, const void* b, cublasLtMatrixLayout_t layout_b, const void* beta,
                   const void* c, cublasLtMatrixLayout_t layout_c, void* d, cublasLtMatrixLayout_t layout_d,
                   const cublasLtMatmulAlgo_t* algorithm, void* workspace, size_t workspace_bytes,
                   callout::internal::cuda::CUstream stream);
}
