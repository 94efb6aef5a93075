// SPDX-License-Identifier: Apache-2.0
#include "testing/fake_runtime.h"

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <vector>

#include "core/base/invariant.h"
#include "core/base/thread_annotations.h"
#include "core/encoding/error_tag.h"
#include "testing/metadata_query.h"

struct XLA_FFI_Error {
  callout::StatusCode code;
  std::string message;
};

struct XLA_FFI_Future {
  std::promise<XLA_FFI_Error*> outcome;
};

namespace callout::internal {
namespace {

std::atomic<int64_t> g_live_errors{0};

struct Types {
  Mutex mutex;
  std::vector<XLA_FFI_TypeInfo> infos CALLOUT_GUARDED_BY(mutex);  // The type ids count from 1.
  std::optional<std::string> fail_next CALLOUT_GUARDED_BY(mutex);
};

Types& GetTypes() {
  static Types* const types = new Types;  // Leaked: states may be destroyed late.
  return *types;
}

XLA_FFI_Error* MakeError(StatusCode code, std::string message) {
  g_live_errors.fetch_add(1);
  return new XLA_FFI_Error{code, std::move(message)};
}

XLA_FFI_Error* CheckSize(const char* name, size_t expected, size_t actual) {
  if (actual >= expected) return nullptr;
  return MakeError(StatusCode::kInvalidArgument, std::string("Unexpected ") + name + " size: expected " +
                                                     std::to_string(expected) + ", got " + std::to_string(actual));
}

// The layouts up to FFI 0.2, and from 0.3 on.
struct StateArgs2 {
  size_t struct_size;
  void* extension_start;
  XLA_FFI_ExecutionContext* ctx;
  XLA_FFI_TypeId* type_id;
  void* state;
};
struct StateArgs3 {
  size_t struct_size;
  void* extension_start;
  XLA_FFI_ExecutionContext* ctx;
  int stage;
  XLA_FFI_TypeId* type_id;
  void* state;
};
// The layout from FFI 0.4 on.
struct ErrorGetDetailsArgs {
  size_t struct_size;
  void* extension_start;
  XLA_FFI_Error* error;
  const char* message;
  int errc;
};
constexpr size_t kErrorGetDetailsSize = 36;

XLA_FFI_Error* ErrorCreate(XLA_FFI_Error_Create_Args* args) {
  return MakeError(static_cast<StatusCode>(args->errc), args->message);
}

void ErrorGetMessage(XLA_FFI_Error_GetMessage_Args* args) {
  CALLOUT_CHECK(args->struct_size >= XLA_FFI_Error_GetMessage_Args_STRUCT_SIZE, "Error_GetMessage size");
  args->message = args->error->message.c_str();
}

void ErrorGetDetails(XLA_FFI_Error_GetMessage_Args* raw) {
  auto* args = reinterpret_cast<ErrorGetDetailsArgs*>(raw);
  CALLOUT_CHECK(args->struct_size >= kErrorGetDetailsSize, "Error_GetDetails size");
  args->message = args->error->message.c_str();
  args->errc = static_cast<int>(args->error->code);
}

void ErrorDestroy(XLA_FFI_Error_Destroy_Args* args) { (void)TakeError(args->error); }

XLA_FFI_Error* TypeRegister(XLA_FFI_Type_Register_Args* args) {
  if (auto* error =
          CheckSize("XLA_FFI_Type_Register_Args", XLA_FFI_Type_Register_Args_STRUCT_SIZE, args->struct_size)) {
    return error;
  }
  Types& types = GetTypes();
  MutexLock lock(types.mutex);
  if (types.fail_next.has_value()) {
    std::string message = *std::exchange(types.fail_next, std::nullopt);
    return MakeError(StatusCode::kInvalidArgument, std::move(message));
  }
  if (args->type_id->type_id != 0) return MakeError(StatusCode::kInvalidArgument, "Type id is already set");
  types.infos.push_back(*args->type_info);
  args->type_id->type_id = static_cast<int64_t>(types.infos.size());
  return nullptr;
}

XLA_FFI_Error* FutureCreate(XLA_FFI_Future_Create_Args* args) {
  args->future = new XLA_FFI_Future;  // The caller of the handler waits for the future, and deletes it.
  return nullptr;
}

XLA_FFI_Error* FutureSetAvailable(XLA_FFI_Future_SetAvailable_Args* args) {
  args->future->outcome.set_value(nullptr);
  return nullptr;
}

XLA_FFI_Error* FutureSetError(XLA_FFI_Future_SetError_Args* args) {
  args->future->outcome.set_value(args->error);
  return nullptr;
}

void DestroyState(int64_t type, void* state) {
  void (*deleter)(void*) = nullptr;
  {
    Types& types = GetTypes();
    MutexLock lock(types.mutex);
    deleter = types.infos.at(static_cast<size_t>(type - 1)).deleter;
  }
  deleter(state);
}

}  // namespace

// Implements the functions whose `ctx` points to a FakeSite.
struct FakeApi {
  static FakeSite& Site(XLA_FFI_ExecutionContext* ctx) { return *reinterpret_cast<FakeSite*>(ctx); }

