// SPDX-License-Identifier: Apache-2.0
//
// A matrix product as plain bytes: a launch carries it from cuBLAS and cuBLASLt to the device, and a graph keeps it.
#pragma once

#include <cstdint>

namespace callout::software_gpu {

/// Element types, with the numbers of CUDA's cudaDataType.
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

/// Operations, with the numbers of cublasOperation_t.
enum class Transpose : int32_t { kNone = 0, kTranspose = 1, kConjugate = 2 };

struct Matrix {
  uint64_t address = 0;
  Element type = Element::kF32;
  int32_t row_major = 0;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t leading = 0;  ///< The distance in elements from one column to the next, or from one row to the next.
  int64_t stride = 0;   ///< The distance in elements from one matrix of the batch to the next.
};

/// A number of the product's scale type. It lies at `address`, unless that is null.
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
  Extra bias = {};                    ///< One number for each row of d.
  Extra aux = {};                     ///< Receives the input of GELU.
  uint64_t scale_a = 0, scale_b = 0;  ///< Null, or the address of an f32 by which a matrix is multiplied.
  uint64_t scale_c = 0, scale_d = 0, largest_of_d = 0;  ///< largest_of_d receives the largest magnitude of d.
};
static_assert(sizeof(Product) % 8 == 0);

/// Returns the bytes of an element; zero for unknown types.
int ElementBytes(Element type);

enum class Verdict { kRight, kInvalid, kUnknown };

/// Returns kInvalid for sizes that do not fit together, kUnknown for unsupported types or epilogues.
Verdict Check(const Product& product);

/// Computes a product for which Check() returned kRight. All its addresses must be accessible.
void Compute(const Product& product);

}  // namespace callout::software_gpu
