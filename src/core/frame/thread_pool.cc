// SPDX-License-Identifier: Apache-2.0
#include "core/frame/thread_pool.h"

#include <memory>
#include <utility>

namespace callout::internal {
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
  (void)data.release();  // Run's now
  return OkStatus();
}

}  // namespace callout::internal
