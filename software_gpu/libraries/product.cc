// SPDX-License-Identifier: Apache-2.0
//
// Computes products by a plain loop. Sums have the scale type, but integers are summed in 64 bits.
#include "libraries/product.h"

#include <algorithm>
#include <numbers>
#include <vector>

#include "libraries/elements.h"

namespace callout::software_gpu {
namespace {

int64_t IndexOf(const Matrix& matrix, int64_t batch, int64_t row, int64_t column) {
  const int64_t within = matrix.row_major != 0 ? row * matrix.leading + column : column * matrix.leading + row;
  return batch * matrix.stride + within;
}

bool IsComplexType(Element type) { return type == Element::kC64 || type == Element::kC128; }
bool IsSmallFloat(Element type) { return type == Element::kF8E4M3 || type == Element::kF8E5M2; }
bool IsInteger(Element type) { return type == Element::kS8 || type == Element::kS32; }

bool TypesFit(const Product& product) {
  const Element a = product.a.type;
  const Element b = product.b.type;
  const Element d = product.d.type;
  if (product.c.type != d && !(IsSmallFloat(d) && ElementBytes(product.c.type) == 2)) return false;
  switch (product.scale) {
    case Element::kF32: {
      const bool same = a == b && !IsInteger(a) && !IsComplexType(a) && a != Element::kF64;
      const bool small = IsSmallFloat(a) && IsSmallFloat(b);
      const bool integers = a == Element::kS8 && b == a && (d == Element::kF32 || d == Element::kS8);
      return integers || ((same || small) && d != Element::kF64 && !IsInteger(d) && !IsComplexType(d));
    }
    case Element::kF16:
      return a == Element::kF16 && b == a && d == a;
    case Element::kS32:
      return a == Element::kS8 && b == a && (d == Element::kS32 || d == Element::kS8);
    case Element::kF64:
    case Element::kC64:
    case Element::kC128:
      return a == product.scale && b == a && d == a;
    default:
      return false;
  }
}

bool IsMatrix(const Matrix& matrix) {
  const int64_t line = matrix.row_major != 0 ? matrix.columns : matrix.rows;
  return matrix.rows >= 0 && matrix.columns >= 0 && matrix.leading >= line;
}

template <typename T>
T ScalarOf(const Product& product, const Scalar& scalar) {
  const uint64_t address = scalar.address != 0 ? scalar.address : reinterpret_cast<uint64_t>(scalar.value);
  return LoadElement<T>(product.scale, address, 0);
}
float FactorAt(uint64_t address) { return address != 0 ? ReadAt<float>(address, 0) : 1.0F; }

// Loads op(matrix) into `result`, row by row. A transposed matrix has its rows as columns.
template <typename T>
void Load(const Matrix& matrix, Transpose transpose, int64_t batch, std::vector<T>& result) {
  const bool swapped = transpose != Transpose::kNone;
  const int64_t rows = swapped ? matrix.columns : matrix.rows;
  const int64_t columns = swapped ? matrix.rows : matrix.columns;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      const int64_t index = swapped ? IndexOf(matrix, batch, column, row) : IndexOf(matrix, batch, row, column);
      T value = LoadElement<T>(matrix.type, matrix.address, index);
      if constexpr (IsComplex<T>::value) {
        if (transpose == Transpose::kConjugate) value = std::conj(value);
      }
      result[static_cast<size_t>(row * columns + column)] = value;
    }
  }
}

// Computes GELU by its approximation with tanh, as cuBLASLt does.
template <typename T>
T Gelu(T value) {
  const double x = static_cast<double>(value);
  const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return static_cast<T>(0.5 * x * (1 + std::tanh(inner)));
}

template <typename T>
T Finish(const Product& product, int64_t batch, int64_t row, int64_t column, T value) {
  if ((product.epilogue & kEpilogueBias) != 0) {
    value += LoadElement<T>(product.bias.type, product.bias.address, batch * product.bias.stride + row);
  }
  if constexpr (!IsComplex<T>::value) {
    if ((product.epilogue & kEpilogueAux) != 0) {
      const Extra& aux = product.aux;
      StoreElement(aux.type, aux.address, batch * aux.stride + column * aux.leading + row, value);
    }
    // A NaN stays NaN.
    if ((product.epilogue & kEpilogueRelu) != 0 && value < T{}) value = T{};
    if ((product.epilogue & kEpilogueGelu) != 0) value = Gelu(value);
  }
  return value;
}

// Computes one product of the batch.
template <typename T>
class Sums {
 public:
  explicit Sums(const Product& product)
      : product_(product),
        inner_(product.transpose_a == Transpose::kNone ? product.a.columns : product.a.rows),
        a_(static_cast<size_t>(product.d.rows * inner_)),
        b_(static_cast<size_t>(inner_ * product.d.columns)),
        sums_(static_cast<size_t>(product.d.columns)),
        alpha_(ScalarOf<T>(product, product.alpha)),
        beta_(ScalarOf<T>(product, product.beta)) {
    if constexpr (std::is_same_v<T, float>) {
      alpha_ *= FactorAt(product.scale_a) * FactorAt(product.scale_b);
      beta_ *= FactorAt(product.scale_c);
      factor_ = FactorAt(product.scale_d);
    }
  }

