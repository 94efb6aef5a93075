// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/native_function.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>

#include "testing/live_counts.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

using NativeFunctionTest = LiveCountTest;

callout_function Pointers(callout_pointers_fn fn) {
  return {sizeof(callout_function),
          CALLOUT_ABI_VERSION,
          CALLOUT_FUNCTION_POINTERS,
          reinterpret_cast<void (*)(void)>(fn),
          nullptr,
          0,
          0};
}

callout_function WithCall(callout_call_fn fn) {
  return {sizeof(callout_function),
          CALLOUT_ABI_VERSION,
          CALLOUT_FUNCTION_CALL,
          reinterpret_cast<void (*)(void)>(fn),
          nullptr,
          0,
          0};
}

// A call and its buffers.
struct TestCall {
  TestCall(std::vector<TestBuffer> arg_buffers, std::vector<TestBuffer> result_buffers)
      : args(std::move(arg_buffers)), results(std::move(result_buffers)) {
    for (TestBuffer& buffer : args) arg_views.push_back(buffer.view());
    for (TestBuffer& buffer : results) result_views.push_back(buffer.view());
    call.struct_size = sizeof(call);
    call.num_args = static_cast<uint32_t>(arg_views.size());
    call.num_results = static_cast<uint32_t>(result_views.size());
    call.args = arg_views.data();
    call.results = result_views.data();
    call.run_id = 5;
    call.device_ordinal = 2;
  }

  std::vector<TestBuffer> args, results;
  std::vector<callout_buffer> arg_views, result_views;
  callout_call call = {};
};

TestCall NoBuffers() { return TestCall({}, {}); }

Status CallNative(const callout_function& function, const callout_call& call) {
  const auto callback = MakeNativeFunction("f", function);
  if (!callback.ok()) return InternalError("not made");
  return callback.value()->Call(call);
}

TEST_F(NativeFunctionTest, PointersFormGetsAllPointersThenAllExtents) {
  TestCall call({TestBuffer::Of<float>({2, 3}, {1, 2, 3, 4, 5, 6}), TestBuffer::Scalar(10.0F)},
                {TestBuffer::Zeros(DType::kFloat32, {3})});
  const auto function = Pointers([](void** ptrs, const int64_t* dims) -> int32_t {
    if (dims[0] != 2 || dims[1] != 3 || dims[2] != 3) return 1;
    const auto* x = static_cast<const float*>(ptrs[0]);
    const float bias = *static_cast<const float*>(ptrs[1]);
    auto* y = static_cast<float*>(ptrs[2]);
    for (int64_t i = 0; i < 3; ++i) y[i] = x[i] + x[i + 3] + bias;
    return 0;
  });
  EXPECT_THAT(CallNative(function, call.call), IsOk());
  EXPECT_EQ(call.results[0].values<float>(), (std::vector<float>{15, 17, 19}));
}

TEST_F(NativeFunctionTest, PointersFormTakesMoreBuffersThanFitOnTheStack) {
  std::vector<TestBuffer> args;
  for (int32_t i = 0; i < 40; ++i) args.push_back(TestBuffer::Of<int32_t>({1, 1}, {i}));
  TestCall call(std::move(args), {TestBuffer::Zeros(DType::kInt32, {})});
  const auto function = Pointers([](void** ptrs, const int64_t* dims) -> int32_t {
    int32_t sum = 0;
    for (int i = 0; i < 40; ++i) sum += *static_cast<const int32_t*>(ptrs[i]);
    *static_cast<int32_t*>(ptrs[40]) = sum;
    return std::accumulate(dims, dims + 80, int64_t{0}) == 80 ? 0 : 1;
  });
  EXPECT_THAT(CallNative(function, call.call), IsOk());
  EXPECT_EQ(call.results[0].values<int32_t>(), std::vector<int32_t>{780});
}

TEST_F(NativeFunctionTest, PointersFormGetsAttributesBehindTheResults) {
  TestCall call({TestBuffer::Scalar(1.0F)}, {TestBuffer::Zeros(DType::kFloat32, {})});
  const float factor = 3;
  const callout_attribute attributes[] = {
      {"factor", CALLOUT_ATTRIBUTE_SCALAR, static_cast<uint32_t>(DType::kFloat32), &factor, 1}};
  call.call.attributes = attributes;
  call.call.num_attributes = 1;
  const auto function = Pointers([](void** ptrs, const int64_t*) -> int32_t {
    *static_cast<float*>(ptrs[1]) = *static_cast<const float*>(ptrs[0]) * *static_cast<const float*>(ptrs[2]);
    return 0;
  });
  EXPECT_THAT(CallNative(function, call.call), IsOk());
  EXPECT_EQ(call.results[0].values<float>(), std::vector<float>{3});
}

