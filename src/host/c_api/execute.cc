// SPDX-License-Identifier: Apache-2.0
//
// Running executables through callout/c_api.h.
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>

#include "callout/pjrt/executable.h"
#include "core/base/cat.h"
#include "core/base/ticks.h"
#include "host/c_api/edge.h"

using namespace callout;  // for the C functions below, which are outside of the namespace
using callout::internal::GuardC;

namespace {

using Arguments = std::vector<std::vector<const pjrt::Buffer*>>;

// The context that the options give to a run. Destroys the context unless a run takes it over by Share.
class GivenContext {
 public:
  explicit GivenContext(const callout_execute_options* options) noexcept {
    if (options == nullptr || options->struct_size < offsetof(callout_execute_options, context) + 2 * sizeof(void*))
      return;
    context_ = options->context;
    destroy_ = options->context_destroy;
  }
  ~GivenContext() {
    if (destroy_ != nullptr) destroy_(context_);
  }
  GivenContext(const GivenContext&) = delete;
  GivenContext& operator=(const GivenContext&) = delete;

  std::shared_ptr<void> Share() {
    void (*const destroy)(void*) = std::exchange(destroy_, nullptr);
    return {context_, [destroy](void* context) {
              if (destroy != nullptr) destroy(context);
            }};
  }

 private:
  void* context_ = nullptr;
  void (*destroy_)(void* context) = nullptr;
};

struct Run {
  const callout_executable& executable;
  callout_array* const* arguments;
  size_t num_arguments;  // of each device
  const callout_execute_options* options;
  GivenContext& context;
};

Status WrongOutputs(size_t expected, size_t got) {
  return InvalidArgument(
      internal::Cat("callout_execute: the program has ", expected, " outputs on all devices, there is room for ", got));
}

Result<Arguments> ReadArguments(const char* function, const Run& run) {
  Arguments all(run.executable.executable.num_devices());
  for (size_t device = 0; device < all.size(); ++device) {
    for (size_t i = 0; i < run.num_arguments; ++i) {
      const callout_array* array = run.arguments == nullptr ? nullptr : run.arguments[device * run.num_arguments + i];
      const std::string where = internal::Cat(function, ": argument ", i, " of device ", device);
      if (array == nullptr) return InvalidArgument(where + " is null");
      if (array->client != run.executable.client) return InvalidArgument(where + " is of another client");
      all[device].push_back(&array->buffer);
    }
  }
  return all;
}

Result<pjrt::Execution> Start(const char* function, const Run& run) {
  CALLOUT_ASSIGN_OR_RETURN(
      const callout_execute_options known,
      internal::ReadOptions(function, run.options, offsetof(callout_execute_options, timeout_seconds)));
  if (known.reserved != 0) return Unimplemented(std::string(function) + ": `reserved` is not 0");
  pjrt::ExecuteOptions options{.run_id = known.run_id};
  options.context = run.context.Share();
  CALLOUT_ASSIGN_OR_RETURN(const Arguments arguments, ReadArguments(function, run));
  if (known.donated_inputs != nullptr) {
    options.donated_inputs.assign(known.donated_inputs, known.donated_inputs + known.num_donated);
  } else if (known.num_donated != 0) {
    return InvalidArgument(std::string(function) + ": donated_inputs is null");
  }
  return run.executable.executable.Execute(arguments, options);
}

Status WaitFor(pjrt::Execution& execution, double seconds) {
  using Clock = std::chrono::steady_clock;
  if (seconds < 0) return execution.Wait();
  const auto deadline = internal::DeadlineAfter(seconds);
  for (pjrt::Event& done : execution.done) {
    Status status = done.WaitFor(deadline - Clock::now());
    if (status.code() == StatusCode::kDeadlineExceeded) return status;
  }
  return execution.Wait();  // Wait also finds the original error
}

// Reads the time limit; -1 without one.
Result<double> ReadTimeout(const callout_execute_options* options) {
  CALLOUT_ASSIGN_OR_RETURN(
      const callout_execute_options known,
      internal::ReadOptions("callout_execute", options, offsetof(callout_execute_options, timeout_seconds)));
  return known.timeout_seconds > 0 ? internal::ClampTimeout(known.timeout_seconds) : -1.0;
}

// Moves all outputs to `outputs`, or none. A program for several shapes may return other numbers of outputs than its
// first shape does.
Status Take(const callout_executable& executable, pjrt::Execution execution, callout_array** outputs,
            size_t num_outputs) {
  std::vector<std::unique_ptr<callout_array>> arrays;
  for (std::vector<pjrt::Buffer>& of_device : execution.outputs) {
    for (pjrt::Buffer& output : of_device) {
      arrays.emplace_back(internal::NewHandle<callout_array>(executable.client, std::move(output)));
    }
  }
  if (arrays.size() != num_outputs) return WrongOutputs(arrays.size(), num_outputs);
  for (std::unique_ptr<callout_array>& array : arrays) *outputs++ = array.release();
  return OkStatus();
}

}  // namespace

