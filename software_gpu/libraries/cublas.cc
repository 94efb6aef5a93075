// SPDX-License-Identifier: Apache-2.0
//
// libcublas: matrix products, computed like cuBLASLt's.
#include "libraries/cublas.h"

#include <cstring>

#include "libraries/client.h"
#include "libraries/cublas_types.h"
#include "libraries/log.h"

struct cublasContext {
  callout::software_gpu::ProductKernel kernel;
  callout::internal::cuda::CUstream stream = nullptr;
  int pointer_mode = callout::software_gpu::kPointerHost;
  int math_mode = 0;
  int atomics_mode = 0;
};

namespace callout::software_gpu {
namespace {

struct Operand {
  const void* data;
  int type;
  int leading;
  long long stride;
};

// The arguments of a product. All matrices are stored by columns; c is the result, and the matrix that beta multiplies.
struct Gemm {
  int transpose_a, transpose_b;
  int64_t rows, columns, inner;
  const void *alpha, *beta;
  Operand a, b, c;
  int64_t batch = 1;
  Element scale = Element::kF32;
};

Matrix MatrixOf(const Operand& from, int64_t rows, int64_t columns, bool swapped = false) {
  return {.address = reinterpret_cast<uint64_t>(from.data),
          .type = static_cast<Element>(from.type),
          .rows = swapped ? columns : rows,
          .columns = swapped ? rows : columns,
          .leading = from.leading,
          .stride = from.stride};
}

void AddScalar(const cublasContext& handle, Element type, const void* from, Scalar& to) {
  if (handle.pointer_mode == kPointerDevice) {
    to.address = reinterpret_cast<uint64_t>(from);
  } else {
    std::memcpy(to.value, from, static_cast<size_t>(ElementBytes(type)));
  }
}

int Run(cublasHandle_t handle, const Gemm& gemm) {
  if (handle == nullptr) return kCublasNotInitialized;
  if (gemm.alpha == nullptr || gemm.beta == nullptr) return kCublasInvalidValue;
  Product product{.a = MatrixOf(gemm.a, gemm.rows, gemm.inner, gemm.transpose_a != 0),
                  .b = MatrixOf(gemm.b, gemm.inner, gemm.columns, gemm.transpose_b != 0),
                  .c = MatrixOf(gemm.c, gemm.rows, gemm.columns),
                  .d = MatrixOf(gemm.c, gemm.rows, gemm.columns),
                  .transpose_a = static_cast<Transpose>(gemm.transpose_a),
                  .transpose_b = static_cast<Transpose>(gemm.transpose_b),
                  .scale = gemm.scale,
                  .batch = gemm.batch};
  AddScalar(*handle, product.scale, gemm.alpha, product.alpha);
  AddScalar(*handle, product.scale, gemm.beta, product.beta);
  switch (Check(product)) {
    case Verdict::kInvalid:
      return kCublasInvalidValue;
    case Verdict::kUnknown:
      return Refuse("cuBLAS: a product of types " + std::to_string(gemm.a.type) + " and " +
                        std::to_string(gemm.b.type) + " to " + std::to_string(gemm.c.type),
                    kCublasNotSupported);
    case Verdict::kRight:
      break;
  }
  return handle->kernel.Launch(product, handle->stream) == 0 ? kCublasSuccess : kCublasExecutionFailed;
}

// Returns the type of alpha and beta. It is complex where c is complex, although no compute type is complex.
Element ScaleOf(int compute, int type_c) {
  const auto c = static_cast<Element>(type_c);
  if (c == Element::kC64 || c == Element::kC128) return c;
  switch (compute) {
    case kCompute16F:
    case kCompute16FPedantic:
      return Element::kF16;
    case kCompute64F:
    case kCompute64FPedantic:
    case kCompute64FEmulated:
      return Element::kF64;
    case kCompute32I:
    case kCompute32IPedantic:
      return Element::kS32;
    default:
      return Element::kF32;
  }
}

}  // namespace
}  // namespace callout::software_gpu

using namespace callout::software_gpu;  // NOLINT(google-build-using-namespace): for the C functions below

CALLOUT_LIBRARY_EXPORT int cublasCreate_v2(cublasHandle_t* handle) {
  if (handle == nullptr) return kCublasInvalidValue;
  auto kernel = ProductKernel::Load();
  if (!kernel) return kCublasNotInitialized;
  *handle = new cublasContext{std::move(*kernel)};
  return kCublasSuccess;
}

CALLOUT_LIBRARY_EXPORT int cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return kCublasSuccess;
}

CALLOUT_LIBRARY_EXPORT int cublasSetStream_v2(cublasHandle_t handle, callout::internal::cuda::CUstream stream) {
  if (handle == nullptr) return kCublasNotInitialized;
  handle->stream = stream;
  return kCublasSuccess;
}

CALLOUT_LIBRARY_EXPORT int cublasGetStream_v2(cublasHandle_t handle, callout::internal::cuda::CUstream* stream) {
  if (handle == nullptr) return kCublasNotInitialized;
  *stream = handle->stream;
  return kCublasSuccess;
}

#define CALLOUT_CUBLAS_MODE(Name, member)                                        \
  CALLOUT_LIBRARY_EXPORT int cublasSet##Name(cublasHandle_t handle, int mode) {  \
    if (handle == nullptr) return kCublasNotInitialized;                         \
    handle->member = mode;                                                       \
    return kCublasSuccess;                                                       \
  }                                                                              \
  CALLOUT_LIBRARY_EXPORT int cublasGet##Name(cublasHandle_t handle, int* mode) { \
    if (handle == nullptr) return kCublasNotInitialized;                         \
    *mode = handle->member;                                                      \
    return kCublasSuccess;                                                       \
  }
