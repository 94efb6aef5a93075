// SPDX-License-Identifier: Apache-2.0
//
// libcublasLt, with one algorithm, which is a kernel of the device.
#include "libraries/cublaslt.h"

#include <cstring>
#include <initializer_list>

#include "libraries/client.h"
#include "libraries/cublas_types.h"
#include "libraries/log.h"

struct cublasLtContext {
  callout::software_gpu::ProductKernel kernel;
};

namespace callout::software_gpu {
namespace {

template <typename T = int64_t>
T Get(const CublasLtAttributes& from, int attribute, T otherwise = {}) {
  const auto found = from.values.find(attribute);
  return found != from.values.end() ? static_cast<T>(found->second) : otherwise;
}

// Sets an attribute. Integers of less than 8 bytes are signed 32-bit numbers, except for one attribute, a compute type,
// which has one byte.
int Set(CublasLtAttributes* to, std::initializer_list<int> known, int attribute, const void* from, size_t bytes) {
  if (to == nullptr || from == nullptr || (bytes != 1 && bytes != 4 && bytes != 8)) return kCublasInvalidValue;
  bool found = false;
  for (const int one : known) found |= one == attribute;
  if (!found) return Refuse("cuBLASLt's attribute " + std::to_string(attribute), kCublasNotSupported);
  int64_t value = 0;
  if (bytes == 4) {
    int32_t narrow = 0;
    std::memcpy(&narrow, from, 4);
    value = narrow;
  } else {
    std::memcpy(&value, from, bytes);
  }
  to->values[attribute] = static_cast<uint64_t>(value);
  return kCublasSuccess;
}

int Read(const CublasLtAttributes* from, int attribute, void* to, size_t bytes, size_t* written) {
  if (from == nullptr) return kCublasInvalidValue;
  const auto found = from->values.find(attribute);
  if (found == from->values.end()) return kCublasNotSupported;
  if (written != nullptr) *written = bytes;
  if (bytes == 0) return kCublasSuccess;
  if (to == nullptr || bytes > 8) return kCublasInvalidValue;
  std::memcpy(to, &found->second, bytes);
  return kCublasSuccess;
}

// Returns the matrix of a layout. Empty for unsupported orders of elements.
std::optional<Matrix> MatrixOf(const cublasLtMatrixLayoutOpaque& layout, const void* data) {
  const auto order = Get<int>(layout, kLayoutOrder, kOrderColumns);
  if (order != kOrderColumns && order != kOrderRows) return {};
  return Matrix{.address = reinterpret_cast<uint64_t>(data),
                .type = static_cast<Element>(Get<int>(layout, kLayoutType)),
                .row_major = order == kOrderRows ? 1 : 0,
                .rows = Get(layout, kLayoutRows),
                .columns = Get(layout, kLayoutColumns),
                .leading = Get(layout, kLayoutLeading),
                .stride = Get(layout, kLayoutStride)};
}

struct Layouts {
  cublasLtMatrixLayout_t a, b, c, d;
};

void AddEpilogue(const cublasLtMatmulDescOpaque& from, Product& product) {
  const Element type = product.d.type;
  product.epilogue = Get<int>(from, kMatmulEpilogue, kEpilogueNothing);
  const auto type_of = [&](int attribute) {
    const int set = Get<int>(from, attribute, kUnset);
    return set == kUnset ? type : static_cast<Element>(set);
  };
  product.bias = {.address = Get<uint64_t>(from, kMatmulBiasPointer),
                  .type = type_of(kMatmulBiasType),
                  .stride = Get(from, kMatmulBiasStride)};
  product.aux = {.address = Get<uint64_t>(from, kMatmulAuxPointer),
                 .type = type_of(kMatmulAuxType),
                 .leading = Get(from, kMatmulAuxLeading),
                 .stride = Get(from, kMatmulAuxStride)};
  product.scale_a = Get<uint64_t>(from, kMatmulScaleA);
  product.scale_b = Get<uint64_t>(from, kMatmulScaleB);
  product.scale_c = Get<uint64_t>(from, kMatmulScaleC);
  product.scale_d = Get<uint64_t>(from, kMatmulScaleD);
  product.largest_of_d = Get<uint64_t>(from, kMatmulLargestD);
}

// Fills `product` without its addresses and scalars.
int MakeProduct(const cublasLtMatmulDescOpaque& from, const Layouts& layouts, Product& product) {
  const auto a = MatrixOf(*layouts.a, nullptr);
  const auto b = MatrixOf(*layouts.b, nullptr);
  const auto c = MatrixOf(*layouts.c, nullptr);
  const auto d = MatrixOf(*layouts.d, nullptr);
  if (!a || !b || !c || !d) return Refuse("cuBLASLt: an order other than by columns or rows", kCublasNotSupported);
  if (Get<int>(from, kMatmulTransposeC) != 0 || Get<int>(from, kMatmulFillMode, kFillFull) != kFillFull) {
    return Refuse("cuBLASLt: a transposed c, or one half of a matrix", kCublasNotSupported);
  }
  product.a = *a;
  product.b = *b;
  product.c = *c;
  product.d = *d;
  product.transpose_a = static_cast<Transpose>(Get<int>(from, kMatmulTransposeA));
  product.transpose_b = static_cast<Transpose>(Get<int>(from, kMatmulTransposeB));
  product.scale = static_cast<Element>(Get<int>(from, kMatmulScaleType));
  product.batch = Get(*layouts.d, kLayoutBatch, int64_t{1});
  for (const cublasLtMatrixLayout_t other : {layouts.a, layouts.b, layouts.c}) {
    if (Get(*other, kLayoutBatch, int64_t{1}) != product.batch) return kCublasInvalidValue;
  }
  AddEpilogue(from, product);
  switch (Check(product)) {
    case Verdict::kInvalid:
      return kCublasInvalidValue;
    case Verdict::kUnknown:
      return kCublasNotSupported;
    case Verdict::kRight:
      return kCublasSuccess;
  }
  return kCublasNotSupported;
}

// Describes the product for messages, with types as numbers of cudaDataType.
std::string Describe(const Product& product) {
  const auto number = [](Element type) { return std::to_string(static_cast<int>(type)); };
  return "cuBLASLt: a product of types " + number(product.a.type) + " and " + number(product.b.type) + " to " +
         number(product.d.type) + " in " + number(product.scale) + " with epilogue " + std::to_string(product.epilogue);
}

bool AddScalar(int mode, Element type, const void* from, Scalar& to) {
  if (from == nullptr) return false;
  if (mode == kPointerDevice) {
    to.address = reinterpret_cast<uint64_t>(from);
  } else {
    std::memcpy(to.value, from, static_cast<size_t>(ElementBytes(type)));
  }
  return true;
}

}  // namespace
}  // namespace callout::software_gpu

