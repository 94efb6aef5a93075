// SPDX-License-Identifier: Apache-2.0
#include "core/frame/ffi_abi.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "callout/dtype.h"
#include "core/base/process_state.h"
#include "core/base/thread_annotations.h"
#include "core/encoding/error_tag.h"

namespace callout::internal {
namespace {

static_assert(XLA_FFI_API_MAJOR == 0 && XLA_FFI_API_MINOR <= 3,
              "build against the headers of the oldest supported jaxlib: older runtimes refuse newer handlers");
static_assert(static_cast<int>(StatusCode::kInternal) == XLA_FFI_Error_Code_INTERNAL &&
              static_cast<int>(StatusCode::kUnauthenticated) == XLA_FFI_Error_Code_UNAUTHENTICATED);
#define CALLOUT_ROW(name, number, xla, ...) static_assert(number == XLA_FFI_DataType_##xla);
CALLOUT_DTYPE_ROWS(CALLOUT_ROW)
#undef CALLOUT_ROW

constexpr int kMinorWithStage = 3;    // from this version on State_Set/Get have a field `stage`
constexpr int kMinorWithRecord = 4;   // from this version on a bundle of handlers has a fifth, before the traits
constexpr int kMinorWithDetails = 4;  // from this version on Error_GetDetails replaces Error_GetMessage

// State_Set_Args and State_Get_Args of FFI 0.2.
struct StateArgsWithoutStage {
  size_t struct_size;
  void* extension_start;
  XLA_FFI_ExecutionContext* ctx;
  XLA_FFI_TypeId* type_id;
  void* state;
};

// Error_GetDetails_Args of FFI 0.4; GetMessage_Args of earlier versions lacks only the last field.
struct ErrorDetailsArgs {
  size_t struct_size;
  void* extension_start;
  XLA_FFI_Error* error;
  const char* message;
  int code;
};

// Handler_Register_Args with Count handlers in the bundle.
template <int Count>
struct RegisterArgs {
  size_t struct_size;
  void* extension_start;
  XLA_FFI_ByteSpan name;
  XLA_FFI_ByteSpan platform;
  XLA_FFI_Handler* handlers[Count];  // instantiate, prepare, initialize, execute, record
  uint32_t traits;
};
static_assert(offsetof(RegisterArgs<4>, traits) == offsetof(XLA_FFI_Handler_Register_Args, traits));

// An XLA runtime that is loaded in this process: jaxlib has a runtime, and each PJRT plugin has its own.
struct Runtime {
  const XLA_FFI_Api* api = nullptr;
  XLA_FFI_TypeId type_id{0};
};

constexpr int kMaxRuntimes = 8;
Runtime g_runtimes[kMaxRuntimes];
std::atomic<int> g_num_runtimes{0};
Mutex g_runtimes_mutex;

void DeleteState(void* state) {
  const PluginThreadScope scope;  // the state's callback may hold the client
  delete static_cast<SiteState*>(state);
}
XLA_FFI_TypeInfo g_type_info = {XLA_FFI_TypeInfo_STRUCT_SIZE, nullptr, &DeleteState};

Runtime* FindRuntime(const XLA_FFI_Api* api) {
  const int count = g_num_runtimes.load(std::memory_order_acquire);  // pairs with the release in AddRuntime
  for (int i = 0; i < count; ++i) {
    if (g_runtimes[i].api == api) return &g_runtimes[i];
  }
  return nullptr;
}

XLA_FFI_Error* AddRuntime(const XLA_FFI_Api* api, Runtime** out) {
  MutexLock lock(g_runtimes_mutex);
  if ((*out = FindRuntime(api)) != nullptr) return nullptr;
  const int count = g_num_runtimes.load(std::memory_order_relaxed);
  if (count == kMaxRuntimes) {
    return ToFfiError(api, ResourceExhausted("callout: more than 8 XLA runtimes in one process"));
  }
  Runtime& runtime = g_runtimes[count];
  runtime = {api, {0}};
  static constexpr std::string_view kName = "callout.v1.site";
  XLA_FFI_Type_Register_Args args = {};
  args.struct_size = XLA_FFI_Type_Register_Args_STRUCT_SIZE;
  args.name = {kName.data(), kName.size()};
  args.type_id = &runtime.type_id;
  args.type_info = &g_type_info;
  if (XLA_FFI_Error* error = api->XLA_FFI_Type_Register(&args)) return error;
  g_num_runtimes.store(count + 1, std::memory_order_release);
  *out = &runtime;
  return nullptr;
}

XLA_FFI_Error* NoState(const XLA_FFI_Api* api) {
  return ToFfiError(api, InternalError("callout: a call site was executed on a runtime that never instantiated it"));
}

}  // namespace

bool AnswerMetadata(XLA_FFI_CallFrame* frame, bool stateful, XLA_FFI_Error** error, bool capturable) {
  *error = nullptr;
  if (frame->extension_start == nullptr) [[likely]]
    return false;
  for (auto* extension = frame->extension_start; extension != nullptr; extension = extension->next) {
    if (extension->type != XLA_FFI_Extension_Metadata) continue;
    XLA_FFI_Metadata* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = std::min(XLA_FFI_API_MINOR, frame->api->api_version.minor_version);
    metadata->traits = capturable ? XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE : 0;
    if (stateful) {
      Runtime* runtime = FindRuntime(frame->api);
      if (runtime == nullptr) *error = AddRuntime(frame->api, &runtime);
      if (*error == nullptr) metadata->state_type_id = runtime->type_id;
    }
    return true;
  }
  return false;
}

XLA_FFI_Error* SetState(XLA_FFI_CallFrame* frame, SiteState* state) {
  Runtime* runtime = FindRuntime(frame->api);
  if (runtime == nullptr) return NoState(frame->api);
  if (frame->api->api_version.minor_version < kMinorWithStage) {
    StateArgsWithoutStage args = {sizeof(args), nullptr, frame->ctx, &runtime->type_id, state};
    return frame->api->XLA_FFI_State_Set(reinterpret_cast<XLA_FFI_State_Set_Args*>(&args));
  }
  XLA_FFI_State_Set_Args args = {XLA_FFI_State_Set_Args_STRUCT_SIZE, nullptr,           frame->ctx,
                                 XLA_FFI_ExecutionStage_INSTANTIATE, &runtime->type_id, state};
  return frame->api->XLA_FFI_State_Set(&args);
}

SiteState* GetState(XLA_FFI_CallFrame* frame, XLA_FFI_Error** error) {
  Runtime* runtime = FindRuntime(frame->api);
  if (runtime == nullptr) [[unlikely]] {
    *error = NoState(frame->api);
    return nullptr;
  }
  if (frame->api->api_version.minor_version < kMinorWithStage) {
    StateArgsWithoutStage args = {sizeof(args), nullptr, frame->ctx, &runtime->type_id, nullptr};
    *error = frame->api->XLA_FFI_State_Get(reinterpret_cast<XLA_FFI_State_Get_Args*>(&args));
    return static_cast<SiteState*>(args.state);
  }
  XLA_FFI_State_Get_Args args = {XLA_FFI_State_Get_Args_STRUCT_SIZE, nullptr,           frame->ctx,
                                 XLA_FFI_ExecutionStage_INSTANTIATE, &runtime->type_id, nullptr};
  *error = frame->api->XLA_FFI_State_Get(&args);
  return static_cast<SiteState*>(args.state);
}

template <int Count>
static XLA_FFI_Error* Register(const XLA_FFI_Api* api, std::string_view name, std::string_view platform,
                               const Handlers& handlers) {
  RegisterArgs<Count> args = {};
  args.struct_size = offsetof(RegisterArgs<Count>, traits) + sizeof(args.traits);
  args.name = {name.data(), name.size()};
  args.platform = {platform.data(), platform.size()};
  args.handlers[0] = handlers.instantiate;
  args.handlers[1] = handlers.prepare;
  args.handlers[2] = handlers.initialize;
  args.handlers[3] = handlers.execute;
  args.traits = handlers.traits;
  return api->XLA_FFI_Handler_Register(reinterpret_cast<XLA_FFI_Handler_Register_Args*>(&args));
}

Status RegisterHandlers(const XLA_FFI_Api* api, std::string_view name, std::string_view platform,
                        const Handlers& handlers) {
  const auto call = api->api_version.minor_version < kMinorWithRecord ? &Register<4> : &Register<5>;
  return FromFfiError(api, call(api, name, platform, handlers));
}

XLA_FFI_Error* ToFfiError(const XLA_FFI_Api* api, const Status& status) {
  if (status.ok()) [[likely]]
    return nullptr;
  const std::string text = TaggedMessage(status);
  XLA_FFI_Error_Create_Args args = {XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr, text.c_str(),
                                    static_cast<XLA_FFI_Error_Code>(status.code())};
  return api->XLA_FFI_Error_Create(&args);
}

Status FromFfiError(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  if (error == nullptr) return OkStatus();
  ErrorDetailsArgs args = {};
  const bool details = api->api_version.minor_version >= kMinorWithDetails;
  args.struct_size = details ? offsetof(ErrorDetailsArgs, code) + sizeof(int) : offsetof(ErrorDetailsArgs, code);
  args.error = error;
  api->XLA_FFI_Error_GetMessage(reinterpret_cast<XLA_FFI_Error_GetMessage_Args*>(&args));
  Status status =
      FromTaggedMessage(details && args.code != 0 ? static_cast<StatusCode>(args.code) : StatusCode::kInternal,
                        args.message != nullptr ? args.message : "");
  XLA_FFI_Error_Destroy_Args destroy = {XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, nullptr, error};
  api->XLA_FFI_Error_Destroy(&destroy);
  return status;
}

int32_t DeviceOrdinal(XLA_FFI_CallFrame* frame) {
  XLA_FFI_DeviceOrdinal_Get_Args args = {XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE, nullptr, frame->ctx, -1};
  if (XLA_FFI_Error* error = frame->api->XLA_FFI_DeviceOrdinal_Get(&args)) {
    (void)FromFfiError(frame->api, error);
    return -1;
  }
  return args.device_ordinal;
}

Result<void*> PlatformStream(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Stream_Get_Args args = {XLA_FFI_Stream_Get_Args_STRUCT_SIZE, nullptr, frame->ctx, nullptr};
  if (XLA_FFI_Error* error = frame->api->XLA_FFI_Stream_Get(&args)) {
    return Unimplemented("the runtime has no stream for the call: " +
                         std::string(FromFfiError(frame->api, error).message()));
  }
  return args.stream;
}

int64_t RunId(XLA_FFI_CallFrame* frame) {
  XLA_FFI_RunId_Get_Args args = {XLA_FFI_RunId_Get_Args_STRUCT_SIZE, nullptr, frame->ctx, 0};
  if (XLA_FFI_Error* error = frame->api->XLA_FFI_RunId_Get(&args)) {
    (void)FromFfiError(frame->api, error);
    return 0;
  }
  return args.run_id & INT64_MAX;  // XLA draws random bits; a run id must not be negative
}

Result<int64_t> Int64Attribute(const XLA_FFI_Attrs& attrs, std::string_view name, int64_t fallback) {
  for (int64_t i = 0; i < attrs.size; ++i) {
    if (std::string_view(attrs.names[i]->ptr, attrs.names[i]->len) != name) continue;
    const auto* scalar = static_cast<const XLA_FFI_Scalar*>(attrs.attrs[i]);
    if (attrs.types[i] != XLA_FFI_AttrType_SCALAR || scalar->dtype != XLA_FFI_DataType_S64) {
      return InvalidArgument("callout: attribute '" + std::string(name) + "' must be a 64-bit integer");
    }
    int64_t value;
    std::memcpy(&value, scalar->value, sizeof(value));
    return value;
  }
  return fallback;
}

Result<Future> Future::Promise(XLA_FFI_CallFrame* frame) {
  XLA_FFI_Future_Create_Args args = {XLA_FFI_Future_Create_Args_STRUCT_SIZE, nullptr, nullptr};
  CALLOUT_RETURN_IF_ERROR(FromFfiError(frame->api, frame->api->XLA_FFI_Future_Create(&args)));
  frame->future = args.future;
  return Future(frame->api, args.future);
}

void Future::End(const Status& outcome) const {
  // These calls only fail if the size of their arguments is wrong.
  if (outcome.ok()) {
    XLA_FFI_Future_SetAvailable_Args args = {XLA_FFI_Future_SetAvailable_Args_STRUCT_SIZE, nullptr, future_};
    (void)FromFfiError(api_, api_->XLA_FFI_Future_SetAvailable(&args));
    return;
  }
  XLA_FFI_Future_SetError_Args args = {XLA_FFI_Future_SetError_Args_STRUCT_SIZE, nullptr, future_,
                                       ToFfiError(api_, outcome)};
  (void)FromFfiError(api_, api_->XLA_FFI_Future_SetError(&args));
}

namespace {

using Task = std::function<void()>;

void Run(void* data) {
  const std::unique_ptr<Task> task(static_cast<Task*>(data));
  (*task)();
}

}  // namespace

int64_t PoolThreads(XLA_FFI_CallFrame* frame) {
  int64_t count = 0;
  XLA_FFI_ThreadPool_NumThreads_Args args = {XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, nullptr, frame->ctx,
                                             &count};
  if (XLA_FFI_Error* error = frame->api->XLA_FFI_ThreadPool_NumThreads(&args)) {
    (void)FromFfiError(frame->api, error);
    return 0;
  }
  return count;
}

Status ScheduleOnPool(XLA_FFI_CallFrame* frame, Task task) {
  auto data = std::make_unique<Task>(std::move(task));
  XLA_FFI_ThreadPool_Schedule_Args args = {XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE, nullptr, frame->ctx, &Run,
                                           data.get()};
  CALLOUT_RETURN_IF_ERROR(FromFfiError(frame->api, frame->api->XLA_FFI_ThreadPool_Schedule(&args)));
  (void)data.release();  // owned by Run now
  return OkStatus();
}

}  // namespace callout::internal
