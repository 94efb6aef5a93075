// SPDX-License-Identifier: Apache-2.0
//
// Tests the part of callout/c_api.h that needs no plugin.
#include "callout/c_api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/callbacks/registry.h"
#include "host/c_api/edge.h"
#include "testing/c_closures.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"

namespace callout {
namespace {

using internal::IsOk;
using internal::Registry;
using internal::StatusIs;
using testdata::Adder;
using testdata::MakeAdder;
using testdata::Take;

using CApiTest = internal::LiveCountTest;

TEST_F(CApiTest, NullIsAnOkStatus) {
  EXPECT_EQ(callout_status_code(nullptr), 0);
  EXPECT_STREQ(callout_status_message(nullptr), "");
  callout_status_destroy(nullptr);
}

TEST_F(CApiTest, WhatIsThrownBecomesAStatus) {
  EXPECT_THAT(Take(internal::GuardC("f", {}, []() -> Status { throw std::runtime_error("thrown"); })),
              StatusIs(StatusCode::kInternal, "callout: thrown"));
  EXPECT_THAT(Take(internal::GuardC("f", {}, []() -> Status { throw 3; })),
              StatusIs(StatusCode::kInternal, "not a std::exception"));
  EXPECT_THAT(Take(internal::GuardC("f", {}, []() -> Status { throw std::bad_alloc(); })),
              StatusIs(StatusCode::kResourceExhausted, "out of memory"));
}

TEST_F(CApiTest, AClosureIsOwnedByItsCallback) {
  Adder adder;
  callout_callback* callback = MakeAdder("f", adder);
  ASSERT_NE(callback, nullptr);
  EXPECT_STREQ(callout_callback_name(callback), "f");
  EXPECT_EQ(adder.destroyed, 0);
  callout_callback_destroy(callback);
  EXPECT_EQ(adder.destroyed, 1);
}

TEST_F(CApiTest, AClosureThatIsRefusedStaysTheCallers) {
  Adder adder;
  callout_closure closure = adder.closure();
  closure.struct_size = 7;
  auto* callback = reinterpret_cast<callout_callback*>(&adder);
  EXPECT_THAT(Take(callout_callback_from_closure("f", &closure, &callback)),
              StatusIs(StatusCode::kInvalidArgument, "the closure for 'f' has struct_size 7"));
  EXPECT_EQ(adder.destroyed, 0);
  EXPECT_EQ(static_cast<void*>(callback), &adder) << "outputs are written on success only";
}

TEST_F(CApiTest, SinksAreOfAKnownKind) {
  callout_callback* sink = nullptr;
  EXPECT_THAT(Take(callout_callback_from_sink("s", CALLOUT_SINK_NULL, nullptr, &sink)), IsOk());
  callout_callback_destroy(sink);
  EXPECT_THAT(Take(callout_callback_from_sink("s", CALLOUT_SINK_PRINT, nullptr, &sink)), IsOk());
  callout_callback_destroy(sink);
  EXPECT_THAT(Take(callout_callback_from_serialized("s", "print", &sink)), IsOk());
  callout_callback_destroy(sink);
  EXPECT_THAT(Take(callout_callback_from_serialized("s", "tape:x", &sink)), StatusIs(StatusCode::kNotFound, "'tape'"));
  EXPECT_THAT(Take(callout_callback_from_sink("s", 9, nullptr, &sink)),
              StatusIs(StatusCode::kInvalidArgument, "there is no kind 9 of sinks"));
  EXPECT_THAT(Take(callout_callback_from_sink("s", CALLOUT_SINK_JSON_LINES, nullptr, &sink)),
              StatusIs(StatusCode::kInvalidArgument, "path is null"));
  EXPECT_FALSE(Take(callout_callback_from_sink("s", CALLOUT_SINK_JSON_LINES, "/dev/null/x", &sink)).ok());
  for (const uint32_t kind :
       {CALLOUT_SINK_CSV, CALLOUT_SINK_TENSORBOARD, CALLOUT_SINK_ARROW, CALLOUT_SINK_NPY, CALLOUT_SINK_ZARR}) {
    EXPECT_THAT(Take(callout_callback_from_sink("s", kind, nullptr, &sink)),
                StatusIs(StatusCode::kInvalidArgument, "path is null"));
    const std::string path = ::testing::TempDir() + "/c_api_sink." + std::to_string(kind);
    EXPECT_THAT(Take(callout_callback_from_sink("s", kind, path.c_str(), &sink)), IsOk());
    callout_callback_destroy(sink);
  }
}

TEST_F(CApiTest, LibrariesAreLoaded) {
  callout_callback* callback = nullptr;
  EXPECT_FALSE(Take(callout_callback_from_library("f", "/no/such/lib.so:f", &callback)).ok());
  EXPECT_THAT(Take(callout_callback_from_library("f", "libm.so.6", &callback)),
              StatusIs(StatusCode::kInvalidArgument, "expected \"path/lib.so:symbol\""));
}

TEST_F(CApiTest, NullsAreNamed) {
  Adder adder;
  const callout_closure closure = adder.closure();
  callout_callback* callback = nullptr;
  const auto refused = [](const char* text) { return StatusIs(StatusCode::kInvalidArgument, std::string(text)); };
  EXPECT_THAT(Take(callout_callback_from_closure(nullptr, &closure, &callback)),
              refused("callout_callback_from_closure: name is null"));
  EXPECT_THAT(Take(callout_callback_from_closure("f", nullptr, &callback)), refused("closure is null"));
  EXPECT_THAT(Take(callout_callback_from_closure("f", &closure, nullptr)), refused("out is null"));
  EXPECT_THAT(Take(callout_callback_from_library("f", nullptr, &callback)), refused("library_and_symbol is null"));
  EXPECT_THAT(Take(callout_callback_from_sink(nullptr, 0, nullptr, &callback)), refused("name is null"));
  EXPECT_THAT(Take(callout_attach(nullptr)), refused("callout_attach: pjrt_api is null"));
  EXPECT_THAT(Take(callout_binding_scope_begin(nullptr, 0, nullptr)), refused("out is null"));
  EXPECT_THAT(Take(callout_plugin_load("x", nullptr)), refused("out is null"));
  EXPECT_THAT(Take(callout_client_create(nullptr, nullptr, nullptr)), refused("plugin is null"));
  EXPECT_THAT(Take(callout_client_device(nullptr, 0, nullptr)), refused("client is null"));
  EXPECT_THAT(Take(callout_program_from_file(nullptr, nullptr)), refused("path is null"));
  EXPECT_THAT(Take(callout_program_from_bytes(nullptr, 0, nullptr)), refused("data is null"));
  EXPECT_THAT(Take(callout_compile(nullptr, nullptr, nullptr, nullptr)), refused("client is null"));
  EXPECT_THAT(Take(callout_array_from_host(nullptr, 0, 11, nullptr, 0, nullptr, 0, nullptr)),
              refused("client is null"));
  EXPECT_THAT(Take(callout_array_dtype(nullptr, nullptr)), refused("array is null"));
  EXPECT_THAT(Take(callout_array_dims(nullptr, nullptr, nullptr)), refused("array is null"));
  EXPECT_THAT(Take(callout_array_size_bytes(nullptr, nullptr)), refused("array is null"));
  EXPECT_THAT(Take(callout_array_to_host(nullptr, nullptr, 0)), refused("array is null"));
  EXPECT_THAT(Take(callout_execute(nullptr, nullptr, 0, nullptr, nullptr, 0)), refused("executable is null"));
  EXPECT_THAT(Take(callout_execution_start(nullptr, nullptr, 0, nullptr, nullptr)), refused("executable is null"));
  EXPECT_THAT(Take(callout_execution_wait(nullptr, 0)), refused("execution is null"));
  EXPECT_THAT(Take(callout_execution_take(nullptr, 0, 0, nullptr)), refused("execution is null"));
  EXPECT_EQ(adder.destroyed, 0);
}

TEST_F(CApiTest, NullHandlesAreNothing) {
  callout_callback_destroy(nullptr);
  callout_plugin_destroy(nullptr);
  callout_client_destroy(nullptr);
  callout_program_destroy(nullptr);
  callout_executable_destroy(nullptr);
  callout_array_destroy(nullptr);
  callout_execution_destroy(nullptr);
  EXPECT_THAT(Take(callout_binding_scope_end(nullptr)), IsOk());
  EXPECT_STREQ(callout_callback_name(nullptr), "");
  EXPECT_STREQ(callout_plugin_path(nullptr), "");
  EXPECT_STREQ(callout_client_platform(nullptr), "");
  EXPECT_EQ(callout_client_num_devices(nullptr), 0U);
  EXPECT_EQ(callout_binding_scope_num_names(nullptr), 0U);
  EXPECT_EQ(callout_binding_scope_name(nullptr, 0), nullptr);
  EXPECT_EQ(callout_executable_num_devices(nullptr), 0U);
  EXPECT_EQ(callout_executable_num_outputs(nullptr), 0U);
  EXPECT_EQ(callout_executable_name(nullptr, 0), nullptr);
  int32_t major = 5;
  callout_plugin_version(nullptr, &major, nullptr);
  EXPECT_EQ(major, 0);
}

struct Grown {
  callout_execute_options known;
  uint64_t later;
};

TEST_F(CApiTest, OptionsOfAnotherSizeAreReadAsFarAsTheyGo) {
  Grown grown = {{sizeof(Grown), 77, 0, nullptr, 0, 0, nullptr, nullptr}, 0};
  const auto read = internal::ReadOptions("f", &grown.known);
  ASSERT_THAT(read, IsOk());
  EXPECT_EQ(read.value().run_id, 77);
  grown.later = 1;
  EXPECT_THAT(internal::ReadOptions("f", &grown.known),
              StatusIs(StatusCode::kUnimplemented, "f: an option at byte 56 is newer than this library, version 1"));
}

TEST_F(CApiTest, OptionsWithoutTheirSizeAreRefused) {
  callout_execute_options options = {};
  EXPECT_THAT(internal::ReadOptions("f", &options),
              StatusIs(StatusCode::kInvalidArgument,
                       "f: struct_size of the options is 0; expected 56, the sizeof of the struct"));
  options.struct_size = static_cast<size_t>(-1);
  EXPECT_THAT(internal::ReadOptions("f", &options), StatusIs(StatusCode::kInvalidArgument, "expected 56"));
}

// A struct that has grown since is read from callers that were compiled with the smaller one.
TEST_F(CApiTest, OptionsOfOlderCallersAreRead) {
  Grown grown = {{sizeof(callout_execute_options), 77, 0, nullptr, 0, 0, nullptr, nullptr}, 5};
  Grown known = {};
  EXPECT_THAT(internal::CopyOptions("f", &grown, sizeof(callout_execute_options), sizeof(known), &known), IsOk());
  EXPECT_EQ(known.known.run_id, 77);
  EXPECT_EQ(known.later, 0U);
}

TEST_F(CApiTest, AScopeBindsItsThreadsNames) {
  Adder adder;
  callout_callback* callback = MakeAdder("scoped", adder);
  callout_binding_scope* scope = nullptr;
  ASSERT_THAT(Take(callout_binding_scope_begin(&callback, 1, &scope)), IsOk());
  callout_callback_destroy(callback);  // the scope keeps it
  EXPECT_THAT(Registry::Get().Find("scoped"), IsOk());
  EXPECT_THAT(Registry::Get().Find("other"), StatusIs(StatusCode::kNotFound, "'other'"));
  std::thread([] { EXPECT_FALSE(Registry::Get().Find("scoped").ok()); }).join();
  ASSERT_EQ(callout_binding_scope_num_names(scope), 2U);
  EXPECT_STREQ(callout_binding_scope_name(scope, 0), "scoped");
  EXPECT_STREQ(callout_binding_scope_name(scope, 1), "other");
  EXPECT_EQ(callout_binding_scope_name(scope, 2), nullptr);
  EXPECT_THAT(Take(callout_binding_scope_end(scope)), IsOk());
  EXPECT_FALSE(Registry::Get().Find("scoped").ok());
  EXPECT_EQ(adder.destroyed, 1);
}

TEST_F(CApiTest, ScopesEndInOrderOnTheirThread) {
  callout_binding_scope* outer = nullptr;
  callout_binding_scope* inner = nullptr;
  ASSERT_THAT(Take(callout_binding_scope_begin(nullptr, 0, &outer)), IsOk());
  ASSERT_THAT(Take(callout_binding_scope_begin(nullptr, 0, &inner)), IsOk());
  EXPECT_THAT(Take(callout_binding_scope_end(outer)),
              StatusIs(StatusCode::kFailedPrecondition, "not the innermost scope of the thread"));
  std::thread([&] {
    EXPECT_THAT(Take(callout_binding_scope_end(inner)), StatusIs(StatusCode::kFailedPrecondition, "on the thread"));
  }).join();
  EXPECT_THAT(Take(callout_binding_scope_end(inner)), IsOk());
  EXPECT_THAT(Take(callout_binding_scope_end(outer)), IsOk());
}

TEST_F(CApiTest, AScopeRefusesTwoOfOneName) {
  Adder adder;
  callout_callback* callback = MakeAdder("f", adder);
  callout_callback* const both[] = {callback, callback};
  callout_binding_scope* scope = nullptr;
  EXPECT_THAT(Take(callout_binding_scope_begin(both, 2, &scope)),
              StatusIs(StatusCode::kInvalidArgument, "two callbacks are bound to the name 'f'"));
  callout_callback* const with_null[] = {callback, nullptr};
  EXPECT_THAT(Take(callout_binding_scope_begin(with_null, 2, &scope)),
              StatusIs(StatusCode::kInvalidArgument, "callback 1 is null"));
  EXPECT_THAT(Take(callout_binding_scope_begin(nullptr, 2, &scope)),
              StatusIs(StatusCode::kInvalidArgument, "callback 0 is null"));
  callout_callback_destroy(callback);
}

TEST_F(CApiTest, TheBarrierTakesAnyTimeout) {
  EXPECT_THAT(Take(callout_barrier_wait(1e300)), IsOk());
  EXPECT_THAT(Take(callout_barrier_wait(0)), IsOk());
  EXPECT_EQ(internal::ClampTimeout(1e300), -1);
  EXPECT_EQ(internal::ClampTimeout(0.5), 0.5);
}

TEST_F(CApiTest, HasAVersion) { EXPECT_EQ(callout_c_api_version(), uint32_t{CALLOUT_C_API_VERSION}); }

}  // namespace
}  // namespace callout
