// SPDX-License-Identifier: Apache-2.0
//
// Tests XLA FFI functions that a host registers with a stage before the execution and a type for the state that they
// keep between the two, on the CPU plugin, whose XLA FFI is 0.2.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "callout/pjrt/executable.h"
#include "core/base/invariant.h"
#include "core/frame/call_frame.h"
#include "core/frame/ffi_abi.h"
#include "testing/cpu_client_fixture.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using internal::IsOkAndHolds;
using ::testing::ElementsAre;

constexpr char kCounts[] =
    "func.func public @main(%a: tensor<f32>) -> tensor<f32> {\n"
    "%0 = stablehlo.custom_call @handler_states_test.counts(%a) {api_version = 4 : i32, has_side_effect = true} : "
    "(tensor<f32>) -> tensor<f32>\nreturn %0 : tensor<f32> }";

// The state that a call site keeps.
struct Executions {
  static inline std::atomic<int> alive{0};
  Executions() { ++alive; }
  ~Executions() { --alive; }

  std::atomic<int> count{0};
};

XLA_FFI_TypeId g_executions_type = {0};

// Mirrors State_Set_Args and State_Get_Args of XLA FFI 0.2, the plugin's version.
struct StateArgs {
  size_t struct_size;
  void* extension_start;
  XLA_FFI_ExecutionContext* ctx;
  XLA_FFI_TypeId* type_id;
  void* state;
};

// Answers the runtime's question for the handler's type of state. Returns false for any other call.
bool TellType(XLA_FFI_CallFrame* frame, XLA_FFI_Error** error) {
  if (!internal::AnswerMetadata(frame, /*stateful=*/false, error)) return false;
  for (auto* extension = frame->extension_start; extension != nullptr; extension = extension->next) {
    if (extension->type != XLA_FFI_Extension_Metadata) continue;
    reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata->state_type_id = g_executions_type;
  }
  return true;
}

XLA_FFI_Error* Instantiate(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Error* error = nullptr;
  if (TellType(frame, &error)) return error;
  auto made = std::make_unique<Executions>();
  StateArgs args = {sizeof(args), nullptr, frame->ctx, &g_executions_type, made.get()};
  error = frame->api->XLA_FFI_State_Set(reinterpret_cast<XLA_FFI_State_Set_Args*>(&args));
  if (error == nullptr) (void)made.release();  // owned by the runtime
  return error;
}

XLA_FFI_Error* Execute(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Error* error = nullptr;
  if (TellType(frame, &error)) return error;
  StateArgs args = {sizeof(args), nullptr, frame->ctx, &g_executions_type, nullptr};
  error = frame->api->XLA_FFI_State_Get(reinterpret_cast<XLA_FFI_State_Get_Args*>(&args));
  if (error != nullptr) return error;
  callout_buffer to;
  std::span<const callout_buffer> results;
  CALLOUT_CHECK(internal::DecodeRets(frame->rets, &to, results).ok(), "a result");
  *static_cast<float*>(to.data) = static_cast<float>(++static_cast<Executions*>(args.state)->count);
  return nullptr;
}

// Registers the type and the handler in the way of XLA's own header.
Status RegisterTypeAndHandler(const Plugin& plugin) {
  static XLA_FFI_TypeInfo info = {XLA_FFI_TypeInfo_STRUCT_SIZE, nullptr,
                                  [](void* state) { delete static_cast<Executions*>(state); }};
  constexpr std::string_view kName = "handler_states_test.executions";
  XLA_FFI_Type_Register_Args args = {};
  args.struct_size = XLA_FFI_Type_Register_Args_STRUCT_SIZE;
  args.name = {kName.data(), kName.size()};
  args.type_id = &g_executions_type;
  args.type_info = &info;
  CALLOUT_RETURN_IF_ERROR(internal::FromFfiError(plugin.ffi_api(), plugin.ffi_api()->XLA_FFI_Type_Register(&args)));
  return plugin.RegisterHandler(
      {.name = "handler_states_test.counts", .execute = &Execute, .instantiate = &Instantiate});
}

class HandlerStatesTest : public internal::OneCpuClientTest {
 protected:
  Result<std::vector<float>> Run(const LoadedExecutable& executable) const {
    const float zero = 0;
    CALLOUT_ASSIGN_OR_RETURN(const Buffer x,
                             Buffer::FromHost(client_, client_->devices()[0], DType::kFloat32, {}, &zero));
    CALLOUT_ASSIGN_OR_RETURN(const std::vector<Buffer> outputs, executable.Run({&x}));
    return outputs[0].ToVector<float>();
  }
};

TEST_F(HandlerStatesTest, EachExecutableHasTheStateThatItsHandlerMade) {
  ASSERT_THAT(RegisterTypeAndHandler(client_->plugin()), IsOk());
  {
    const Compiler compiler(client_);
    const auto one = compiler.Compile({kCounts}), other = compiler.Compile({kCounts});
    ASSERT_THAT(one, IsOk());
    ASSERT_THAT(other, IsOk());
    for (const float expected : {1.0F, 2.0F, 3.0F}) EXPECT_THAT(Run(*one), IsOkAndHolds(ElementsAre(expected)));
    EXPECT_THAT(Run(*other), IsOkAndHolds(ElementsAre(1)));
    const auto loaded = compiler.Load(one->Serialize().value());
    ASSERT_THAT(loaded, IsOk());
    EXPECT_THAT(Run(*loaded), IsOkAndHolds(ElementsAre(1)));
    EXPECT_EQ(Executions::alive, 3);
  }
  EXPECT_EQ(Executions::alive, 0) << "the executables are gone";
}

}  // namespace
}  // namespace callout::pjrt
