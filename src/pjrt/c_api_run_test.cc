// SPDX-License-Identifier: Apache-2.0
//
// callout/c_api.h with the real CPU plugin, the whole way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <future>

#include "callout/dtype.h"
#include "pjrt/testdata/c_closures.h"
#include "pjrt/testdata/programs.h"
#include "testing/live_counts.h"
#include "testing/spin.h"
#include "testing/status_matchers.h"

namespace callout {
namespace {

using internal::IsOk;
using internal::StatusIs;
using testdata::Adder;
using testdata::MakeAdder;
using testdata::Take;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr auto kF32 = static_cast<uint32_t>(DType::kFloat32);
using Values = std::array<float, 4>;

class CApiRunTest : public internal::LiveCountTest {
 protected:
  static void SetUpTestSuite() {
    callout_plugin* plugin = nullptr;
    ASSERT_THAT(Take(callout_plugin_load(CALLOUT_TEST_PLUGIN, &plugin)), IsOk());
    callout_option devices = {};
    devices.name = "cpu_device_count";
    devices.kind = CALLOUT_OPTION_INTEGER;
    devices.integer = 2;
    const callout_client_options options = {sizeof(options), &devices, 1};
    ASSERT_THAT(Take(callout_client_create(plugin, &options, &client_)), IsOk());
    callout_plugin_destroy(plugin);  // the client keeps it
  }
  static void TearDownTestSuite() { callout_client_destroy(client_); }

  static Status Compile(const std::string& code, std::vector<callout_callback*> callbacks, callout_executable** out,
                        int32_t num_replicas = 0) {
    callout_program* program = nullptr;
    CALLOUT_RETURN_IF_ERROR(Take(callout_program_from_bytes(code.data(), code.size(), &program)));
    callout_compile_options options = {};
    options.struct_size = sizeof(options);
    options.callbacks = callbacks.data();
    options.num_callbacks = callbacks.size();
    options.num_replicas = num_replicas;
    Status status = Take(callout_compile(client_, program, &options, out));
    callout_program_destroy(program);
    return status;
  }
  // Of one callback, which only the executable keeps.
  static callout_executable* CompileWith(const std::string& code, const char* name, Adder& adder,
                                         int32_t num_replicas = 0) {
    callout_callback* callback = MakeAdder(name, adder);
    callout_executable* executable = nullptr;
    EXPECT_THAT(Compile(code, {callback}, &executable, num_replicas), IsOk());
    callout_callback_destroy(callback);
    return executable;
  }
  static callout_array* Array(const Values& values = {1, 2, 3, 4}, size_t device = 0) {
    const int64_t dims[] = {4};
    callout_array* array = nullptr;
    EXPECT_THAT(Take(callout_array_from_host(client_, device, kF32, dims, 1, values.data(), sizeof(values), &array)),
                IsOk());
    return array;
  }
  static Values ToHost(callout_array* array) {
    Values values = {};
    EXPECT_THAT(Take(callout_array_to_host(array, values.data(), sizeof(values))), IsOk());
    return values;
  }
  static Status Run(const callout_executable* executable, Values* values = nullptr,
                    const callout_execute_options* options = nullptr) {
    callout_array* x = Array();
    callout_array* y = nullptr;
    Status status = Take(callout_execute(executable, &x, 1, options, &y, 1));
    if (status.ok() && values != nullptr) *values = ToHost(y);
    callout_array_destroy(y);
    callout_array_destroy(x);
    return status;
  }

