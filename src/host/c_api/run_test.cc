// SPDX-License-Identifier: Apache-2.0
//
// Tests the clients, programs and runs of callout/c_api.h.
#include <atomic>

#include "host/c_api/edge.h"
#include "testing/c_api_fixture.h"
#include "testing/spin.h"

namespace callout {
namespace {

TEST_F(CApiRunTest, HandlersNeedANameAndAFunction) {
  callout_plugin* plugin = nullptr;
  ASSERT_THAT(Take(callout_plugin_load(CALLOUT_TEST_PLUGIN, &plugin)), IsOk());
  callout_ffi_handler handler = {};
  handler.struct_size = sizeof(handler);
  EXPECT_THAT(Take(callout_plugin_register_handler(plugin, &handler)),
              StatusIs(StatusCode::kInvalidArgument, "a handler needs a name"));
  handler.name = "c_api.nothing";
  EXPECT_THAT(Take(callout_plugin_register_handler(plugin, &handler)),
              StatusIs(StatusCode::kInvalidArgument, "'c_api.nothing' has no function for the stage execute"));
  EXPECT_THAT(Take(callout_plugin_register_handler(plugin, nullptr)),
              StatusIs(StatusCode::kInvalidArgument, "handler"));
  callout_ffi_function found = nullptr;
  EXPECT_THAT(Take(callout_find_ffi_function("libc.so.6:no_such_function", &found)),
              StatusIs(StatusCode::kNotFound, "'libc.so.6' has no symbol 'no_such_function'"));
  EXPECT_THAT(Take(callout_find_ffi_function("libc.so.6", &found)), StatusIs(StatusCode::kInvalidArgument, "expected"));
  EXPECT_EQ(found, nullptr);
  callout_plugin_destroy(plugin);
}

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
  callout_client_options options = {sizeof(options), &option, 1, 0, 0};
  callout_client* client = nullptr;
  const auto create = [&] { return Take(callout_client_create(plugin, &options, &client)); };
  EXPECT_THAT(create(), StatusIs(StatusCode::kInvalidArgument, "option 0 has no name"));
  option.name = "x";
  option.reserved = 1;
  EXPECT_THAT(create(), StatusIs(StatusCode::kUnimplemented, "option 'x' has a `reserved` that is not 0"));
  option.reserved = 0;
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
  const callout_execute_options options = {sizeof(options), 77, 0, nullptr, 0, 0, nullptr, nullptr};
  ASSERT_THAT(Run(executable, &values, &options), IsOk());
  EXPECT_THAT(values, ElementsAre(13, 14, 15, 16));
  EXPECT_EQ(one.calls, 2);
  EXPECT_EQ(one.run_id, 77);
  EXPECT_EQ(one.destroyed, 0);
  callout_executable_destroy(executable);
  EXPECT_EQ(one.destroyed, 1);
  EXPECT_EQ(ten.destroyed, 1);
}

// An exported file for several shapes may return more arrays for one shape than for another.
TEST_F(CApiRunTest, OutputsOfAnotherShapeMustFitTheirRoom) {
  const auto copies_of = [](int size, int copies) {
    const std::string type = "tensor<" + std::to_string(size) + "xf32>";
    std::string types, values;
    for (int i = 0; i < copies; ++i) {
      types += (i == 0 ? "" : ", ") + type;
      values += i == 0 ? "%x" : ", %x";
    }
    pjrt::Program program{"module @copies {\nfunc.func public @main(%x: " + type + ") -> (" + types + ") {\nreturn " +
                          values + " : " + types + "\n}\n}\n"};
    program.shapes = "b=" + std::to_string(size);
    return program;
  };
  callout_program program{copies_of(3, 1)};
  program.program.others = {copies_of(4, 2)};
  callout_executable* executable = nullptr;
  ASSERT_THAT(Take(callout_compile(client_, &program, nullptr, &executable)), IsOk());
  callout_array* x = Array();
  callout_array* outputs[2] = {};
  EXPECT_THAT(Take(callout_execute(executable, &x, 1, nullptr, outputs, 1)),
              StatusIs(StatusCode::kInvalidArgument, "has 2 outputs on all devices, there is room for 1"));
  EXPECT_EQ(outputs[0], nullptr);
  ASSERT_THAT(Take(callout_execute(executable, &x, 1, nullptr, outputs, 2)), IsOk());
  EXPECT_EQ(ToHost(outputs[1]), (Values{1, 2, 3, 4}));
  for (callout_array* output : outputs) callout_array_destroy(output);
  callout_array_destroy(x);
  callout_executable_destroy(executable);
}

TEST_F(CApiRunTest, AnArgumentCanBeDonated) {
  const std::string code =
      "module @m { func.func public @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {\n"
      "%y = stablehlo.add %x, %x : tensor<4xf32>\nreturn %y : tensor<4xf32> } }";
  callout_executable* executable = nullptr;
  ASSERT_THAT(Compile(code, {}, &executable), IsOk());
  const int64_t first[] = {0};
  callout_execute_options options = {sizeof(options), 0, 0, nullptr, 1, 0, nullptr, nullptr};
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
  EXPECT_THAT(Take(callout_barrier_wait(60)), StatusIs(StatusCode::kDataLoss, "3 taps failed"));
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
  AwaitCallbacks();
  EXPECT_EQ(ten.destroyed, 1);
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
  const callout_execute_options later = {sizeof(later), 0, 1, nullptr, 0, 0, nullptr, nullptr};
  EXPECT_THAT(Take(callout_execute(executable, &x, 1, &later, &y, 1)),
              StatusIs(StatusCode::kUnimplemented, "callout_execute: `reserved` is not 0"));
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
  callout_client_destroy(other);  // the array keeps the client alive
  Adder adder;
  callout_executable* executable = CompileWith(testdata::Chain({"f"}), "f", adder);
  callout_array* y = nullptr;
  EXPECT_THAT(Take(callout_execute(executable, &scalar, 1, nullptr, &y, 1)),
              StatusIs(StatusCode::kInvalidArgument, "argument 0 of device 0 is of another client"));
  callout_array_destroy(scalar);
  callout_executable_destroy(executable);
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

// The program is heavy enough for XLA:CPU to run it on a thread of its own.
TEST_F(CApiRunTest, ARunThatTakesLongIsWaitedForAgain) {
  struct Gate {
    std::promise<void> open;
    std::future<void> opened = open.get_future();
  } gate;
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
  static std::atomic<int> ended;
  ended = 0;
  const callout_execute_options options = {
      sizeof(options), 0, 0, nullptr, 0, 0, nullptr, [](void* context) { ended += context == nullptr ? 1 : 100; }};
  ASSERT_THAT(Take(callout_execution_start(executable, &x, 1, &options, &run)), IsOk());
  callout_array_destroy(x);
  callout_executable_destroy(executable);
  EXPECT_THAT(Take(callout_execution_wait(run, 0.01)), StatusIs(StatusCode::kDeadlineExceeded, "in time"));
  EXPECT_EQ(ended, 0) << "it goes on";
  gate.open.set_value();
  EXPECT_THAT(Take(callout_execution_wait(run, 1e300)), IsOk());  // a time that no clock can count means no limit
  callout_execution_destroy(run);
  internal::SpinUntil([&] { return ended == 1; });
  AwaitCallbacks();
}

}  // namespace
}  // namespace callout
