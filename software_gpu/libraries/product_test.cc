// SPDX-License-Identifier: Apache-2.0
//
// Compares products with sums that the tests compute by row and column, in double precision.
#include "libraries/product.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <numbers>
#include <string>
#include <tuple>
#include <vector>

#include "libraries/elements.h"

namespace callout::software_gpu {
namespace {

using Number = std::complex<double>;
constexpr int64_t kRows = 5;
constexpr int64_t kColumns = 7;
constexpr int64_t kInner = 6;

bool HoldsComplex(Element type) { return type == Element::kC64 || type == Element::kC128; }

Number LoadNumber(Element type, const void* data, int64_t index) {
  const auto address = reinterpret_cast<uint64_t>(data);
  if (HoldsComplex(type)) return LoadElement<Number>(type, address, index);
  return LoadElement<double>(type, address, index);
}

// A matrix with its storage. `gap` unused elements follow each line, and each matrix of the batch.
struct Stored {
  Matrix matrix;
  std::vector<unsigned char> bytes;

  Stored(Element type, bool row_major, int64_t rows, int64_t columns, int64_t batch, int64_t gap, int64_t seed) {
    const int64_t leading = (row_major ? columns : rows) + gap;
    const int64_t stride = leading * (row_major ? rows : columns) + gap;
    matrix = {
        .type = type, .row_major = row_major, .rows = rows, .columns = columns, .leading = leading, .stride = stride};
    bytes.resize(static_cast<size_t>(stride * batch * ElementBytes(type)));
    matrix.address = reinterpret_cast<uint64_t>(bytes.data());
    for (int64_t i = 0; i < stride * batch; ++i) {
      const double value = static_cast<double>((i * 7 + seed) % 11) - 5;
      if (HoldsComplex(type)) {
        StoreElement(type, matrix.address, i, Number(value, static_cast<double>((i * 5 + seed) % 7) - 3));
      } else {
        StoreElement(type, matrix.address, i, value);
      }
    }
  }
  Stored(const Stored&) = delete;

  Number At(int64_t batch, int64_t row, int64_t column) const {
    const int64_t within = matrix.row_major != 0 ? row * matrix.leading + column : column * matrix.leading + row;
    return LoadNumber(matrix.type, bytes.data(), batch * matrix.stride + within);
  }
  Number At(Transpose transpose, int64_t batch, int64_t row, int64_t column) const {
    if (transpose == Transpose::kNone) return At(batch, row, column);
    const Number found = At(batch, column, row);
    return transpose == Transpose::kConjugate ? std::conj(found) : found;
  }
};

void SetScalar(Element type, Scalar& to, double value) {
  const auto address = reinterpret_cast<uint64_t>(to.value);
  if (HoldsComplex(type)) {
    StoreElement(type, address, 0, Number(value, 0.5));
  } else {
    StoreElement(type, address, 0, value);
  }
}

struct Types {
  std::string name;
  Element a, b, d, scale;
};

using Case = std::tuple<Types, Transpose, Transpose, bool, int64_t>;
class ProductTest : public testing::TestWithParam<Case> {};

TEST_P(ProductTest, EqualsThePlainSum) {
  const auto& [types, transpose_a, transpose_b, row_major, batch] = GetParam();
  const bool swapped_a = transpose_a != Transpose::kNone;
  const bool swapped_b = transpose_b != Transpose::kNone;
  // The orders differ, so that a mix-up would show.
  const Stored a(types.a, row_major, swapped_a ? kInner : kRows, swapped_a ? kRows : kInner, batch, 1, 1);
  const Stored b(types.b, !row_major, swapped_b ? kColumns : kInner, swapped_b ? kInner : kColumns, batch, 2, 3);
  const Stored c(types.d, row_major, kRows, kColumns, batch, 0, 5);
  Stored d(types.d, !row_major, kRows, kColumns, batch, 3, 0);
  Product product{.a = a.matrix,
                  .b = b.matrix,
                  .c = c.matrix,
                  .d = d.matrix,
                  .transpose_a = transpose_a,
                  .transpose_b = transpose_b,
                  .scale = types.scale,
                  .batch = batch};
  SetScalar(types.scale, product.alpha, 2);
  SetScalar(types.scale, product.beta, -3);
  const Number alpha = LoadNumber(types.scale, product.alpha.value, 0);
  const Number beta = LoadNumber(types.scale, product.beta.value, 0);
  ASSERT_EQ(Check(product), Verdict::kRight);
  Compute(product);

  const double tolerance = ElementBytes(types.d) == 2 ? 1.0 / 128 : types.d == Element::kF8E4M3 ? 1.0 / 16 : 1e-6;
  for (int64_t n = 0; n < batch; ++n) {
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t column = 0; column < kColumns; ++column) {
        Number sum = 0;
        for (int64_t k = 0; k < kInner; ++k) sum += a.At(transpose_a, n, row, k) * b.At(transpose_b, n, k, column);
        Number expected = alpha * sum + beta * c.At(n, row, column);
        if (types.d == Element::kS8) expected = std::clamp(expected.real(), -128.0, 127.0);
        if (types.d == Element::kF8E4M3) expected = std::clamp(expected.real(), -448.0, 448.0);
        const Number got = d.At(n, row, column);
        EXPECT_LE(std::abs(got - expected), tolerance * std::max(1.0, std::abs(expected)))
            << n << " " << row << " " << column << ": expected " << expected << ", got " << got;
      }
    }
  }
}

