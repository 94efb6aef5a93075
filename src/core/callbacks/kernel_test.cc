// SPDX-License-Identifier: Apache-2.0
//
// Functions with typed parameters, written like a user's and called like XLA's handler calls them.
#include "callout/kernel.h"

#include <gtest/gtest.h>

#include <complex>
#include <stdexcept>

#include "callout/dtype.h"
#include "core/callbacks/native_function.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace {

void scale(callout::In<float> x, callout::Attr<"factor", float> factor, callout::Out<float> y) {
  for (int64_t i = 0; i < x.size(); ++i) y[i] = factor * x[i];
}

callout::Error pick_rows(callout::In<double, 2> x, callout::Attr<"rows", callout::List<int64_t>> rows,
                         callout::Attr<"what", callout::Text> what, callout::Out<double, 2> y) {
  for (int64_t i = 0; i < rows->size(); ++i) {
    if (rows.value[i] >= x.dim(0)) return callout::Error(what->data);
    for (int64_t j = 0; j < x.dim(1); ++j) y(i, j) = x(rows.value[i], j);
  }
  return {};
}

void mean(callout::Out<float, 0> out, callout::In<callout::BFloat16> x, const callout::Scratch& scratch) {
  float* copy = scratch.Get<float>(x.size());
  float sum = 0;
  for (int64_t i = 0; i < x.size(); ++i) sum += copy[i] = x[i];
  out = sum / static_cast<float>(x.size());
}

void conjugate(callout::In<std::complex<float>, 0> x, callout::Out<std::complex<float>, 0> y) { y = std::conj(x[0]); }

void throws(callout::In<int32_t, 0> kind) {
  if (kind == 0) throw std::runtime_error("a standard one");
  throw 42;
}

}  // namespace

CALLOUT_KERNEL(scale);
CALLOUT_KERNEL(pick_rows);
CALLOUT_KERNEL(mean);
CALLOUT_KERNEL(conjugate);
CALLOUT_KERNEL(throws);