using namespace callout::software_gpu;  // NOLINT(google-build-using-namespace): for the C functions below

CALLOUT_LIBRARY_EXPORT int cublasLtCreate(cublasLtHandle_t* handle) {
  if (handle == nullptr) return kCublasInvalidValue;
  auto kernel = ProductKernel::Load();
  if (!kernel) return kCublasNotInitialized;
  *handle = new cublasLtContext{std::move(*kernel)};
  return kCublasSuccess;
}

CALLOUT_LIBRARY_EXPORT int cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return kCublasSuccess;
}

CALLOUT_LIBRARY_EXPORT size_t cublasLtGetVersion() { return CALLOUT_CUDA_MAJOR * 10000 + 100; }

CALLOUT_LIBRARY_EXPORT const char* cublasLtGetStatusName(int status) {
  return status == kCublasSuccess ? "CUBLAS_STATUS_SUCCESS" : "CUBLAS_STATUS_NOT_SUPPORTED";
}

CALLOUT_LIBRARY_EXPORT const char* cublasLtGetStatusString(int status) {
  return status == kCublasSuccess ? "success" : "refused by the software GPU's cuBLASLt";
}

CALLOUT_LIBRARY_EXPORT int cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, int compute, int scale) {
  if (description == nullptr) return kCublasInvalidValue;
  *description = new cublasLtMatmulDescOpaque;
  (*description)->values = {{kMatmulComputeType, compute}, {kMatmulScaleType, scale}};
  return kCublasSuccess;
}

CALLOUT_LIBRARY_EXPORT int cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete description;
  return kCublasSuccess;
}

CALLOUT_LIBRARY_EXPORT int cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description, int attribute,
                                                          const void* from, size_t bytes) {
  return Set(description,
             {kMatmulComputeType,      kMatmulScaleType,  kMatmulPointerMode, kMatmulTransposeA,      kMatmulTransposeB,
              kMatmulTransposeC,       kMatmulFillMode,   kMatmulEpilogue,    kMatmulBiasPointer,     kMatmulBiasStride,
              kMatmulAuxPointer,       kMatmulAuxLeading, kMatmulAuxStride,   kMatmulMultiprocessors, kMatmulScaleA,
              kMatmulScaleB,           kMatmulScaleC,     kMatmulScaleD,      kMatmulLargestD,        kMatmulAuxType,
              kMatmulFastAccumulation, kMatmulBiasType},
             attribute, from, bytes);
}