TEST_F(NativeFunctionTest, ScratchLivesUntilTheFunctionReturns) {
  const auto function = WithCall([](const callout_call* call) -> int32_t {
    for (uint64_t bytes : {0, 1, 100, 1 << 20}) {
      void* memory = call->allocate(call->allocator, bytes, 64);
      if (memory == nullptr || reinterpret_cast<uintptr_t>(memory) % 64 != 0) return 1;
      std::memset(memory, 1, bytes);
    }
    if (call->allocate(call->allocator, uint64_t{1} << 63, 8) != nullptr) return 2;
    return call->allocate(call->allocator, 8, 128) == nullptr ? 0 : 3;
  });
  EXPECT_THAT(CallNative(function, NoBuffers().call), IsOk());
}

TEST_F(NativeFunctionTest, PointersFormReportsItsErrorCode) {
  const auto function = Pointers([](void**, const int64_t*) -> int32_t { return -7; });
  EXPECT_THAT(CallNative(function, NoBuffers().call),
              StatusIs(StatusCode::kInternal, "the function returned error code -7"));
}

TEST_F(NativeFunctionTest, CallFormSeesTheWholeCall) {
  const auto function = WithCall([](const callout_call* call) -> int32_t {
    const bool right = call->struct_size == sizeof(callout_call) && call->num_args == 1 && call->num_results == 0 &&
                       call->device_ordinal == 2 && call->run_id == 5 && call->args[0].size_bytes == 8;
    return right ? 0 : 1;
  });
  EXPECT_THAT(CallNative(function, TestCall({TestBuffer::Scalar(1.0)}, {}).call), IsOk());
}

TEST_F(NativeFunctionTest, CallFormReportsCodeAndText) {
  const auto function = WithCall([](const callout_call* call) -> int32_t {
    call->set_error(call->error_context, 11, "index 9 of 4 and more", 12);
    return 1;
  });
  const Status status = CallNative(function, NoBuffers().call);
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_EQ(status.message(), "index 9 of 4");
}

TEST_F(NativeFunctionTest, ErrorsOfFunctionsAreOfTheKindOfCallbacksWhateverTheySay) {
  const auto says = WithCall([](const callout_call* call) -> int32_t {
    constexpr std::string_view kText = "check failed: ForkError: does not fit: no callback is bound: out of memory";
    call->set_error(call->error_context, 5, kText.data(), kText.size());
    return 1;
  });
  EXPECT_EQ(CallNative(says, NoBuffers().call).kind(), StatusKind::kCallback);
  const auto returns = Pointers([](void**, const int64_t*) -> int32_t { return 5; });
  EXPECT_EQ(CallNative(returns, NoBuffers().call).kind(), StatusKind::kCallback);
}

TEST_F(NativeFunctionTest, FailureAfterMemoryWasRefusedIsOfTheKindOfMemory) {
  const auto function = WithCall([](const callout_call* call) -> int32_t {
    if (call->allocate(call->allocator, uint64_t{1} << 63, 8) != nullptr) return 0;
    call->set_error(call->error_context, 3, "no room", 7);
    return 1;
  });
  const Status status = CallNative(function, NoBuffers().call);
  EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument, "no room"));
  EXPECT_EQ(status.kind(), StatusKind::kMemory);
}

TEST_F(NativeFunctionTest, CallOfThisCoreGetsAFailureWhole) {
  const auto function = WithCall([](const callout_call* call) -> int32_t {
    FailCall(*call, Status::OfException(StatusCode::kAborted, "KeyError: 'k'", 7));
    return 1;
  });
  const Status status = CallNative(function, NoBuffers().call);
  EXPECT_THAT(status, StatusIs(StatusCode::kAborted, "KeyError: 'k'"));
  EXPECT_EQ(status.kind(), StatusKind::kException);
  EXPECT_EQ(status.exception(), 7U);
}

