// SPDX-License-Identifier: Apache-2.0
//
// Buffer callbacks on CUDA: callbacks that work on the device's memory. They queue work on the program's stream;
// nothing is copied, and nobody waits.
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "core/attributes/jax_calls.h"
#include "core/base/small_buffer.h"
#include "core/base/thread_annotations.h"
#include "core/callbacks/in_flight.h"
#include "core/callbacks/invoke.h"
#include "core/callbacks/run_context.h"
#include "core/ffi/call_site.h"
#include "core/ffi/handlers.h"
#include "core/frame/buffer.h"
#include "core/frame/call_frame.h"
#include "core/frame/handler.h"
#include "cuda/driver/resources.h"
#include "cuda/handlers/device_results.h"
#include "cuda/handlers/recorded_calls.h"

namespace callout::internal {
namespace {

using cuda::CUstream;

// A call site's state on one device.
struct SiteDevice {
  std::unique_ptr<const cuda::Device> device;  // Outlives the recordings.
  std::optional<RecordedCalls> recordings;     // Empty: the callback runs each time.
  std::atomic<bool> has_run{false};            // True once the callback ran without being recorded.
};

class BufferState final : public SiteState {
 public:
  BufferState(std::shared_ptr<Callback> callback, const BufferAttributes& attributes)
      : callback_(std::move(callback)),
        aliases_(attributes.aliases),
        deferred_(attributes.deferred),
        graph_(attributes.graph) {}

  Status Decode(const BufferAttributes& attributes) {
    if (attributes.threaded || !attributes.lane_dims.empty()) {
      return Unimplemented("callout: callback '" + callback_->label() +
                           "': callout.v1.buffer has no attributes `threaded` and `lane_dims` on CUDA");
    }
    return attributes_.Decode(attributes.attributes);
  }

  Callback& callback() const { return *callback_; }
  std::span<const callout_attribute> attributes() const { return attributes_.view(); }
  const Aliases& aliases() const { return aliases_; }
  bool deferred() const { return deferred_; }

  /// Returns the state, which the first call for a device creates. That call must not come during a capture.
  Result<SiteDevice*> On(int ordinal) {
    const MutexLock lock(mutex_);
    SiteDevice& on = devices_[ordinal];
    if (on.device != nullptr) return &on;
    CALLOUT_ASSIGN_OR_RETURN(const cuda::Driver* driver, cuda::Driver::Get());
    CALLOUT_ASSIGN_OR_RETURN(on.device, cuda::Device::Retain(*driver, ordinal));
    if (graph_) on.recordings.emplace(*on.device);
    return &on;
  }