  static XLA_FFI_Error* Set(XLA_FFI_ExecutionContext* ctx, const XLA_FFI_TypeId* type, void* state) {
    FakeSite& site = Site(ctx);
    if (type->type_id == 0) return MakeError(StatusCode::kInvalidArgument, "Type id is not registered");
    if (site.state_ != nullptr) return MakeError(StatusCode::kFailedPrecondition, "State is already set");
    site.state_ = state;
    site.state_type_ = type->type_id;
    return nullptr;
  }
  static XLA_FFI_Error* Get(XLA_FFI_ExecutionContext* ctx, const XLA_FFI_TypeId* type, void** state) {
    const FakeSite& site = Site(ctx);
    if (site.state_ == nullptr) return MakeError(StatusCode::kNotFound, "State is not set");
    if (site.state_type_ != type->type_id) return MakeError(StatusCode::kInvalidArgument, "State is of another type");
    *state = site.state_;
    return nullptr;
  }

  template <typename Args>
  static XLA_FFI_Error* StateSet(XLA_FFI_State_Set_Args* raw) {
    auto* args = reinterpret_cast<Args*>(raw);
    if (auto* error = CheckSize("XLA_FFI_State_Set_Args", sizeof(Args), args->struct_size)) return error;
    return Set(args->ctx, args->type_id, args->state);
  }
  template <typename Args>
  static XLA_FFI_Error* StateGet(XLA_FFI_State_Get_Args* raw) {
    auto* args = reinterpret_cast<Args*>(raw);
    if (auto* error = CheckSize("XLA_FFI_State_Get_Args", sizeof(Args), args->struct_size)) return error;
    return Get(args->ctx, args->type_id, &args->state);
  }

  static XLA_FFI_Error* DeviceOrdinalGet(XLA_FFI_DeviceOrdinal_Get_Args* args) {
    const auto& ordinal = Site(args->ctx).device_ordinal;
    if (!ordinal.has_value()) return MakeError(StatusCode::kUnimplemented, "No device ordinal");
    args->device_ordinal = *ordinal;
    return nullptr;
  }
  static XLA_FFI_Error* RunIdGet(XLA_FFI_RunId_Get_Args* args) {
    const auto& run_id = Site(args->ctx).run_id;
    if (!run_id.has_value()) return MakeError(StatusCode::kUnimplemented, "No run id");
    args->run_id = *run_id;
    return nullptr;
  }

  static XLA_FFI_Error* StreamGet(XLA_FFI_Stream_Get_Args* args) {
    const auto& stream = Site(args->ctx).stream;
    if (!stream.has_value()) return MakeError(StatusCode::kUnimplemented, "XLA FFI GPU context is not available");
    args->stream = *stream;
    return nullptr;
  }

  static XLA_FFI_Error* NoPool() { return MakeError(StatusCode::kUnimplemented, "No thread pool"); }

  static XLA_FFI_Error* NumThreads(XLA_FFI_ThreadPool_NumThreads_Args* args) {
    if (auto* error = CheckSize("XLA_FFI_ThreadPool_NumThreads_Args", XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE,
                                args->struct_size)) {
      return error;
    }
    const auto& threads = Site(args->ctx).pool_threads;
    if (!threads.has_value()) return NoPool();
    *args->num_threads = *threads;
    return nullptr;
  }
  static XLA_FFI_Error* Schedule(XLA_FFI_ThreadPool_Schedule_Args* args) {
    if (auto* error = CheckSize("XLA_FFI_ThreadPool_Schedule_Args", XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE,
                                args->struct_size)) {
      return error;
    }
    FakeSite& site = Site(args->ctx);
    if (!site.pool_threads.has_value()) return NoPool();
    if (site.pool_mode == PoolMode::kRefuse) return MakeError(StatusCode::kResourceExhausted, "The pool is full");
    ++site.scheduled_;
    const auto task = [run = args->task, data = args->data] { run(data); };
    if (site.pool_mode == PoolMode::kThreads) site.threads_.emplace_back(task);
    if (site.pool_mode == PoolMode::kInline) task();
    if (site.pool_mode == PoolMode::kLate) site.tasks_.push_back(task);
    return nullptr;
  }
};

Status TakeError(XLA_FFI_Error* error) {
  if (error == nullptr) return OkStatus();
  g_live_errors.fetch_sub(1);
  const std::unique_ptr<XLA_FFI_Error> owned(error);
  return FromTaggedMessage(owned->code, owned->message);
}

FakeRuntime::FakeRuntime(int minor) : api_{} {
  api_.struct_size = XLA_FFI_Api_STRUCT_SIZE;
  api_.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, 0, minor};
  api_.XLA_FFI_Error_Create = &ErrorCreate;
  api_.XLA_FFI_Error_GetMessage = minor < 4 ? &ErrorGetMessage : &ErrorGetDetails;
  api_.XLA_FFI_Error_Destroy = &ErrorDestroy;
  api_.XLA_FFI_Type_Register = &TypeRegister;
  api_.XLA_FFI_State_Set = minor < 3 ? &FakeApi::StateSet<StateArgs2> : &FakeApi::StateSet<StateArgs3>;
  api_.XLA_FFI_State_Get = minor < 3 ? &FakeApi::StateGet<StateArgs2> : &FakeApi::StateGet<StateArgs3>;
  api_.XLA_FFI_ThreadPool_Schedule = &FakeApi::Schedule;
  api_.XLA_FFI_ThreadPool_NumThreads = &FakeApi::NumThreads;
  api_.XLA_FFI_Future_Create = &FutureCreate;
  api_.XLA_FFI_Future_SetAvailable = &FutureSetAvailable;
  api_.XLA_FFI_Future_SetError = &FutureSetError;
  api_.XLA_FFI_Stream_Get = &FakeApi::StreamGet;
  api_.XLA_FFI_RunId_Get = &FakeApi::RunIdGet;
  api_.XLA_FFI_DeviceOrdinal_Get = &FakeApi::DeviceOrdinalGet;
}