  static callout_client* client_;
};

callout_client* CApiRunTest::client_ = nullptr;

TEST_F(CApiRunTest, SaysWhatItHas) {
  callout_plugin* plugin = nullptr;
  ASSERT_THAT(Take(callout_plugin_load(CALLOUT_TEST_PLUGIN, &plugin)), IsOk());
  int32_t major = -1;
  int32_t minor = -1;
  callout_plugin_version(plugin, &major, &minor);
  EXPECT_EQ(major, 0);
  EXPECT_EQ(minor, 81);
  EXPECT_STREQ(callout_plugin_path(plugin), CALLOUT_TEST_PLUGIN);
  callout_plugin_destroy(plugin);
  EXPECT_STREQ(callout_client_platform(client_), "cpu");
  ASSERT_EQ(callout_client_num_devices(client_), 2U);
  callout_device device = {};
  device.struct_size = sizeof(device);
  ASSERT_THAT(Take(callout_client_device(client_, 1, &device)), IsOk());
  EXPECT_EQ(device.ordinal, 1);
  EXPECT_STREQ(device.kind, "cpu");
  EXPECT_THAT(Take(callout_client_device(client_, 2, &device)),
              StatusIs(StatusCode::kOutOfRange, "there is no device 2; the client has 2"));
  device.struct_size = 0;
  EXPECT_THAT(Take(callout_client_device(client_, 0, &device)),
              StatusIs(StatusCode::kInvalidArgument, "out->struct_size is 0; expected 24"));
}

TEST_F(CApiRunTest, OptionsOfAClientAreChecked) {
  callout_plugin* plugin = nullptr;
  ASSERT_THAT(Take(callout_plugin_load(CALLOUT_TEST_PLUGIN, &plugin)), IsOk());
  callout_option option = {};
  callout_client_options options = {sizeof(options), &option, 1};
  callout_client* client = nullptr;
  const auto create = [&] { return Take(callout_client_create(plugin, &options, &client)); };
  EXPECT_THAT(create(), StatusIs(StatusCode::kInvalidArgument, "option 0 has no name"));
  option.name = "x";
  EXPECT_THAT(create(), StatusIs(StatusCode::kInvalidArgument, "option 'x' is of the unknown kind 0"));
  option.kind = CALLOUT_OPTION_STRING;
  EXPECT_THAT(create(), StatusIs(StatusCode::kInvalidArgument, "option 'x' has no text"));
  option.kind = CALLOUT_OPTION_INTEGERS;
  option.num_integers = 1;
  EXPECT_THAT(create(), StatusIs(StatusCode::kInvalidArgument, "option 'x' has no integers"));
  options.struct_size = 1;
  EXPECT_THAT(create(), StatusIs(StatusCode::kInvalidArgument, "callout_client_create: struct_size of the options"));
  EXPECT_EQ(client, nullptr);
  callout_plugin_destroy(plugin);
}

TEST_F(CApiRunTest, CallsClosuresAndLetsGoOfThem) {
  Adder one{.k = 1};
  Adder ten{.k = 10};
  callout_callback* callbacks[] = {MakeAdder("one", one), MakeAdder("ten", ten)};
  callout_executable* executable = nullptr;
  ASSERT_THAT(Compile(testdata::Chain({"one", "ten", "one"}), {callbacks[0], callbacks[1]}, &executable), IsOk());
  for (callout_callback* callback : callbacks) callout_callback_destroy(callback);
  EXPECT_EQ(callout_executable_num_devices(executable), 1U);
  EXPECT_EQ(callout_executable_num_outputs(executable), 1U);
  ASSERT_EQ(callout_executable_num_names(executable), 2U);
  EXPECT_STREQ(callout_executable_name(executable, 0), "one");
  EXPECT_STREQ(callout_executable_name(executable, 1), "ten");
  EXPECT_EQ(callout_executable_name(executable, 2), nullptr);
  Values values = {};
  const callout_execute_options options = {sizeof(options), 77, 0, nullptr, 0};
  ASSERT_THAT(Run(executable, &values, &options), IsOk());
  EXPECT_THAT(values, ElementsAre(13, 14, 15, 16));
  EXPECT_EQ(one.calls, 2);
  EXPECT_EQ(one.run_id, 77);
  EXPECT_EQ(one.destroyed, 0);
  callout_executable_destroy(executable);
  EXPECT_EQ(one.destroyed, 1);
  EXPECT_EQ(ten.destroyed, 1);
}

TEST_F(CApiRunTest, AnArgumentCanBeDonated) {
  const std::string code =
      "module @m { func.func public @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {\n"
      "%y = stablehlo.add %x, %x : tensor<4xf32>\nreturn %y : tensor<4xf32> } }";
  callout_executable* executable = nullptr;
  ASSERT_THAT(Compile(code, {}, &executable), IsOk());
  const int64_t first[] = {0};
  callout_execute_options options = {sizeof(options), 0, 0, nullptr, 1};
  EXPECT_THAT(Run(executable, nullptr, &options), StatusIs(StatusCode::kInvalidArgument, "donated_inputs is null"));
  options.donated_inputs = first;
  callout_array* x = Array();
  callout_array* y = nullptr;
  ASSERT_THAT(Take(callout_execute(executable, &x, 1, &options, &y, 1)), IsOk());
  EXPECT_THAT(ToHost(y), ElementsAre(2, 4, 6, 8));
  Values gone = {};
  EXPECT_FALSE(Take(callout_array_to_host(x, gone.data(), sizeof(gone))).ok());
  callout_array_destroy(y);
  callout_array_destroy(x);
  callout_executable_destroy(executable);
}

TEST_F(CApiRunTest, BytesThatAreNoProgramAreRefused) {
  callout_program* program = nullptr;
  EXPECT_THAT(Take(callout_program_from_bytes("x", 1, &program)),
              StatusIs(StatusCode::kInvalidArgument, "1 bytes are no program"));
}

TEST_F(CApiRunTest, AFailureHasItsCodeAndText) {
  Adder fails{.error = "the disk is gone"};
  callout_executable* executable = CompileWith(testdata::Chain({"f"}), "f", fails);
  EXPECT_THAT(Run(executable), StatusIs(StatusCode::kDataLoss, AllOf(HasSubstr("callback 'f' failed on device 0"),
                                                                     HasSubstr("the disk is gone"))));
  callout_executable_destroy(executable);
  EXPECT_EQ(fails.destroyed, 1);
}

TEST_F(CApiRunTest, AnUnboundNameFailsTheCompilation) {
  callout_executable* executable = nullptr;
  EXPECT_THAT(Compile(testdata::Chain({"f"}), {}, &executable),
              StatusIs(StatusCode::kNotFound, "no callback is bound to the name 'f'"));
  EXPECT_THAT(Compile("this is no program", {}, &executable), ::testing::Not(IsOk()));
  EXPECT_THAT(Compile(testdata::Chain({"f"}), {}, &executable, -1),
              StatusIs(StatusCode::kInvalidArgument, "at least one replica"));
  EXPECT_EQ(executable, nullptr);
}

TEST_F(CApiRunTest, OptionsOfACompilationAreChecked) {
  callout_program* program = nullptr;
  ASSERT_THAT(Take(callout_program_from_bytes("func", 4, &program)), IsOk());
  callout_compile_options options = {};
  callout_executable* executable = nullptr;
  const auto compile = [&] { return Take(callout_compile(client_, program, &options, &executable)); };
  EXPECT_THAT(compile(), StatusIs(StatusCode::kInvalidArgument, "callout_compile: struct_size of the options is 0"));
  options.struct_size = sizeof(options);
  options.num_callbacks = 1;
  EXPECT_THAT(compile(), StatusIs(StatusCode::kInvalidArgument, "callback 0 is null"));
  options.num_callbacks = 0;
  options.num_assigned = 1;
  EXPECT_THAT(compile(), StatusIs(StatusCode::kInvalidArgument, "device_assignment is null"));
  callout_program_destroy(program);
}

TEST_F(CApiRunTest, TapsAreDeliveredBeforeTheBarrier) {
  Adder tap;
  callout_executable* executable = CompileWith(testdata::TapLoop("t", 3), "t", tap);
  ASSERT_THAT(Run(executable), IsOk());
  ASSERT_THAT(Take(callout_barrier_wait(60)), IsOk());
  EXPECT_THAT(tap.seen, ElementsAre(1, 2, 4));
  tap.error = "tap failed";
  ASSERT_THAT(Run(executable), IsOk());
  EXPECT_THAT(Take(callout_barrier_wait(60)), StatusIs(StatusCode::kInternal, "3 taps failed"));
  callout_executable_destroy(executable);
  EXPECT_THAT(Take(callout_barrier_wait(60)), IsOk());
}

TEST_F(CApiRunTest, RunsOnSeveralDevices) {
  Adder ten{.k = 10};
  callout_executable* executable = CompileWith(testdata::Chain({"f"}), "f", ten, 2);
  ASSERT_EQ(callout_executable_num_devices(executable), 2U);
  callout_array* arguments[] = {Array({1, 2, 3, 4}, 0), Array({5, 6, 7, 8}, 1)};
  callout_array* outputs[2] = {};
  ASSERT_THAT(Take(callout_execute(executable, arguments, 1, nullptr, outputs, 2)), IsOk());
  EXPECT_THAT(ToHost(outputs[0]), ElementsAre(11, 12, 13, 14));
  EXPECT_THAT(ToHost(outputs[1]), ElementsAre(15, 16, 17, 18));
  EXPECT_THAT(Take(callout_execute(executable, arguments, 1, nullptr, outputs, 1)),
              StatusIs(StatusCode::kInvalidArgument, "has 2 outputs on all devices, there is room for 1"));
  for (callout_array* array : {arguments[0], arguments[1], outputs[0], outputs[1]}) callout_array_destroy(array);
  callout_executable_destroy(executable);
}

TEST_F(CApiRunTest, ArgumentsAreChecked) {
  Adder adder;
  callout_executable* executable = CompileWith(testdata::Chain({"f"}), "f", adder);
  callout_array* x = Array();
  callout_array* y = nullptr;
  callout_array* none = nullptr;
  const auto run = [&](callout_array* const* arguments, size_t count) {
    return Take(callout_execute(executable, arguments, count, nullptr, &y, 1));
  };
  EXPECT_THAT(run(&none, 1), StatusIs(StatusCode::kInvalidArgument, "callout_execute: argument 0 of device 0 is null"));
  EXPECT_THAT(run(nullptr, 1), StatusIs(StatusCode::kInvalidArgument, "argument 0 of device 0 is null"));
  EXPECT_THAT(run(nullptr, 0), ::testing::Not(IsOk()));
  EXPECT_THAT(Take(callout_execute(executable, &x, 1, nullptr, nullptr, 1)),
              StatusIs(StatusCode::kInvalidArgument, "outputs is null"));
  const callout_execute_options unsized = {};
  EXPECT_THAT(Take(callout_execute(executable, &x, 1, &unsized, &y, 1)),
              StatusIs(StatusCode::kInvalidArgument, "callout_execute: struct_size of the options is 0"));
  EXPECT_EQ(adder.calls, 0);
  callout_array_destroy(x);
  callout_executable_destroy(executable);
}

TEST_F(CApiRunTest, ArraysOfAnotherClientAreRefused) {
  callout_plugin* plugin = nullptr;
  callout_client* other = nullptr;
  ASSERT_THAT(Take(callout_plugin_load(CALLOUT_TEST_PLUGIN, &plugin)), IsOk());
  ASSERT_THAT(Take(callout_client_create(plugin, nullptr, &other)), IsOk());
  const float value = 1;
  callout_array* scalar = nullptr;
  ASSERT_THAT(Take(callout_array_from_host(other, 0, kF32, nullptr, 0, &value, sizeof(value), &scalar)), IsOk());
  callout_plugin_destroy(plugin);
  callout_client_destroy(other);  // the array keeps it
  Adder adder;
  callout_executable* executable = CompileWith(testdata::Chain({"f"}), "f", adder);
  callout_array* y = nullptr;
  EXPECT_THAT(Take(callout_execute(executable, &scalar, 1, nullptr, &y, 1)),
              StatusIs(StatusCode::kInvalidArgument, "argument 0 of device 0 is of another client"));
  callout_array_destroy(scalar);
  callout_executable_destroy(executable);
}

TEST_F(CApiRunTest, ArraysComeBackAsTheyWent) {
  callout_array* array = Array({1, 2, 3, 4}, 1);
  uint32_t dtype = 0;
  const int64_t* dims = nullptr;
  size_t rank = 0;
  size_t size = 0;
  ASSERT_THAT(Take(callout_array_dtype(array, &dtype)), IsOk());
  ASSERT_THAT(Take(callout_array_dims(array, &dims, &rank)), IsOk());
  ASSERT_THAT(Take(callout_array_size_bytes(array, &size)), IsOk());
  EXPECT_EQ(dtype, kF32);
  ASSERT_EQ(rank, 1U);
  EXPECT_EQ(dims[0], 4);
  EXPECT_EQ(size, 16U);
  EXPECT_THAT(ToHost(array), ElementsAre(1, 2, 3, 4));
  char small[8];
  EXPECT_THAT(Take(callout_array_to_host(array, small, sizeof(small))),
              StatusIs(StatusCode::kInvalidArgument, "the array has 16 bytes, there is room for 8"));
  EXPECT_THAT(Take(callout_array_to_host(array, nullptr, 16)),
              StatusIs(StatusCode::kInvalidArgument, "callout_array_to_host: data is null"));
  callout_array_destroy(array);
}

TEST_F(CApiRunTest, ElementsOfLessThanAByteTakeOneEach) {
  const signed char values[] = {-8, 7, 3};
  const int64_t dims[] = {3};
  callout_array* array = nullptr;
  ASSERT_THAT(Take(callout_array_from_host(client_, 0, static_cast<uint32_t>(DType::kInt4), dims, 1, values,
                                           sizeof(values), &array)),
              IsOk());
  size_t size = 0;
  ASSERT_THAT(Take(callout_array_size_bytes(array, &size)), IsOk());
  ASSERT_EQ(size, 3U);
  signed char back[3] = {};
  ASSERT_THAT(Take(callout_array_to_host(array, back, sizeof(back))), IsOk());
  for (signed char& value : back) value &= 15;  // the other bits are XLA's
  EXPECT_THAT(back, ElementsAre(8, 7, 3));
  callout_array_destroy(array);
}

TEST_F(CApiRunTest, ArraysWithoutElements) {
  const int64_t dims[] = {0, 3};
  callout_array* array = nullptr;
  ASSERT_THAT(Take(callout_array_from_host(client_, 0, kF32, dims, 2, nullptr, 0, &array)), IsOk());
  EXPECT_THAT(Take(callout_array_to_host(array, nullptr, 0)), IsOk());
  callout_array_destroy(array);
}

TEST_F(CApiRunTest, ArraysThatCannotBeAreRefused) {
  const float values[2] = {};
  callout_array* array = nullptr;
  const auto make = [&](uint32_t dtype, std::vector<int64_t> dims, const void* data, size_t size, size_t device = 0) {
    return Take(callout_array_from_host(client_, device, dtype, dims.data(), dims.size(), data, size, &array));
  };
  const auto refused = [](const char* text) { return StatusIs(StatusCode::kInvalidArgument, std::string(text)); };
  EXPECT_THAT(make(kF32, {3}, values, 8), refused("callout_array_from_host: expected 12 bytes, got 8"));
  EXPECT_THAT(make(kF32, {2}, nullptr, 8), refused("data is null"));
  EXPECT_THAT(make(kF32, {-1}, values, 8), refused("an extent is -1"));
  EXPECT_THAT(make(kF32, {int64_t{1} << 62, 4}, values, 8), refused("the array is too large"));
  EXPECT_THAT(make(999, {2}, values, 8), refused("there is no dtype 999"));
  EXPECT_THAT(make(kF32, {2}, values, 8, 2), StatusIs(StatusCode::kOutOfRange, "there is no device 2"));
  EXPECT_THAT(Take(callout_array_from_host(client_, 0, kF32, nullptr, 1, values, 8, &array)), refused("dims is null"));
  EXPECT_EQ(array, nullptr);
}

TEST_F(CApiRunTest, ARunThatWasStartedIsWaitedForAndHandsOverItsOutputs) {
  Adder ten{.k = 10};
  callout_executable* executable = CompileWith(testdata::Chain({"f"}), "f", ten);
  callout_array* x = Array();
  callout_execution* run = nullptr;
  ASSERT_THAT(Take(callout_execution_start(executable, &x, 1, nullptr, &run)), IsOk());
  callout_array* y = nullptr;
  ASSERT_THAT(Take(callout_execution_take(run, 0, 0, &y)), IsOk());
  EXPECT_THAT(Take(callout_execution_take(run, 0, 0, &y)),
              StatusIs(StatusCode::kFailedPrecondition, "output 0 of device 0 was taken"));
  EXPECT_THAT(Take(callout_execution_take(run, 0, 1, &y)), StatusIs(StatusCode::kOutOfRange, "there is none"));
  EXPECT_THAT(Take(callout_execution_take(run, 1, 0, &y)), StatusIs(StatusCode::kOutOfRange, "there is none"));
  EXPECT_THAT(Take(callout_execution_wait(run, 60)), IsOk());
  EXPECT_THAT(Take(callout_execution_wait(run, -1)), IsOk());
  callout_execution_destroy(run);
  EXPECT_THAT(ToHost(y), ElementsAre(11, 12, 13, 14));
  callout_array_destroy(y);
  callout_array_destroy(x);
  callout_executable_destroy(executable);
}

// The program is heavy enough for XLA to run it on a thread of its own.
TEST_F(CApiRunTest, ARunThatTakesLongIsWaitedForAgain) {
  struct Gate {
    std::promise<void> open;
    std::future<void> opened = open.get_future();
  } gate;
  const int64_t callbacks_before = internal::LiveCount(internal::LiveKind::kCallback);
  const callout_closure closure = {sizeof(closure),
                                   [](void* context, const callout_call*) {
                                     static_cast<Gate*>(context)->opened.wait();
                                     return 0;
                                   },
                                   &gate, nullptr};
  callout_callback* callback = nullptr;
  ASSERT_THAT(Take(callout_callback_from_closure("f", &closure, &callback)), IsOk());
  callout_executable* executable = nullptr;
  ASSERT_THAT(Compile(testdata::ProductThenCall("f", 256), {callback}, &executable), IsOk());
  callout_callback_destroy(callback);
  const std::vector<float> values(size_t{256} * 256);
  const int64_t dims[] = {256, 256};
  callout_array* x = nullptr;
  ASSERT_THAT(
      Take(callout_array_from_host(client_, 0, kF32, dims, 2, values.data(), values.size() * sizeof(float), &x)),
      IsOk());
  callout_execution* run = nullptr;
  ASSERT_THAT(Take(callout_execution_start(executable, &x, 1, nullptr, &run)), IsOk());
  callout_array_destroy(x);
  callout_executable_destroy(executable);
  EXPECT_THAT(Take(callout_execution_wait(run, 0.01)), StatusIs(StatusCode::kDeadlineExceeded, "in time"));
  gate.open.set_value();
  EXPECT_THAT(Take(callout_execution_wait(run, 60)), IsOk());
  callout_execution_destroy(run);
  // XLA's thread, which has just said that the run is over, has yet to let go of the program.
  internal::SpinUntil([&] { return internal::LiveCount(internal::LiveKind::kCallback) == callbacks_before; });
}

}  // namespace
}  // namespace callout
