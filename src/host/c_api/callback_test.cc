// SPDX-License-Identifier: Apache-2.0
//
// Tests callout/c_api.h in a host that has a PJRT binding of its own; the bare C API stands for such a binding.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/executables/compile_options.h"
#include "host/pjrt/pjrt_abi.h"
#include "testing/c_closures.h"
#include "testing/host_programs.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"

namespace callout {
namespace {

using internal::IsOk;
using internal::PjrtApi;
using internal::PjrtArgs;
using internal::StatusIs;
using testdata::Adder;
using testdata::MakeAdder;
using testdata::Take;

class CApiAttachTest : public internal::LiveCountTest {
 protected:
  static void SetUpTestSuite() {
    void* library = dlopen(CALLOUT_TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(library, nullptr) << dlerror();
    api_ = new PjrtApi(reinterpret_cast<const PJRT_Api* (*)()>(dlsym(library, "GetPjrtApi"))());
    PjrtArgs<PJRT_Plugin_Initialize_Args> initialize;
    ASSERT_THAT(CALLOUT_PJRT(*api_, PJRT_Plugin_Initialize, initialize), IsOk());
    PjrtArgs<PJRT_Client_Create_Args> create;
    ASSERT_THAT(CALLOUT_PJRT(*api_, PJRT_Client_Create, create), IsOk());
    client_ = create.client;
  }
  static void TearDownTestSuite() {
    PjrtArgs<PJRT_Client_Destroy_Args> args;
    args.client = client_;
    EXPECT_THAT(CALLOUT_PJRT(*api_, PJRT_Client_Destroy, args), IsOk());
    delete api_;
  }

  // Compiles with the host's own PJRT binding.
  static Result<PJRT_LoadedExecutable*> Compile(std::string code) {
    CALLOUT_ASSIGN_OR_RETURN(const std::string options, internal::SerializeCompileOptions({}));
    PjrtArgs<PJRT_Program> source;
    source.code = code.data();
    source.code_size = code.size();
    source.format = "mlir";
    source.format_size = 4;
    PjrtArgs<PJRT_Client_Compile_Args> args;
    args.client = client_;
    args.program = &source;
    args.compile_options = options.data();
    args.compile_options_size = options.size();
    CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(*api_, PJRT_Client_Compile, args));
    return args.executable;
  }
  static void Destroy(PJRT_LoadedExecutable* executable) {
    PjrtArgs<PJRT_LoadedExecutable_Destroy_Args> args;
    args.executable = executable;
    EXPECT_THAT(CALLOUT_PJRT(*api_, PJRT_LoadedExecutable_Destroy, args), IsOk());
  }
  // Runs a program and drops its results.
  static Status Run(PJRT_LoadedExecutable* executable) {
    const int64_t dims[] = {4};
    const float values[] = {1, 2, 3, 4};
    PjrtArgs<PJRT_Client_AddressableDevices_Args> devices;
    devices.client = client_;
    CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(*api_, PJRT_Client_AddressableDevices, devices));
    PjrtArgs<PJRT_Client_BufferFromHostBuffer_Args> copy;
    copy.client = client_;
    copy.data = values;
    copy.type = PJRT_Buffer_Type_F32;
    copy.dims = dims;
    copy.num_dims = 1;
    copy.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
    copy.device = devices.addressable_devices[0];
    CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(*api_, PJRT_Client_BufferFromHostBuffer, copy));
    PJRT_Buffer* output = nullptr;
    PJRT_Buffer** outputs = &output;
    PJRT_Buffer* const* inputs = &copy.buffer;
    PJRT_Event* done = nullptr;
    PjrtArgs<PJRT_ExecuteOptions> options;
    PjrtArgs<PJRT_LoadedExecutable_Execute_Args> args;
    args.executable = executable;
    args.options = &options;
    args.argument_lists = &inputs;
    args.num_devices = 1;
    args.num_args = 1;
    args.output_lists = &outputs;
    args.device_complete_events = &done;
    Status status = CALLOUT_PJRT(*api_, PJRT_LoadedExecutable_Execute, args);
    for (PJRT_Event* event : {done, copy.done_with_host_buffer}) {
      if (event == nullptr) continue;
      PjrtArgs<PJRT_Event_Await_Args> wait;
      wait.event = event;
      Status waited = CALLOUT_PJRT(*api_, PJRT_Event_Await, wait);
      if (status.ok()) status = std::move(waited);
      PjrtArgs<PJRT_Event_Destroy_Args> destroy;
      destroy.event = event;
      api_->Destroy(&PJRT_Api::PJRT_Event_Destroy, destroy);
    }
    for (PJRT_Buffer* buffer : {copy.buffer, output}) {
      if (buffer == nullptr) continue;
      PjrtArgs<PJRT_Buffer_Destroy_Args> destroy;
      destroy.buffer = buffer;
      api_->Destroy(&PJRT_Api::PJRT_Buffer_Destroy, destroy);
    }
    return status;
  }

  static PjrtApi* api_;
  static PJRT_Client* client_;
};

PjrtApi* CApiAttachTest::api_ = nullptr;
PJRT_Client* CApiAttachTest::client_ = nullptr;

TEST_F(CApiAttachTest, AttachesOnceAPlugin) {
  EXPECT_THAT(Take(callout_attach(&api_->table())), IsOk());
  EXPECT_THAT(Take(callout_attach(&api_->table())), IsOk());
  callout_plugin* plugin = nullptr;
  EXPECT_THAT(Take(callout_plugin_load(CALLOUT_TEST_PLUGIN, &plugin)), IsOk()) << "the same plugin, the other way";
  callout_plugin_destroy(plugin);
}

TEST_F(CApiAttachTest, AScopeBindsTheHostsOwnCompilation) {
  ASSERT_THAT(Take(callout_attach(&api_->table())), IsOk());
  Adder adder{.k = 1};
  callout_callback* callback = MakeAdder("f", adder);
  callout_binding_scope* scope = nullptr;
  ASSERT_THAT(Take(callout_binding_scope_begin(&callback, 1, &scope)), IsOk());
  const auto executable = Compile(testdata::Chain({"f", "f"}));
  ASSERT_EQ(callout_binding_scope_num_names(scope), 1U);
  EXPECT_STREQ(callout_binding_scope_name(scope, 0), "f");
  ASSERT_THAT(Take(callout_binding_scope_end(scope)), IsOk());
  callout_callback_destroy(callback);
  ASSERT_THAT(executable, IsOk());
  EXPECT_THAT(Run(executable.value()), IsOk());
  EXPECT_EQ(adder.calls, 2);
  EXPECT_EQ(adder.destroyed, 0);
  Destroy(executable.value());
  EXPECT_EQ(adder.destroyed, 1);
}

TEST_F(CApiAttachTest, AScopeKnowsWhatAFailedCompilationAskedFor) {
  ASSERT_THAT(Take(callout_attach(&api_->table())), IsOk());
  callout_binding_scope* scope = nullptr;
  ASSERT_THAT(Take(callout_binding_scope_begin(nullptr, 0, &scope)), IsOk());
  EXPECT_THAT(Compile(testdata::Chain({"g"})), StatusIs(StatusCode::kNotFound, "no callback is bound to the name 'g'"));
  ASSERT_EQ(callout_binding_scope_num_names(scope), 1U);
  EXPECT_STREQ(callout_binding_scope_name(scope, 0), "g");
  EXPECT_THAT(Take(callout_binding_scope_end(scope)), IsOk());
}

}  // namespace
}  // namespace callout