CALLOUT_CUBLAS_MODE(PointerMode_v2, pointer_mode)
CALLOUT_CUBLAS_MODE(MathMode, math_mode)
CALLOUT_CUBLAS_MODE(AtomicsMode, atomics_mode)

/// Accepts and ignores a workspace: no product needs one.
CALLOUT_LIBRARY_EXPORT int cublasSetWorkspace_v2(cublasHandle_t handle, void*, size_t) {
  return handle != nullptr ? kCublasSuccess : kCublasNotInitialized;
}

CALLOUT_LIBRARY_EXPORT int cublasGetVersion_v2(cublasHandle_t, int* version) {
  *version = CALLOUT_CUDA_MAJOR * 10000 + 100;
  return kCublasSuccess;
}

CALLOUT_LIBRARY_EXPORT int cublasGetProperty(int which, int* value) {
  constexpr int kVersion[] = {CALLOUT_CUDA_MAJOR, 1, 0};
  if (which < 0 || which > 2) return kCublasInvalidValue;
  *value = kVersion[which];
  return kCublasSuccess;
}

CALLOUT_LIBRARY_EXPORT const char* cublasGetStatusName(int status) {
  return status == kCublasSuccess ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_NOT_SUPPORTED";
}

CALLOUT_LIBRARY_EXPORT const char* cublasGetStatusString(int status) {
  return status == kCublasSuccess ? "success" : "refused by the software GPU's cuBLAS";
}

#define CALLOUT_CUBLAS_GEMM(letter, type)                                                                           \
  CALLOUT_LIBRARY_EXPORT int cublas##letter##gemm_v2(                                                               \
      cublasHandle_t handle, int transpose_a, int transpose_b, int rows, int columns, int inner, const void* alpha, \
      const void* a, int leading_a, const void* b, int leading_b, const void* beta, void* c, int leading_c) {       \
    const int number = static_cast<int>(type);                                                                      \
    return Run(handle, {transpose_a,                                                                                \
                        transpose_b,                                                                                \
                        rows,                                                                                       \
                        columns,                                                                                    \
                        inner,                                                                                      \
                        alpha,                                                                                      \
                        beta,                                                                                       \
                        {a, number, leading_a, 0},                                                                  \
                        {b, number, leading_b, 0},                                                                  \
                        {c, number, leading_c, 0},                                                                  \
                        1,                                                                                          \
                        type});                                                                                     \
  }                                                                                                                 \
  CALLOUT_LIBRARY_EXPORT int cublas##letter##gemmStridedBatched(                                                    \
      cublasHandle_t handle, int transpose_a, int transpose_b, int rows, int columns, int inner, const void* alpha, \
      const void* a, int leading_a, long long stride_a, const void* b, int leading_b, long long stride_b,           \
      const void* beta, void* c, int leading_c, long long stride_c, int batch) {                                    \
    const int number = static_cast<int>(type);                                                                      \
    return Run(handle, {transpose_a,                                                                                \
                        transpose_b,                                                                                \
                        rows,                                                                                       \
                        columns,                                                                                    \
                        inner,                                                                                      \
                        alpha,                                                                                      \
                        beta,                                                                                       \
                        {a, number, leading_a, stride_a},                                                           \
                        {b, number, leading_b, stride_b},                                                           \
                        {c, number, leading_c, stride_c},                                                           \
                        batch,                                                                                      \
                        type});                                                                                     \
  }
CALLOUT_CUBLAS_GEMM(S, Element::kF32)
CALLOUT_CUBLAS_GEMM(D, Element::kF64)
CALLOUT_CUBLAS_GEMM(C, Element::kC64)
CALLOUT_CUBLAS_GEMM(Z, Element::kC128)

CALLOUT_LIBRARY_EXPORT int cublasGemmEx(cublasHandle_t handle, int transpose_a, int transpose_b, int rows, int columns,
                                        int inner, const void* alpha, const void* a, int type_a, int leading_a,
                                        const void* b, int type_b, int leading_b, const void* beta, void* c, int type_c,
                                        int leading_c, int compute, int) {
  return Run(handle, {transpose_a,
                      transpose_b,
                      rows,
                      columns,
                      inner,
                      alpha,
                      beta,
                      {a, type_a, leading_a, 0},
                      {b, type_b, leading_b, 0},
                      {c, type_c, leading_c, 0},
                      1,
                      ScaleOf(compute, type_c)});
}

CALLOUT_LIBRARY_EXPORT int cublasGemmStridedBatchedEx(cublasHandle_t handle, int transpose_a, int transpose_b, int rows,
                                                      int columns, int inner, const void* alpha, const void* a,
                                                      int type_a, int leading_a, long long stride_a, const void* b,
                                                      int type_b, int leading_b, long long stride_b, const void* beta,
                                                      void* c, int type_c, int leading_c, long long stride_c, int batch,
                                                      int compute, int) {
  return Run(handle, {transpose_a,
                      transpose_b,
                      rows,
                      columns,
                      inner,
                      alpha,
                      beta,
                      {a, type_a, leading_a, stride_a},
                      {b, type_b, leading_b, stride_b},
                      {c, type_c, leading_c, stride_c},
                      batch,
                      ScaleOf(compute, type_c)});
}