  void Run(int64_t batch) {
    Load(product_.a, product_.transpose_a, batch, a_);
    Load(product_.b, product_.transpose_b, batch, b_);
    for (int64_t row = 0; row < product_.d.rows; ++row) {
      SumRow(row);
      for (int64_t column = 0; column < product_.d.columns; ++column) StoreOne(batch, row, column);
    }
  }

  float largest() const { return largest_; }

 private:
  void SumRow(int64_t row) {
    const auto columns = static_cast<int64_t>(sums_.size());
    std::fill(sums_.begin(), sums_.end(), T{});
    for (int64_t k = 0; k < inner_; ++k) {
      const T left = a_[static_cast<size_t>(row * inner_ + k)];
      const T* right = b_.data() + k * columns;
      T* sums = sums_.data();
      for (int64_t column = 0; column < columns; ++column) sums[column] += left * right[column];
    }
  }

  // Stores one element. If beta is zero, c is not read, because it may hold anything.
  void StoreOne(int64_t batch, int64_t row, int64_t column) {
    T value = alpha_ * sums_[static_cast<size_t>(column)];
    if (beta_ != T{}) {
      const Matrix& c = product_.c;
      value += beta_ * LoadElement<T>(c.type, c.address, IndexOf(c, batch, row, column));
    }
    value = Finish(product_, batch, row, column, value);
    if constexpr (std::is_same_v<T, float>) {
      if (!(std::fabs(value) <= largest_)) largest_ = std::fabs(value);
      value *= factor_;
      if (product_.d.type == Element::kS8) value = std::nearbyint(value);
    }
    const Matrix& d = product_.d;
    StoreElement(d.type, d.address, IndexOf(d, batch, row, column), value);
  }

  const Product& product_;
  int64_t inner_;
  std::vector<T> a_, b_, sums_;
  T alpha_, beta_;
  float factor_ = 1;
  float largest_ = 0;
};

template <typename T>
void ComputeAs(const Product& product) {
  Sums<T> sums(product);
  for (int64_t batch = 0; batch < product.batch; ++batch) sums.Run(batch);
  if (product.largest_of_d != 0) WriteAt(product.largest_of_d, 0, sums.largest());
}

}  // namespace

int ElementBytes(Element type) {
  switch (type) {
    case Element::kS8:
    case Element::kF8E4M3:
    case Element::kF8E5M2:
      return 1;
    case Element::kF16:
    case Element::kBf16:
      return 2;
    case Element::kF32:
    case Element::kS32:
      return 4;
    case Element::kF64:
    case Element::kC64:
      return 8;
    case Element::kC128:
      return 16;
  }
  return 0;
}

Verdict Check(const Product& product) {
  constexpr int32_t kKnown = kEpilogueNothing | kEpilogueRelu | kEpilogueBias | kEpilogueGelu | kEpilogueAux;
  const bool rectified = (product.epilogue & kEpilogueRelu) != 0;
  const bool aux = (product.epilogue & kEpilogueAux) != 0;
  // The mask that a rectifier can write is not supported.
  if ((product.epilogue & ~kKnown) != 0 || (aux && rectified)) return Verdict::kUnknown;
  if (!TypesFit(product)) return Verdict::kUnknown;
  if (product.epilogue != kEpilogueNothing && IsComplexType(product.d.type)) return Verdict::kUnknown;
  const Matrix& a = product.a;
  const Matrix& b = product.b;
  const Matrix& c = product.c;
  const Matrix& d = product.d;
  const bool swapped_a = product.transpose_a != Transpose::kNone;
  const bool swapped_b = product.transpose_b != Transpose::kNone;
  const int64_t inner = swapped_a ? a.rows : a.columns;
  const bool fits = (swapped_a ? a.columns : a.rows) == d.rows && (swapped_b ? b.rows : b.columns) == d.columns &&
                    (swapped_b ? b.columns : b.rows) == inner && c.rows == d.rows && c.columns == d.columns;
  if (!fits || product.batch < 0) return Verdict::kInvalid;
  if (!IsMatrix(a) || !IsMatrix(b) || !IsMatrix(c) || !IsMatrix(d)) return Verdict::kInvalid;
  return Verdict::kRight;
}

void Compute(const Product& product) {
  switch (product.scale) {
    case Element::kF64:
      return ComputeAs<double>(product);
    case Element::kC64:
      return ComputeAs<std::complex<float>>(product);
    case Element::kC128:
      return ComputeAs<std::complex<double>>(product);
    case Element::kS32:
      return ComputeAs<int64_t>(product);
    default:
      return ComputeAs<float>(product);
  }
}

}  // namespace callout::software_gpu