FakeRuntime& FakeRuntime::New(int minor) {
  static Mutex mutex;
  // Leaked, but reachable, so leak checkers accept it.
  static auto* const runtimes = new std::vector<std::unique_ptr<FakeRuntime>>;
  MutexLock lock(mutex);
  runtimes->push_back(std::unique_ptr<FakeRuntime>(new FakeRuntime(minor)));
  return *runtimes->back();
}

FakeRuntime& FakeRuntime::ForMinor(int minor) {
  static FakeRuntime* const runtimes[] = {new FakeRuntime(2), new FakeRuntime(3), new FakeRuntime(4),
                                          new FakeRuntime(5)};
  CALLOUT_CHECK(minor >= 2 && minor <= 5, "no such minor version");
  return *runtimes[minor - 2];
}

FakeRuntime::Metadata FakeRuntime::QueryMetadata(XLA_FFI_Handler* handler) const {
  MetadataQuery query(&api_);
  XLA_FFI_Metadata& metadata = query.metadata;
  metadata.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, -1, -1};
  Metadata answer;
  answer.status = TakeError(handler(&query.frame));
  answer.major = metadata.api_version.major_version;
  answer.minor = metadata.api_version.minor_version;
  answer.state_type_id = metadata.state_type_id.type_id;
  answer.traits = metadata.traits;
  return answer;
}

int64_t FakeRuntime::live_errors() { return g_live_errors.load(); }

int64_t FakeRuntime::registered_types() {
  Types& types = GetTypes();
  MutexLock lock(types.mutex);
  return static_cast<int64_t>(types.infos.size());
}

void FakeRuntime::FailNextTypeRegister(std::string message) {
  Types& types = GetTypes();
  MutexLock lock(types.mutex);
  types.fail_next = std::move(message);
}

FakeSite::~FakeSite() {
  if (state_ != nullptr) DestroyState(state_type_, state_);
  for (std::thread& thread : threads_) thread.join();
  for (const auto& task : tasks_) task();
}

XLA_FFI_CallFrame* FakeSite::Frame(FrameBuilder& frame, XLA_FFI_ExecutionStage stage) {
  return frame.Build(runtime_.api(), reinterpret_cast<XLA_FFI_ExecutionContext*>(this), stage);
}

Status FakeSite::Instantiate(FrameBuilder& frame) {
  return TakeError(instantiate_(Frame(frame, XLA_FFI_ExecutionStage_INSTANTIATE)));
}

Status FakeSite::Initialize(FrameBuilder& frame, XLA_FFI_Handler* initialize) {
  return TakeError(initialize(Frame(frame, XLA_FFI_ExecutionStage_INITIALIZE)));
}

Status FakeSite::Execute(FrameBuilder& frame) {
  XLA_FFI_CallFrame* const built = Frame(frame, XLA_FFI_ExecutionStage_EXECUTE);
  XLA_FFI_Error* const error = execute_(built);
  if (built->future == nullptr) return TakeError(error);
  CALLOUT_CHECK(error == nullptr, "a handler that failed has promised nothing");
  const std::unique_ptr<XLA_FFI_Future> promised(built->future);
  return TakeError(promised->outcome.get_future().get());
}

}  // namespace callout::internal