const Types kTypes[] = {
    {"F32", Element::kF32, Element::kF32, Element::kF32, Element::kF32},
    {"F64", Element::kF64, Element::kF64, Element::kF64, Element::kF64},
    {"C64", Element::kC64, Element::kC64, Element::kC64, Element::kC64},
    {"C128", Element::kC128, Element::kC128, Element::kC128, Element::kC128},
    {"F16", Element::kF16, Element::kF16, Element::kF16, Element::kF32},
    {"F16ScaledInF16", Element::kF16, Element::kF16, Element::kF16, Element::kF16},
    {"F16ToF32", Element::kF16, Element::kF16, Element::kF32, Element::kF32},
    {"Bf16", Element::kBf16, Element::kBf16, Element::kBf16, Element::kF32},
    {"Bf16ToF32", Element::kBf16, Element::kBf16, Element::kF32, Element::kF32},
    {"S8ToS32", Element::kS8, Element::kS8, Element::kS32, Element::kS32},
    {"S8ToS8", Element::kS8, Element::kS8, Element::kS8, Element::kS32},
    {"S8ToF32", Element::kS8, Element::kS8, Element::kF32, Element::kF32},
    {"F8ToF32", Element::kF8E4M3, Element::kF8E5M2, Element::kF32, Element::kF32},
    {"F8ToF8", Element::kF8E4M3, Element::kF8E4M3, Element::kF8E4M3, Element::kF32},
};
constexpr Transpose kTransposes[] = {Transpose::kNone, Transpose::kTranspose, Transpose::kConjugate};
const char* NameOf(Transpose transpose) {
  return transpose == Transpose::kNone ? "Plain" : transpose == Transpose::kTranspose ? "Transposed" : "Conjugated";
}

INSTANTIATE_TEST_SUITE_P(Types, ProductTest,
                         testing::Combine(testing::ValuesIn(kTypes), testing::ValuesIn(kTransposes),
                                          testing::ValuesIn(kTransposes), testing::Bool(),
                                          testing::Values(int64_t{1}, int64_t{3})),
                         [](const auto& made) {
                           return std::get<0>(made.param).name + NameOf(std::get<1>(made.param)) +
                                  NameOf(std::get<2>(made.param)) + (std::get<3>(made.param) ? "Rows" : "Columns") +
                                  std::to_string(std::get<4>(made.param));
                         });

class EpilogueTest : public testing::Test {
 protected:
  EpilogueTest()
      : a_(Element::kF32, false, kRows, kInner, 2, 0, 1),
        b_(Element::kF32, false, kInner, kColumns, 2, 0, 2),
        d_(Element::kF32, false, kRows, kColumns, 2, 0, 0) {
    product_ = {.a = a_.matrix, .b = b_.matrix, .c = d_.matrix, .d = d_.matrix, .batch = 2};
    SetScalar(Element::kF32, product_.alpha, 0.125);
    Compute(product_);
    for (int64_t n = 0; n < 2; ++n) {
      for (int64_t column = 0; column < kColumns; ++column) {
        for (int64_t row = 0; row < kRows; ++row) plain_.push_back(d_.At(n, row, column).real());
      }
    }
    for (int64_t i = 0; i < 2 * kRows; ++i) bias_.push_back(static_cast<float>(i) - 3);
    product_.bias = {.address = reinterpret_cast<uint64_t>(bias_.data()), .stride = kRows};
  }

  // Checks that the epilogue leaves `expected(sum, the row's bias)` in each element.
  template <typename F>
  void Expect(F expected) {
    ASSERT_EQ(Check(product_), Verdict::kRight);
    Compute(product_);
    size_t i = 0;
    for (int64_t n = 0; n < 2; ++n) {
      for (int64_t column = 0; column < kColumns; ++column) {
        for (int64_t row = 0; row < kRows; ++row) {
          const double wanted = expected(plain_[i++], static_cast<double>(bias_[static_cast<size_t>(n * kRows + row)]));
          EXPECT_NEAR(d_.At(n, row, column).real(), wanted, 1e-4) << n << " " << row << " " << column;
        }
      }
    }
  }

  Stored a_, b_, d_;
  Product product_;
  std::vector<double> plain_;
  std::vector<float> bias_;
};

double GeluOf(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
}

TEST_F(EpilogueTest, BiasIsAddedToEachRow) {
  product_.epilogue = kEpilogueBias;
  Expect([](double x, double bias) { return x + bias; });
}