callout_status* callout_execute(const callout_executable* executable, callout_array* const* arguments,
                                size_t num_arguments, const callout_execute_options* options, callout_array** outputs,
                                size_t num_outputs) noexcept {
  const char* const function = __func__;
  GivenContext context(options);
  return GuardC(function, {{executable, "executable"}}, [&]() -> Status {
    const bool is_for_several_shapes = !executable->executable.shapes().empty();
    const size_t expected = executable->executable.num_devices() * executable->executable.num_outputs();
    if (!is_for_several_shapes && num_outputs != expected) return WrongOutputs(expected, num_outputs);
    if (outputs == nullptr && num_outputs > 0) return InvalidArgument("callout_execute: outputs is null");
    CALLOUT_ASSIGN_OR_RETURN(pjrt::Execution execution,
                             Start(function, {*executable, arguments, num_arguments, options, context}));
    CALLOUT_ASSIGN_OR_RETURN(const double seconds, ReadTimeout(options));
    CALLOUT_RETURN_IF_ERROR(WaitFor(execution, seconds));
    return Take(*executable, std::move(execution), outputs, num_outputs);
  });
}

callout_status* callout_execution_start(const callout_executable* executable, callout_array* const* arguments,
                                        size_t num_arguments, const callout_execute_options* options,
                                        callout_execution** out) noexcept {
  const char* const function = __func__;
  GivenContext context(options);
  return GuardC(function, {{executable, "executable"}, {out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(pjrt::Execution execution,
                             Start(function, {*executable, arguments, num_arguments, options, context}));
    *out = internal::NewHandle<callout_execution>(executable->client, std::move(execution));
    return OkStatus();
  });
}

callout_status* callout_execution_wait(callout_execution* execution, double timeout_seconds) noexcept {
  return GuardC(__func__, {{execution, "execution"}},
                [&] { return WaitFor(execution->execution, internal::ClampTimeout(timeout_seconds)); });
}

callout_status* callout_execution_take(callout_execution* execution, size_t device, size_t output,
                                       callout_array** out) noexcept {
  return GuardC(__func__, {{execution, "execution"}, {out, "out"}}, [&]() -> Status {
    auto& outputs = execution->execution.outputs;
    const std::string what = internal::Cat("callout_execution_take: output ", output, " of device ", device);
    if (device >= outputs.size() || output >= outputs[device].size()) {
      return Status(StatusCode::kOutOfRange, what + ": there is none");
    }
    pjrt::Buffer& buffer = outputs[device][output];
    if (buffer.handle() == nullptr) return FailedPrecondition(what + " was taken");
    *out = internal::NewHandle<callout_array>(execution->client, std::move(buffer));
    return OkStatus();
  });
}

void callout_execution_destroy(callout_execution* execution) noexcept { delete execution; }
