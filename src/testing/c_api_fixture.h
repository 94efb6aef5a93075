// SPDX-License-Identifier: Apache-2.0
//
// Runs the C interface on the CPU plugin, as a C program does.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <future>

#include "callout/dtype.h"
#include "testing/c_closures.h"
#include "testing/host_programs.h"
#include "testing/live_counts.h"
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
    const callout_client_options options = {sizeof(options), &devices, 1, 0, 0};
    ASSERT_THAT(Take(callout_client_create(plugin, &options, &client_)), IsOk());
    callout_plugin_destroy(plugin);  // The client keeps the plugin.
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
  // Compiles a program with one callback, which only the executable keeps.
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

}  // namespace
}  // namespace callout
