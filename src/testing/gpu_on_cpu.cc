// SPDX-License-Identifier: Apache-2.0
//
// Runs the handlers for CUDA on XLA:CPU, for tests of whole programs without a GPU. The host's memory serves as the
// device's memory, and the software GPU as the driver. A call ends when its stream has finished, because XLA:CPU waits
// for nothing but the handler. XLA:CPU has no streams, so this file adds one to its own function table: handlers know a
// runtime by the address of that table.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "core/frame/ffi_abi.h"
#include "cuda/driver/resources.h"

namespace callout::internal {
namespace {

struct DeviceStream {
  std::unique_ptr<const cuda::Device> device;
  cuda::Stream stream;
};

thread_local cuda::CUstream t_stream = nullptr;

XLA_FFI_Error* GetStream(XLA_FFI_Stream_Get_Args* args) {
  args->stream = t_stream;
  return nullptr;
}

void PutStreamInto(const XLA_FFI_Api* api) {
  static std::once_flag once;
  std::call_once(once, [api] {
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const uintptr_t begin = reinterpret_cast<uintptr_t>(api) / page * page;
    const uintptr_t end = reinterpret_cast<uintptr_t>(api) + sizeof(*api);
    mprotect(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_WRITE);
    const_cast<XLA_FFI_Api*>(api)->XLA_FFI_Stream_Get = &GetStream;
  });
}

// Returns the stream of a device, which the first call makes. It stays until the process ends.
Result<const DeviceStream*> StreamOf(int ordinal) {
  static std::mutex mutex;
  static auto* const streams = new std::map<int, DeviceStream>;
  const std::lock_guard lock(mutex);
  if (const auto found = streams->find(ordinal); found != streams->end()) return &found->second;
  CALLOUT_ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::Driver::Get());
  CALLOUT_ASSIGN_OR_RETURN(auto device, cuda::Device::Retain(*driver, ordinal));
  CALLOUT_ASSIGN_OR_RETURN(cuda::Stream stream, CreateStream(*device));
  return &streams->emplace(ordinal, DeviceStream{std::move(device), std::move(stream)}).first->second;
}

XLA_FFI_Error* Run(XLA_FFI_Handler* handler, XLA_FFI_CallFrame* frame) {
  if (frame->extension_start != nullptr || frame->stage != XLA_FFI_ExecutionStage_EXECUTE) return handler(frame);
  PutStreamInto(frame->api);
  const Result<const DeviceStream*> found = StreamOf(DeviceOrdinal(frame));
  if (!found.ok()) return ToFfiError(frame->api, found.status());
  t_stream = (*found)->stream.get();
  XLA_FFI_Error* error = handler(frame);
  // Waits even after an error, because work that was queued earlier uses the operands.
  const Status finished = Synchronize(*(*found)->device, (*found)->stream.get());
  return error != nullptr ? error : ToFfiError(frame->api, finished);
}

// Each wrapped handler needs a function of its own, because a handler gets nothing but its frame.
constexpr size_t kMaxHandlers = 64;
std::array<XLA_FFI_Handler*, kMaxHandlers> g_handlers;

template <size_t kIndex>
XLA_FFI_Error* Wrapped(XLA_FFI_CallFrame* frame) {
  return Run(g_handlers[kIndex], frame);
}

template <size_t... kIndices>
constexpr std::array<XLA_FFI_Handler*, kMaxHandlers> AllWrapped(std::index_sequence<kIndices...>) {
  return {&Wrapped<kIndices>...};
}

}  // namespace
}  // namespace callout::internal

/// Returns the handler to register for platform cpu in place of `handler`, or null if there are too many.
extern "C" __attribute__((visibility("default"))) XLA_FFI_Handler* callout_gpu_on_cpu(XLA_FFI_Handler* handler) {
  namespace ci = callout::internal;
  static constexpr auto kWrapped = ci::AllWrapped(std::make_index_sequence<ci::kMaxHandlers>());
  static size_t count = 0;
  if (count == ci::kMaxHandlers) return nullptr;
  ci::g_handlers[count] = handler;
  return kWrapped[count++];
}
