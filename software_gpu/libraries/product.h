// SPDX-License-Identifier: Apache-2.0
//
// A matrix product as plain bytes: what a launch carries from cuBLAS and cuBLASLt to the device, and what a graph
// keeps.
#pragma once

#include <cstdint>

namespace callout::software_gpu {

/// Types of elements, with the numbers of CUDA's cudaDataType.
enum class Element : int32_t {
  kF32 = 0,
  kF64 = 1,
  kF16 = 2,
  kS8 = 3,
  kC64 = 4,
  kC128 = 5,
  kS32 = 10,
  kBf16 = 14,
  kF8E4M3 = 28,
  kF8E5M2 = 29,
};

/// With the numbers of cublasOperation_t.
enum class Transpose : int32_t { kNone = 0, kTranspose = 1, kConjugate = 2 };

struct Matrix {
  uint64_t address = 0;
  Element type = Element::kF32;
  int32_t row_major = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t leading = 0;  ///< Elements from one column to the next, or from one row to the next.
  int64_t stride = 0;   ///< Elements from one matrix of the batch to the next.
};

/// A number of the type in which a product scales; it is where `address` says, unless that is null.
struct Scalar {
  uint64_t address = 0;
  unsigned char value[16] = {};
};

/// A vector or a matrix that an epilogue reads or writes.
struct Extra {
  uint64_t address = 0;
  Element type = Element::kF32;
  int32_t unused = 0;
  int64_t leading = 0;
  int64_t stride = 0;
};

/// Bits of cublasLtEpilogue_t.
enum : int32_t {
  kEpilogueNothing = 1,
  kEpilogueRelu = 2,
  kEpilogueBias = 4,
  kEpilogueGelu = 32,
  kEpilogueAux = 128,
};

/// d = epilogue(alpha * op(a) * op(b) + beta * c), `batch` times. c may be d.
struct Product {
  Matrix a = {}, b = {}, c = {}, d = {};
  Transpose transpose_a = Transpose::kNone;
  Transpose transpose_b = Transpose::kNone;
  Element scale = Element::kF32;  ///< The type of alpha and beta.
  int32_t epilogue = kEpilogueNothing;
  int64_t batch = 1;
  Scalar alpha = {}, beta = {};
  Extra bias = {};                                      ///< One number for each row of d.
  Extra aux = {};                                       ///< Takes what gelu is asked of.
  uint64_t scale_a = 0, scale_b = 0;                    ///< Null, or where an f32 is that a matrix is multiplied by.
  uint64_t scale_c = 0, scale_d = 0, largest_of_d = 0;  ///< The last takes the largest magnitude of d.
};
static_assert(sizeof(Product) % 8 == 0);

/// Bytes of an element; zero for types that are not known.
int ElementBytes(Element type);

enum class Verdict { kRight, kInvalid, kUnknown };

/// kInvalid for sizes that do not fit together, kUnknown for types or epilogues that are not computed here.
Verdict Check(const Product& product);

/// Computes a product that Check() found right. All its addresses may be touched.
void Compute(const Product& product);

}  // namespace callout::software_gpu