TEST_F(NativeFunctionTest, CallOfAnotherHostGetsCodeAndText) {
  std::string got;
  callout_call call = NoBuffers().call;
  call.error_context = &got;
  call.set_error = [](void* context, int32_t code, const char* message, size_t length) {
    *static_cast<std::string*>(context) = std::to_string(code) + std::string(message, length);
  };
  FailCall(call, Status(StatusCode::kAborted, " words", StatusKind::kCheck));
  EXPECT_EQ(got, "10 words");
}

TEST_F(NativeFunctionTest, ErrorWithoutATextNamesTheCode) {
  const auto function = WithCall([](const callout_call*) -> int32_t { return 3; });
  EXPECT_THAT(CallNative(function, NoBuffers().call), StatusIs(StatusCode::kInternal, "returned error code 3"));
}

TEST_F(NativeFunctionTest, ATextThatThereIsNoMemoryForLeavesTheCode) {
  const auto function = WithCall([](const callout_call* call) -> int32_t {
    call->set_error(call->error_context, 11, "text", ~size_t{0});
    return 1;
  });
  EXPECT_THAT(CallNative(function, NoBuffers().call), StatusIs(StatusCode::kOutOfRange, "returned error code 1"));
}

TEST_F(NativeFunctionTest, CodesThatAreNotCanonicalBecomeInternal) {
  const auto function = WithCall([](const callout_call* call) -> int32_t {
    call->set_error(call->error_context, 17, "odd", 3);
    return 1;
  });
  EXPECT_THAT(CallNative(function, NoBuffers().call), StatusIs(StatusCode::kInternal, "odd"));
}

TEST_F(NativeFunctionTest, ErrorThatWasSetDoesNotCountWithoutTheReturnValue) {
  const auto function = WithCall([](const callout_call* call) -> int32_t {
    call->set_error(call->error_context, 13, "recovered", 9);
    return 0;
  });
  EXPECT_THAT(CallNative(function, NoBuffers().call), IsOk());
}

TEST_F(NativeFunctionTest, ExceptionsOfEitherKindBecomeErrors) {
  const auto standard = Pointers([](void**, const int64_t*) -> int32_t { throw std::runtime_error("std boom"); });
  EXPECT_THAT(CallNative(standard, NoBuffers().call), StatusIs(StatusCode::kInternal, "std boom"));
  const auto other = WithCall([](const callout_call*) -> int32_t { throw 42; });
  EXPECT_THAT(CallNative(other, NoBuffers().call),
              StatusIs(StatusCode::kInternal, "it threw something that is not a std::exception"));
}

TEST_F(NativeFunctionTest, TapRecordIsACallWithoutResults) {
  const auto function = WithCall([](const callout_call* call) -> int32_t {
    return call->num_args == 1 && call->num_results == 0 && call->device_ordinal == 3 && call->run_id == 8 ? 0 : 1;
  });
  const auto callback = MakeNativeFunction("f", function);
  ASSERT_THAT(callback, IsOk());
  EXPECT_EQ(callback.value()->worker(), Worker::kNative);
  TestBuffer buffer = TestBuffer::Scalar(1);
  const callout_buffer view = buffer.view();
  Record record = {};
  record.buffers = {&view, 1};
  record.device_ordinal = 3;
  record.run_id = 8;
  EXPECT_THAT(callback.value()->Deliver(record), IsOk());
}

TEST_F(NativeFunctionTest, RecordOfAnotherAbiVersionIsRefused) {
  callout_function function = WithCall([](const callout_call*) -> int32_t { return 0; });
  function.abi_version = 2;
  EXPECT_THAT(MakeNativeFunction("f", function),
              StatusIs(StatusCode::kInvalidArgument,
                       "native callback 'f' was built for Callout ABI version 2; this core has version 1"));
  function.abi_version = CALLOUT_ABI_VERSION;
  function.struct_size = offsetof(callout_function, parameters) - 1;
  EXPECT_THAT(MakeNativeFunction("f", function), StatusIs(StatusCode::kInvalidArgument, "'f'"));
  function.struct_size = offsetof(callout_function, parameters);  // a writer that knows no more fields
  EXPECT_THAT(MakeNativeFunction("f", function), IsOk());
  function.struct_size = sizeof(callout_function);
  function.reserved = 1;
  EXPECT_THAT(MakeNativeFunction("f", function), StatusIs(StatusCode::kUnimplemented, "'f' says in `reserved`"));
  const callout_parameter parameter = {CALLOUT_PARAMETER_IN, 0, -1, 1, nullptr};
  function.reserved = 0;
  function.parameters = &parameter;
  function.num_parameters = 1;
  EXPECT_THAT(MakeNativeFunction("f", function), StatusIs(StatusCode::kUnimplemented, "'f' says in `reserved`"));
  function.parameters = nullptr;
  function.num_parameters = 0;
  function.struct_size = sizeof(callout_function) + 8;  // a later writer knows more fields
  EXPECT_THAT(MakeNativeFunction("f", function), IsOk());
}

