// SPDX-License-Identifier: Apache-2.0
#include "callout/call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "testing/test_buffer.h"

namespace callout {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StrEq;
using ::testing::ThrowsMessage;

class CallTest : public ::testing::Test {
 protected:
  CallTest() {
    call_.struct_size = sizeof(call_);
    call_.num_args = 1;
    call_.num_results = 1;
    call_.args = &arg_view_;
    call_.results = &result_view_;
    call_.run_id = 9;
    call_.device_ordinal = 1;
    call_.error_context = &error_;
    call_.set_error = [](void* context, int32_t code, const char* message, size_t length) {
      *static_cast<std::string*>(context) = std::to_string(code) + " " + std::string(message, length);
    };
  }

  internal::TestBuffer arg_ = internal::TestBuffer::Of<int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  internal::TestBuffer result_ = internal::TestBuffer::Zeros(DType::kFloat64, {});
  callout_buffer arg_view_ = arg_.view();
  callout_buffer result_view_ = result_.view();
  std::string error_;
  callout_call call_ = {};
};

TEST_F(CallTest, ViewsAreTypedAndShaped) {
  const Call call(&call_);
  EXPECT_EQ(call.num_args(), 1);
  EXPECT_EQ(call.num_results(), 1);
  EXPECT_EQ(call.device_ordinal(), 1);
  EXPECT_EQ(call.run_id(), 9);
  EXPECT_EQ(call.raw(), &call_);
  const auto x = call.arg<int32_t>(0);
  EXPECT_EQ(x.size(), 6);
  EXPECT_EQ(x.rank(), 2);
  EXPECT_THAT(x.dims(), ElementsAre(2, 3));
  EXPECT_EQ(std::vector<int32_t>(x.begin(), x.end()), arg_.values<int32_t>());
  EXPECT_EQ(x[4], 5);
}

TEST_F(CallTest, ResultsAreWrittenInPlace) {
  const auto y = Call(&call_).result<double>(0);
  EXPECT_EQ(y.size(), 1);
  EXPECT_EQ(y.rank(), 0);
  y[0] = 2.5;
  EXPECT_THAT(result_.values<double>(), ElementsAre(2.5));
}

TEST_F(CallTest, WrongTypeOrIndexThrowsSayingWhich) {
  const Call call(&call_);
  EXPECT_THAT([&] { (void)call.arg<float>(0); },
              ThrowsMessage<std::invalid_argument>(StrEq("argument 0: expected XLA element type 11, got 4")));
  EXPECT_THAT([&] { (void)call.arg<int32_t>(1); },
              ThrowsMessage<std::invalid_argument>(StrEq("argument 1 asked for, but the call has 1")));
  EXPECT_THAT([&] { (void)call.result<double>(-1); }, ThrowsMessage<std::invalid_argument>(HasSubstr("result -1")));
}

TEST_F(CallTest, GuardedTurnsExceptionsIntoErrors) {
  EXPECT_EQ(internal::Guarded(&call_, [](const Call&) {}), 0);
  EXPECT_EQ(error_, "");
  EXPECT_EQ(internal::Guarded(&call_, [](const Call&) { throw std::runtime_error("boom"); }), 1);
  EXPECT_EQ(error_, "13 boom");
  EXPECT_EQ(internal::Guarded(&call_, [](const Call&) { throw 1; }), 1);
  EXPECT_EQ(error_, "13 the callback threw something that is not a std::exception");
}

}  // namespace
}  // namespace callout
