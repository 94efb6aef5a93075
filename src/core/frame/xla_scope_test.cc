// SPDX-License-Identifier: Apache-2.0
//
// The use of jaxlib's handler, with a fake handler that looks for its function like jaxlib's. The process keeps what it
// was given and what it has learnt, so one test goes through all states.
#include "core/frame/xla_scope.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "testing/fake_runtime.h"

namespace callout::internal {
namespace {

constexpr int64_t kTypeId = 77;
int our_function;
int their_function;

// The function of each invocation of the handler.
std::vector<void*> g_called;
int64_t g_asked_type = kTypeId;
int g_questions = 0;  // questions to the runtime

struct LoadedFunctions {
  void** functions;
  size_t count;
};
LoadedFunctions* g_loaded = nullptr;  // functions of the running program

XLA_FFI_Error* GetLoaded(XLA_FFI_ExecutionContext_Get_Args* args) {
  ++g_questions;
  args->data = args->type_id->type_id == kTypeId ? g_loaded : nullptr;
  return nullptr;
}

XLA_FFI_Error* CallFunction(XLA_FFI_CallFrame* frame) {
  EXPECT_EQ(frame->args.size, 0);
  EXPECT_EQ(frame->rets.size, 0);
  EXPECT_EQ(frame->stage, XLA_FFI_ExecutionStage_EXECUTE);
  EXPECT_EQ(std::string_view(frame->attrs.names[0]->ptr, frame->attrs.names[0]->len), "index");
  const auto* scalar = static_cast<const XLA_FFI_Scalar*>(frame->attrs.attrs[0]);
  EXPECT_EQ(scalar->dtype, XLA_FFI_DataType_U64);
  XLA_FFI_TypeId type_id = {g_asked_type};
  XLA_FFI_ExecutionContext_Get_Args args = {XLA_FFI_ExecutionContext_Get_Args_STRUCT_SIZE, nullptr, frame->ctx,
                                            &type_id, nullptr};
  if (XLA_FFI_Error* error = frame->api->XLA_FFI_ExecutionContext_Get(&args)) return error;
  const auto* loaded = static_cast<const LoadedFunctions*>(args.data);
  if (loaded == nullptr) return ToFfiError(frame->api, NotFound("no functions"));
  g_called.push_back(loaded->functions[*static_cast<const uint64_t*>(scalar->value)]);
  return nullptr;
}

class XlaScopeTest : public ::testing::Test {
 protected:
  // Runs a program that carries `functions`, and returns the functions that the handler called.
  static std::vector<void*> Run(const XLA_FFI_Api& api, std::vector<void*> functions, int64_t mark = 1) {
    XLA_FFI_Scalar scalar = {XLA_FFI_DataType_S64, &mark};
    XLA_FFI_ByteSpan name = {"host_callback", 13};
    XLA_FFI_AttrType attr_type = XLA_FFI_AttrType_SCALAR;
    XLA_FFI_ByteSpan* names[] = {&name};
    void* values[] = {&scalar};
    LoadedFunctions loaded = {functions.data(), functions.size()};
    g_loaded = &loaded;
    g_called.clear();
    XLA_FFI_CallFrame frame = {};
    frame.api = &api;
    frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
    frame.attrs = {XLA_FFI_Attrs_STRUCT_SIZE, nullptr, 1, &attr_type, names, values};
    CallInXlaScope(&frame);
    EXPECT_EQ(FakeRuntime::live_errors(), 0);
    return g_called;
  }
  static XLA_FFI_Api NewApi() {
    XLA_FFI_Api api = *FakeRuntime::ForMinor(5).api();
    api.XLA_FFI_ExecutionContext_Get = &GetLoaded;
    return api;
  }
};

TEST_F(XlaScopeTest, OurFunctionIsCalledOnceAProgramHasShownIt) {
  const std::vector<void*> nothing;
  const std::vector<void*> ours = {&our_function};
  const XLA_FFI_Api api = NewApi();
  EXPECT_EQ(Run(api, ours), nothing);  // no handler was provided

  ProvideScopeHandler(reinterpret_cast<void*>(&CallFunction), &our_function);
  ProvideScopeHandler(nullptr, nullptr);            // ignored after the first call
  EXPECT_EQ(Run(api, {&their_function}), nothing);  // another layout, or a program without Callout's function
  EXPECT_EQ(Run(api, {}), nothing);
  const int questions = g_questions;
  EXPECT_EQ(Run(api, ours, /*mark=*/0), nothing);
  EXPECT_EQ(g_questions, questions) << "a program without our function may run in a context that is gone";
  EXPECT_EQ(Run(api, {&their_function, &our_function}), ours);
  EXPECT_EQ(Run(api, {&their_function}, /*mark=*/0), ours);  // like a program that was exported without the mark
  EXPECT_EQ(g_questions, questions + 1);

  const XLA_FFI_Api plugin = NewApi();
  EXPECT_EQ(Run(plugin, ours), nothing);  // in another runtime, the number may mean another type

  g_asked_type = kTypeId + 1;
  EXPECT_EQ(Run(api, ours), nothing);  // the question was passed on to the runtime, which had no answer
}

}  // namespace
}  // namespace callout::internal