TEST_F(NativeFunctionTest, RecordOfUnknownKindOrWithoutFunctionIsRefused) {
  callout_function function = WithCall([](const callout_call*) -> int32_t { return 0; });
  function.kind = 3;
  EXPECT_THAT(MakeNativeFunction("f", function), StatusIs(StatusCode::kInvalidArgument, "unknown kind 3"));
  function.kind = CALLOUT_FUNCTION_CALL;
  function.fn = nullptr;
  EXPECT_THAT(MakeNativeFunction("f", function), StatusIs(StatusCode::kInvalidArgument, "has no function"));
}

std::string InLibrary(const std::string& symbol) { return std::string(CALLOUT_NATIVE_CALLBACKS) + ":" + symbol; }

TEST_F(NativeFunctionTest, LoadsADefinedCallback) {
  const auto callback = LoadNativeFunction("twice", InLibrary("scale"));
  ASSERT_THAT(callback, IsOk());
  EXPECT_EQ(callback.value()->label(), "twice");
  TestCall call({TestBuffer::Of<float>({3}, {1, 2, 3})}, {TestBuffer::Zeros(DType::kFloat32, {3})});
  EXPECT_THAT(callback.value()->Call(call.call), IsOk());
  EXPECT_EQ(call.results[0].values<float>(), (std::vector<float>{2, 4, 6}));
}

TEST_F(NativeFunctionTest, LoadedCallbacksErrorsComeBack) {
  const auto scale = LoadNativeFunction("scale", InLibrary("scale"));
  ASSERT_THAT(scale, IsOk());
  EXPECT_THAT(scale.value()->Call(TestCall({TestBuffer::Scalar(1.0)}, {}).call),
              StatusIs(StatusCode::kInternal, "argument 0: expected XLA element type 11, got 12"));
  const auto refuse = LoadNativeFunction("refuse", InLibrary("refuse"));
  ASSERT_THAT(refuse, IsOk());
  EXPECT_THAT(refuse.value()->Call(NoBuffers().call), StatusIs(StatusCode::kInternal, "refused from afar"));
}

TEST_F(NativeFunctionTest, LoadsAPlainFunction) {
  const auto callback = LoadNativeFunction("sum", InLibrary("sum_plain"));
  ASSERT_THAT(callback, IsOk());
  TestCall call({TestBuffer::Of<double>({4}, {1, 2, 3, 4})}, {TestBuffer::Zeros(DType::kFloat64, {})});
  EXPECT_THAT(callback.value()->Call(call.call), IsOk());
  EXPECT_EQ(call.results[0].values<double>(), std::vector<double>{10});
}

TEST_F(NativeFunctionTest, LoadErrorsNameWhatWasAttempted) {
  EXPECT_THAT(LoadNativeFunction("f", InLibrary("absent")),
              StatusIs(StatusCode::kNotFound, "exports neither 'absent' nor 'absent_callout_record'"));
  EXPECT_THAT(LoadNativeFunction("f", InLibrary("old")), StatusIs(StatusCode::kInvalidArgument, "ABI version 2"));
  EXPECT_THAT(LoadNativeFunction("f", "/no/such.so:f"), StatusIs(StatusCode::kNotFound, "'/no/such.so'"));
  for (const char* spec : {"", "libmine.so", "libmine.so:", ":f"}) {
    EXPECT_THAT(
        LoadNativeFunction("f", spec),
        StatusIs(StatusCode::kInvalidArgument, "expected \"path/lib.so:symbol\", got '" + std::string(spec) + "'"));
  }
}

}  // namespace
}  // namespace callout::internal