 private:
  const std::shared_ptr<Callback> callback_;
  Attributes attributes_;
  const Aliases aliases_;
  const bool deferred_;
  const bool graph_;
  Mutex mutex_;
  std::map<int, SiteDevice> devices_ CALLOUT_GUARDED_BY(mutex_);
};

Status InstantiateCudaBuffer(XLA_FFI_CallFrame* frame) {
  std::optional<std::string> jax_name;
  CALLOUT_ASSIGN_OR_RETURN(const BufferAttributes attributes,
                           DecodeCallAttributes<BufferAttributes>(frame->attrs, jax_name));
  CALLOUT_ASSIGN_OR_RETURN(BoundCallback bound, FindCallback(attributes));
  std::shared_ptr<Callback> callback = std::move(bound.callback);  // Kept for the recordings.
  if (!callback->takes_device_memory()) {
    return InvalidArgument("callout: callback '" + callback->label() +
                           "' works on arrays of the host, and a buffer callback on CUDA gets the device's memory. "
                           "callout.pure_callback and callout.io_callback copy to the host");
  }
  auto state = std::make_unique<BufferState>(std::move(callback), attributes);
  CALLOUT_RETURN_IF_ERROR(state->Decode(attributes));
  return KeepState(frame, std::move(state));
}

constexpr char kFirstRunHint[] =
    "\nXLA records this call into a CUDA graph, and it had not run without being recorded: what it compiles, loads or "
    "allocates when it first runs cannot be recorded. Run the function once before, outside of jit, or the program "
    "once with XLA_FLAGS=--xla_gpu_enable_command_buffer=";

// Runs the callback in a program whose work XLA may capture. Ignores `graph`: a capture within a capture is just a
// copy.
Status RunCapturable(const BufferState& state, SiteDevice& on, const callout_call& call) {
  Status status = Invoke(state.callback(), call);
  if (on.has_run.load(std::memory_order_relaxed)) [[likely]]
    return status;
  const Result<bool> recorded = IsCapturing(*on.device, static_cast<CUstream>(call.stream));
  if (!recorded.ok()) return status;
  if (status.ok() && !*recorded) on.has_run.store(true, std::memory_order_relaxed);
  if (status.ok() || !*recorded) return status;
  return status.WithMessage(std::string(status.message()) + kFirstRunHint);
}

Status Run(const BufferState& state, SiteDevice& on, const callout_call& call, bool capturable) {
  const auto stream = static_cast<CUstream>(call.stream);
  if (!state.aliases().empty()) CALLOUT_RETURN_IF_ERROR(CopyAliases(state.aliases(), call, *on.device, stream));
  if (capturable) return RunCapturable(state, on, call);
  return on.recordings ? on.recordings->Call(state.callback(), call) : Invoke(state.callback(), call);
}

Status ExecuteBuffer(XLA_FFI_CallFrame* frame, BufferState& state, bool capturable) {
  const GpuScope gpu;
  callout_call call = {};
  call.struct_size = sizeof(call);
  call.device_ordinal = DeviceOrdinal(frame);
  call.platform = CALLOUT_PLATFORM_CUDA;
  CALLOUT_ASSIGN_OR_RETURN(SiteDevice * on, state.On(call.device_ordinal));
  CALLOUT_ASSIGN_OR_RETURN(call.stream, PlatformStream(frame));
  cuda::ContextScope current(*on->device);
  CALLOUT_RETURN_IF_ERROR(current.TakeStatus());
  SmallBuffer<callout_buffer, 16> args(static_cast<size_t>(frame->args.size));
  SmallBuffer<callout_buffer, 8> results(static_cast<size_t>(frame->rets.size));
  CALLOUT_RETURN_IF_ERROR(DecodeFrame(*frame, args.data(), results.data(), call));
  const SeenRun run = FindRun(RunId(frame));
  call.run_id = run.id;
  call.context = run.context;
  call.error_context = frame;
  call.attributes = state.attributes().data();
  call.num_attributes = static_cast<uint32_t>(state.attributes().size());
  if (!state.deferred()) return Run(state, *on, call, capturable);
  const std::span<const callout_buffer> all(results.data(), call.num_results);
  if (call.num_results > 0) --call.num_results;
  return DeferOn(*on->device, static_cast<CUstream>(call.stream), Run(state, *on, call, capturable), all);
}

XLA_FFI_Error* ExecuteGuarded(XLA_FFI_CallFrame* frame, bool capturable) noexcept {
  return WithState<BufferState>(
      frame, [=](XLA_FFI_CallFrame*, BufferState& state) { return ExecuteBuffer(frame, state, capturable); },
      capturable);
}

}  // namespace
}  // namespace callout::internal

using namespace callout::internal;  // The handlers are C symbols.

XLA_FFI_Error* callout_v1_cuda_buffer_instantiate(XLA_FFI_CallFrame* frame) noexcept {
  return Instantiate(frame, InstantiateCudaBuffer);
}

XLA_FFI_Error* callout_v1_cuda_buffer_initialize(XLA_FFI_CallFrame* frame) noexcept {
  return WithState<BufferState>(frame, [](XLA_FFI_CallFrame* of, BufferState& state) {
    NoteGpu(DeviceOrdinal(of));
    return state.On(DeviceOrdinal(of)).status();
  });
}

XLA_FFI_Error* callout_v1_cuda_buffer_execute(XLA_FFI_CallFrame* frame) noexcept {
  return ExecuteGuarded(frame, /*capturable=*/false);
}

XLA_FFI_Error* callout_v1_buffer_capturable_execute(XLA_FFI_CallFrame* frame) noexcept {
  return ExecuteGuarded(frame, /*capturable=*/true);
}