CALLOUT_LIBRARY_EXPORT int cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t description, int attribute, void* to,
                                                          size_t bytes, size_t* written) {
  return Read(description, attribute, to, bytes, written);
}

CALLOUT_LIBRARY_EXPORT int cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, int type, uint64_t rows,
                                                      uint64_t columns, int64_t leading) {
  if (layout == nullptr) return kCublasInvalidValue;
  *layout = new cublasLtMatrixLayoutOpaque;
  (*layout)->values = {{kLayoutType, type},       {kLayoutOrder, kOrderColumns}, {kLayoutRows, rows},
                       {kLayoutColumns, columns}, {kLayoutLeading, leading},     {kLayoutBatch, 1},
                       {kLayoutStride, 0}};
  return kCublasSuccess;
}

CALLOUT_LIBRARY_EXPORT int cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return kCublasSuccess;
}

CALLOUT_LIBRARY_EXPORT int cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, int attribute,
                                                            const void* from, size_t bytes) {
  return Set(layout,
             {kLayoutType, kLayoutOrder, kLayoutRows, kLayoutColumns, kLayoutLeading, kLayoutBatch, kLayoutStride},
             attribute, from, bytes);
}

CALLOUT_LIBRARY_EXPORT int cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout, int attribute, void* to,
                                                            size_t bytes, size_t* written) {
  return Read(layout, attribute, to, bytes, written);
}

CALLOUT_LIBRARY_EXPORT int cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  if (preference == nullptr) return kCublasInvalidValue;
  *preference = new cublasLtMatmulPreferenceOpaque;
  return kCublasSuccess;
}

CALLOUT_LIBRARY_EXPORT int cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return kCublasSuccess;
}

/// Ignores the preference: the one algorithm needs no workspace and no alignment.
CALLOUT_LIBRARY_EXPORT int cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, int,
                                                                const void* from, size_t) {
  return preference == nullptr || from == nullptr ? kCublasInvalidValue : kCublasSuccess;
}

CALLOUT_LIBRARY_EXPORT int cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                                          cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                          cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                          cublasLtMatmulPreference_t preference, int wanted,
                                                          cublasLtMatmulHeuristicResult_t* results, int* found) {
  if (handle == nullptr || description == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr ||
      preference == nullptr || wanted < 1 || results == nullptr || found == nullptr) {
    return kCublasInvalidValue;
  }
  *found = 0;
  Product product;
  if (const int status = MakeProduct(*description, {a, b, c, d}, product); status != kCublasSuccess) {
    return status == kCublasNotSupported ? Refuse(Describe(product), status) : status;
  }
  *results = {};
  results->wavesCount = 1;
  *found = 1;
  return kCublasSuccess;
}

CALLOUT_LIBRARY_EXPORT int cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm, int, void* to,
                                                                size_t bytes, size_t* written) {
  if (algorithm == nullptr || to == nullptr) return kCublasInvalidValue;
  std::memset(to, 0, bytes);
  if (written != nullptr) *written = bytes;
  return kCublasSuccess;
}

CALLOUT_LIBRARY_EXPORT int cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void* alpha,
                                          const void* a, cublasLtMatrixLayout_t layout_a, const void* b,
                                          cublasLtMatrixLayout_t layout_b, const void* beta, const void* c,
                                          cublasLtMatrixLayout_t layout_c, void* d, cublasLtMatrixLayout_t layout_d,
                                          const cublasLtMatmulAlgo_t*, void*, size_t,
                                          callout::internal::cuda::CUstream stream) {
  if (handle == nullptr || description == nullptr || layout_a == nullptr || layout_b == nullptr ||
      layout_c == nullptr || layout_d == nullptr) {
    return kCublasInvalidValue;
  }
  Product product;
  const int status = MakeProduct(*description, {layout_a, layout_b, layout_c, layout_d}, product);
  if (status != kCublasSuccess) return status == kCublasNotSupported ? Refuse(Describe(product), status) : status;
  const int mode = Get<int>(*description, kMatmulPointerMode, kPointerHost);
  if (mode != kPointerHost && mode != kPointerDevice) return Refuse("cuBLASLt: a vector alpha", kCublasNotSupported);
  if (!AddScalar(mode, product.scale, alpha, product.alpha) || !AddScalar(mode, product.scale, beta, product.beta)) {
    return kCublasInvalidValue;
  }
  product.a.address = reinterpret_cast<uint64_t>(a);
  product.b.address = reinterpret_cast<uint64_t>(b);
  product.c.address = reinterpret_cast<uint64_t>(c);
  product.d.address = reinterpret_cast<uint64_t>(d);
  return handle->kernel.Launch(product, stream) == 0 ? kCublasSuccess : kCublasExecutionFailed;
}