TEST_F(EpilogueTest, ReluComesAfterTheBias) {
  product_.epilogue = kEpilogueBias | kEpilogueRelu;
  Expect([](double x, double bias) { return std::max(0.0, x + bias); });
}

TEST_F(EpilogueTest, ReluKeepsNaN) {
  product_.epilogue = kEpilogueBias | kEpilogueRelu;
  bias_[0] = std::numeric_limits<float>::quiet_NaN();
  Compute(product_);
  EXPECT_TRUE(std::isnan(d_.At(0, 0, 0).real()));
}

TEST_F(EpilogueTest, GeluIsTheApproximationWithTanh) {
  product_.epilogue = kEpilogueGelu;
  Expect([](double x, double) { return GeluOf(x); });
}

TEST_F(EpilogueTest, GeluWithAuxKeepsWhatItWasAskedOf) {
  std::vector<float> aux(2 * kRows * kColumns);
  product_.epilogue = kEpilogueGelu | kEpilogueBias | kEpilogueAux;
  product_.aux = {.address = reinterpret_cast<uint64_t>(aux.data()), .leading = kRows, .stride = kRows * kColumns};
  Expect([](double x, double bias) { return GeluOf(x + bias); });
  for (size_t i = 0; i < aux.size(); ++i) {
    const size_t row = i % kRows;
    const size_t batch = i / (kRows * kColumns);
    EXPECT_NEAR(aux[i], plain_[i] + static_cast<double>(bias_[batch * kRows + row]), 1e-4);
  }
}

TEST_F(EpilogueTest, ScalesOfSmallFloatsAndTheLargestAreOfTheDevice) {
  const float scale_a = 2;
  const float scale_b = 0.5;
  const float scale_d = 4;
  float largest = 0;
  product_.scale_a = reinterpret_cast<uint64_t>(&scale_a);
  product_.scale_b = reinterpret_cast<uint64_t>(&scale_b);
  product_.scale_d = reinterpret_cast<uint64_t>(&scale_d);
  product_.largest_of_d = reinterpret_cast<uint64_t>(&largest);
  Expect([](double x, double) { return 4 * x; });
  double expected = 0;
  for (const double x : plain_) expected = std::max(expected, std::abs(x));
  EXPECT_FLOAT_EQ(largest, static_cast<float>(expected));
}

TEST_F(EpilogueTest, WhereBetaIsZeroCIsNotRead) {
  product_.c.address = 8;
  product_.d = d_.matrix;
  Expect([](double x, double) { return x; });
}

TEST_F(EpilogueTest, ScalarsMayBeInMemory) {
  const float alpha = 1;
  product_.alpha.address = reinterpret_cast<uint64_t>(&alpha);
  Expect([](double x, double) { return 8 * x; });
}

TEST_F(EpilogueTest, OthersAreUnknown) {
  for (const int32_t epilogue : {8 | 128, 64 | 128, 256, 512, 2 | 128}) {
    product_.epilogue = epilogue;
    EXPECT_EQ(Check(product_), Verdict::kUnknown) << epilogue;
  }
}

TEST_F(EpilogueTest, SizesThatDoNotFitAreInvalid) {
  Product product = product_;
  product.b.columns = kColumns + 1;
  EXPECT_EQ(Check(product), Verdict::kInvalid);
  product = product_;
  product.transpose_a = Transpose::kTranspose;
  EXPECT_EQ(Check(product), Verdict::kInvalid);
  product = product_;
  product.d.leading = kRows - 1;
  EXPECT_EQ(Check(product), Verdict::kInvalid);
}

TEST_F(EpilogueTest, TypesThatDoNotGoTogetherAreUnknown) {
  product_.b.type = Element::kF64;
  EXPECT_EQ(Check(product_), Verdict::kUnknown);
  product_.b.type = static_cast<Element>(9);
  EXPECT_EQ(Check(product_), Verdict::kUnknown);
}

TEST(IntegerProductTest, SumsWrapAsThirtyTwoBitsDo) {
  // The sum 2 * (2^31 - 1) + 127 * 127 * n does not fit into 32 bits.
  const std::vector<int8_t> ones(1, 1);
  std::vector<int32_t> d = {2147483647};
  Product product{.a = {.address = reinterpret_cast<uint64_t>(ones.data()),
                        .type = Element::kS8,
                        .rows = 1,
                        .columns = 1,
                        .leading = 1},
                  .scale = Element::kS32};
  product.b = product.a;
  product.c = product.d = {
      .address = reinterpret_cast<uint64_t>(d.data()), .type = Element::kS32, .rows = 1, .columns = 1, .leading = 1};
  SetScalar(Element::kS32, product.alpha, 1);
  SetScalar(Element::kS32, product.beta, 1);
  ASSERT_EQ(Check(product), Verdict::kRight);
  Compute(product);
  EXPECT_EQ(d[0], std::numeric_limits<int32_t>::min());
}

}  // namespace
}  // namespace callout::software_gpu