namespace callout::internal {
namespace {

Status Call(const callout_function& record, std::vector<TestBuffer>& args, std::vector<TestBuffer>& results,
            std::vector<callout_attribute> attributes = {}) {
  std::vector<callout_buffer> arg_views, result_views;
  for (TestBuffer& buffer : args) arg_views.push_back(buffer.view());
  for (TestBuffer& buffer : results) result_views.push_back(buffer.view());
  callout_call call = {};
  call.struct_size = sizeof(call);
  call.num_args = static_cast<uint32_t>(args.size());
  call.num_results = static_cast<uint32_t>(results.size());
  call.args = arg_views.data();
  call.results = result_views.data();
  call.attributes = attributes.data();
  call.num_attributes = static_cast<uint32_t>(attributes.size());
  CALLOUT_ASSIGN_OR_RETURN(const auto callback, MakeNativeFunction("kernel", record));
  return callback->Call(call);
}

callout_attribute Factor(const float& factor) {
  return {"factor", CALLOUT_ATTRIBUTE_SCALAR, static_cast<uint32_t>(DType::kFloat32), &factor, 1};
}

TEST(KernelTest, OperandsAttributesAndResultsArrive) {
  std::vector<TestBuffer> args = {TestBuffer::Of<float>({3}, {1, 2, 3})};
  std::vector<TestBuffer> results = {TestBuffer::Zeros(DType::kFloat32, {3})};
  const float factor = 2;
  EXPECT_THAT(Call(scale_callout_record, args, results, {Factor(factor)}), IsOk());
  EXPECT_EQ(results[0].values<float>(), (std::vector<float>{2, 4, 6}));
}

TEST(KernelTest, ListsTextsAndIndicesOfADimension) {
  std::vector<TestBuffer> args = {TestBuffer::Of<double>({3, 2}, {1, 2, 3, 4, 5, 6})};
  std::vector<TestBuffer> results = {TestBuffer::Zeros(DType::kFloat64, {2, 2})};
  int64_t rows[] = {2, 0};
  const std::vector<callout_attribute> attributes = {
      {"rows", CALLOUT_ATTRIBUTE_ARRAY, static_cast<uint32_t>(DType::kInt64), rows, 2},
      {"what", CALLOUT_ATTRIBUTE_STRING, 0, "no such row", 11}};
  ASSERT_THAT(Call(pick_rows_callout_record, args, results, attributes), IsOk());
  EXPECT_EQ(results[0].values<double>(), (std::vector<double>{5, 6, 1, 2}));
  rows[0] = 3;
  EXPECT_THAT(Call(pick_rows_callout_record, args, results, attributes),
              StatusIs(StatusCode::kInternal, "no such row"));
}

TEST(KernelTest, ParametersInAnyOrderScratchAndBFloat16) {
  std::vector<TestBuffer> args = {TestBuffer(DType::kBfloat16, {2}, {0x80, 0x3f, 0x40, 0x40})};  // 1, 3
  std::vector<TestBuffer> results = {TestBuffer::Zeros(DType::kFloat32, {})};
  ASSERT_THAT(Call(mean_callout_record, args, results), IsOk());
  EXPECT_EQ(results[0].values<float>()[0], 2);
}

TEST(KernelTest, ComplexNumbers) {
  std::vector<TestBuffer> args = {TestBuffer::Scalar(std::complex<float>(1, 2))};
  std::vector<TestBuffer> results = {TestBuffer::Zeros(DType::kComplex64, {})};
  ASSERT_THAT(Call(conjugate_callout_record, args, results), IsOk());
  EXPECT_EQ(results[0].values<std::complex<float>>()[0], std::complex<float>(1, -2));
}

TEST(KernelTest, CallsThatDoNotFitAreRefused) {
  const float factor = 2;
  std::vector<TestBuffer> none;
  std::vector<TestBuffer> one = {TestBuffer::Of<float>({1}, {1})};
  std::vector<TestBuffer> integers = {TestBuffer::Of<int32_t>({1}, {1})};
  EXPECT_THAT(Call(scale_callout_record, one, none, {Factor(factor)}),
              StatusIs(StatusCode::kInvalidArgument, "another number of operands or results"));
  EXPECT_THAT(Call(scale_callout_record, integers, one, {Factor(factor)}),
              StatusIs(StatusCode::kInvalidArgument, "other element types"));
  EXPECT_THAT(Call(scale_callout_record, one, one),
              StatusIs(StatusCode::kInvalidArgument, "attribute that the function"));
  callout_attribute wrong = Factor(factor);
  wrong.kind = CALLOUT_ATTRIBUTE_ARRAY;
  EXPECT_THAT(Call(scale_callout_record, one, one, {wrong}),
              StatusIs(StatusCode::kInvalidArgument, "attribute is of another type"));
  std::vector<TestBuffer> vector = {TestBuffer::Of<std::complex<float>>({1}, {{1, 0}})};
  EXPECT_THAT(Call(conjugate_callout_record, vector, vector), StatusIs(StatusCode::kInvalidArgument, "other ranks"));
}

TEST(KernelTest, ExceptionsBecomeErrors) {
  std::vector<TestBuffer> none;
  std::vector<TestBuffer> zero = {TestBuffer::Scalar(int32_t{0})}, one = {TestBuffer::Scalar(int32_t{1})};
  EXPECT_THAT(Call(throws_callout_record, zero, none), StatusIs(StatusCode::kInternal, "a standard one"));
  EXPECT_THAT(Call(throws_callout_record, one, none), StatusIs(StatusCode::kInternal, "not a std::exception"));
}

TEST(KernelTest, RecordDescribesTheParameters) {
  const callout_function& record = pick_rows_callout_record;
  ASSERT_EQ(record.num_parameters, 4U);
  EXPECT_EQ(record.parameters[0].kind, static_cast<uint32_t>(CALLOUT_PARAMETER_IN));
  EXPECT_EQ(record.parameters[0].dtype, static_cast<uint32_t>(DType::kFloat64));
  EXPECT_EQ(record.parameters[0].rank, 2);
  EXPECT_EQ(record.parameters[1].kind, static_cast<uint32_t>(CALLOUT_PARAMETER_ATTRIBUTE));
  EXPECT_STREQ(record.parameters[1].name, "rows");
  EXPECT_EQ(record.parameters[1].rank, 1);
  EXPECT_EQ(record.parameters[2].dtype, 0U) << "a text";
  EXPECT_EQ(record.parameters[3].kind, static_cast<uint32_t>(CALLOUT_PARAMETER_OUT));
  EXPECT_EQ(mean_callout_record.num_parameters, 2U) << "scratch is not the caller's";
  EXPECT_EQ(scale_callout_record.parameters[0].rank, -1);
}

}  // namespace
}  // namespace callout::internal
