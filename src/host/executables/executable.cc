// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/executable.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/cat.h"
#include "core/base/log.h"
#include "core/base/thread_annotations.h"
#include "host/executables/executable_launch.h"
#include "host/executables/executable_properties.h"
#include "host/pjrt/pjrt_abi.h"
#include "host/pjrt/topology.h"
#include "host/transfers/transfer_streams.h"

namespace callout::pjrt {

using internal::PjrtArgs;

LoadedExecutable::LoadedExecutable(std::shared_ptr<const Client> client, PJRT_LoadedExecutable* handle)
    : handle_(Own(std::move(client), handle)), argument_types_(std::make_shared<internal::ArgumentTypes>()) {}

Status LoadedExecutable::ReadProperties() {
  const internal::PjrtApi& api = client()->plugin().api();
  PjrtArgs<PJRT_LoadedExecutable_AddressableDevices_Args> devices;
  devices.executable = handle_.get();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_LoadedExecutable_AddressableDevices, devices));
  num_devices_ = devices.num_addressable_devices;
  devices_.assign(devices.addressable_devices, devices.addressable_devices + num_devices_);
  // If XLA:CPU gets one device by name, it makes no lists of devices and does not look up debug options in each run.
  if (num_devices_ == 1 && client()->platform() == "cpu") only_device_ = devices_[0];
  PjrtArgs<PJRT_LoadedExecutable_GetExecutable_Args> inner;
  inner.loaded_executable = handle_.get();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_LoadedExecutable_GetExecutable, inner));
  executable_ = Own(client(), inner.executable);
  PjrtArgs<PJRT_Executable_NumOutputs_Args> outputs;
  outputs.executable = executable_.get();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Executable_NumOutputs, outputs));
  num_outputs_ = outputs.num_outputs;
  PjrtArgs<PJRT_Executable_Name_Args> name;
  name.executable = executable_.get();
  if (CALLOUT_PJRT(api, PJRT_Executable_Name, name).ok()) {  // a program without a name is no error
    name_.assign(name.executable_name, name.executable_name_size);
  }
  return OkStatus();
}

// If a launch fails on one device, the program may go on running on the others, and nothing reports when it ends. The
// callbacks there must still find the run's context.
static void KeepForever(std::shared_ptr<internal::RunContext> context) {
  static internal::Mutex mutex;
  static auto* const kept = new std::vector<std::shared_ptr<internal::RunContext>>;  // leaked on purpose
  internal::MutexLock lock(mutex);
  kept->push_back(std::move(context));
}

// Checks a launch over several devices, which must start on all of them or on none. Borrowed arguments need no check.
Status LoadedExecutable::CheckBeforeLaunch(Arguments arguments, const Launch& launch) const {
  if (client()->is_stuck()) {
    return Status(StatusCode::kFailedPrecondition,
                  "callout: a launch over several devices has failed on one of them, and the plugin would not end "
                  "another one; make a new client");
  }
  for (size_t device = 0; device < num_devices_; ++device) {
    for (size_t i = 0; i < arguments[device].size(); ++i) {
      const Buffer& buffer = *arguments[device][i];
      if (launch.inputs.data()[device * launch.kept.size() + i] != buffer.handle()) continue;
      const auto refused = [&](const char* why) {
        return InvalidArgument(internal::Cat("callout: argument ", i, " on device ", device, why));
      };
      const Result<bool> is_deleted = buffer.IsDeleted();
      // This plugin lacks the function, so it has to check the argument itself.
      if (is_deleted.status().code() == StatusCode::kUnimplemented) return OkStatus();
      CALLOUT_RETURN_IF_ERROR(is_deleted.status());
      if (*is_deleted) return refused(" was deleted or donated");
      CALLOUT_ASSIGN_OR_RETURN(PJRT_Device* const where, internal::DeviceOf(client()->plugin().api(), buffer));
      if (where != devices_[device]) return refused(" is on another device");
    }
  }
  return OkStatus();
}

size_t LoadedExecutable::ListKept(std::span<const int64_t> donated, Launch& launch) {
  size_t num_kept = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(launch.kept.size()); ++i) {
    if (std::find(donated.begin(), donated.end(), i) == donated.end()) launch.kept[num_kept++] = i;
  }
  return num_kept;
}

Status LoadedExecutable::Start(Arguments arguments, const ExecuteOptions& options, Launch& launch) const {
  if (arguments.size() != num_devices_) {
    return InvalidArgument(
        internal::Cat("callout: the program runs on ", num_devices_, " devices, got arguments for ", arguments.size()));
  }
  const size_t num_args = launch.kept.size();
  PJRT_Buffer** input = launch.inputs.data();
  bool is_elsewhere = runners_ != nullptr;  // on runners, any argument may be on another device
  for (size_t i = 0; i < num_devices_; ++i) {
    if (arguments[i].size() != num_args) {
      return InvalidArgument(
          internal::Cat("callout: device ", i, " got ", arguments[i].size(), " arguments, the first ", num_args));
    }
    for (const Buffer* buffer : arguments[i]) {
      if (buffer == nullptr || buffer->handle() == nullptr) {
        return InvalidArgument(internal::Cat("callout: an argument on device ", i, " is null, or was moved away"));
      }
      *input++ = buffer->handle();
      is_elsewhere = is_elsewhere || buffer->client().get() != client().get();
    }
  }
  if (options.check_arguments) {
    CALLOUT_RETURN_IF_ERROR(argument_types_->Check(arguments, *this, client()->plugin().api()));
  }
  if (!options.donated_inputs.empty()) {
    CALLOUT_RETURN_IF_ERROR(argument_types_->CheckDonated(options.donated_inputs, num_args, *this));
  }
  if (is_elsewhere) CALLOUT_RETURN_IF_ERROR(BorrowArguments(arguments, launch));
  if (num_devices_ > 1) CALLOUT_RETURN_IF_ERROR(CheckBeforeLaunch(arguments, launch));
  PjrtArgs<PJRT_ExecuteOptions> run;
  run.launch_id = options.run_id;
  // XLA builds a set of the indices even if the program can take over none of its arguments.
  if (only_device_ == nullptr || !argument_types_->KeepsAll()) {
    run.non_donatable_input_indices = launch.kept.data();
    run.num_non_donatable_input_indices = ListKept(options.donated_inputs, launch);
  }
  // Devices rendezvous by the launch id, and a host may give one id to two concurrent runs. A context that is null may
  // still have a deleter, which is called when the run is done.
  if (num_devices_ > 1 || options.context.use_count() > 0 || internal::RunContext::IsLaunchId(options.run_id)) {
    launch.context = std::make_shared<internal::RunContext>(options.context, options.run_id);
    run.launch_id = launch.context->launch_id();
  }
  if (transfers_ != nullptr) launch.transfers = transfers_->Run(run);
  PjrtArgs<PJRT_LoadedExecutable_Execute_Args> args;
  args.executable = launch.executable->get();
  args.options = &run;
  args.argument_lists = launch.input_lists.data();
  args.num_devices = num_devices_;
  args.num_args = num_args;
  args.output_lists = launch.output_lists.data();
  args.device_complete_events = launch.events.data();
  args.execute_device = launch.runner ? launch.runner.device() : only_device_;
  if (Status status = CALLOUT_PJRT(client()->plugin().api(), PJRT_LoadedExecutable_Execute, args); !status.ok()) {
    if (num_devices_ > 1) {
      if (client()->platform() == "cpu") client()->MarkStuck();
      if (launch.context != nullptr) KeepForever(std::move(launch.context));
    }
    return status;
  }
  if (launch.borrowed.empty()) return OkStatus();
  // The program is running, and its callbacks use objects that the launch keeps. An error from here on is only logged,
  // because the caller would destroy the launch if this function returned it.
  if (const Status deleted = DeleteDonated(arguments, options, launch); !deleted.ok()) {
    internal::Log(internal::LogLevel::kWarning, "callout: a donated input stays: " + std::string(deleted.message()));
  }
  return OkStatus();
}

std::vector<Buffer> LoadedExecutable::TakeOutputs(Launch& launch, size_t device) const {
  std::vector<Buffer> outputs;
  outputs.reserve(num_outputs_);
  for (size_t i = 0; i < num_outputs_; ++i) {
    outputs.emplace_back(launch.client(), launch.output_lists[device][i], argument_types_->OutputTag(i));
  }
  return outputs;
}

Result<Execution> LoadedExecutable::ExecuteThis(Arguments arguments, const ExecuteOptions& options) const {
  Launch launch(handle_, num_devices_, arguments.empty() ? 0 : arguments[0].size(), num_outputs_);
  CALLOUT_RETURN_IF_ERROR(Start(arguments, options, launch));
  Execution execution;
  execution.outputs.reserve(num_devices_);
  execution.done.reserve(num_devices_);
  for (size_t i = 0; i < num_devices_; ++i) {
    execution.outputs.push_back(TakeOutputs(launch, i));
    execution.done.emplace_back(launch.client(), launch.events[i]);
  }
  if (launch.runner) {
    const auto runner = std::make_shared<internal::Runners::Run>(std::move(launch.runner));
    CALLOUT_RETURN_IF_ERROR(execution.done[0].OnReady([runner](const Status&) {}));
  }
  CALLOUT_RETURN_IF_ERROR(internal::KeepUntilDone(launch.context, execution.done));
  CALLOUT_RETURN_IF_ERROR(internal::KeepUntilDone(launch.transfers, execution.done));
  return execution;
}

// Returns the original error of an execution that made `outputs`. XLA:CPU's completion event has only "Internal:
// Compute error: ...", whatever the code was; an output's event has the original error.
static Status FindOriginal(Status error, const std::vector<Buffer>& outputs) {
  for (const Buffer& output : outputs) {
    if (output.handle() == nullptr) continue;  // the caller has moved it away
    Result<Event> ready = output.Ready();
    if (!ready.ok()) continue;
    if (Status original = ready->Wait(); !original.ok()) return original;
  }
  return error;
}

// Waits for an event and destroys it. Does without the class Event, whose reference to the client is not needed during
// the wait. Null stands for an event that has happened.
static Status AwaitAndDestroy(const internal::PjrtApi& api, PJRT_Event* event) {
  if (event == nullptr) return OkStatus();
  PjrtArgs<PJRT_Event_Await_Args> await;
  await.event = event;
  Status status = CALLOUT_PJRT(api, PJRT_Event_Await, await);
  PjrtArgs<PJRT_Event_Destroy_Args> destroy;
  destroy.event = event;
  api.Destroy(&PJRT_Api::PJRT_Event_Destroy, destroy);
  return status;
}

Result<std::vector<Buffer>> LoadedExecutable::RunThis(std::span<const Buffer* const> arguments,
                                                      const ExecuteOptions& options) const {
  if (options.timeout > std::chrono::nanoseconds(0)) return RunFor(arguments, options);
  Launch launch(handle_, num_devices_, arguments.size(), num_outputs_);
  CALLOUT_RETURN_IF_ERROR(Start({&arguments, 1}, options, launch));
  std::vector<Buffer> outputs = TakeOutputs(launch, 0);
  Status status = AwaitAndDestroy(client()->plugin().api(), launch.events[0]);
  if (!status.ok()) return FindOriginal(std::move(status), outputs);
  return outputs;
}

Result<std::vector<Buffer>> LoadedExecutable::RunFor(std::span<const Buffer* const> arguments,
                                                     const ExecuteOptions& options) const {
  const auto begin = std::chrono::steady_clock::now();
  CALLOUT_ASSIGN_OR_RETURN(Execution execution, ExecuteThis({&arguments, 1}, options));
  Event& done = execution.done[0];
  // The error of the wait is dropped: Execution::Wait below returns it with more detail.
  (void)done.WaitFor(options.timeout - (std::chrono::steady_clock::now() - begin));
  CALLOUT_ASSIGN_OR_RETURN(const bool is_done, done.IsReady());
  if (!is_done) {
    return Status(StatusCode::kDeadlineExceeded,
                  "callout: the program '" + name_ + "' was not done in time; it goes on");
  }
  CALLOUT_RETURN_IF_ERROR(execution.Wait());
  return std::move(execution.outputs[0]);
}

Status Execution::Wait() {
  Status first;
  for (size_t i = 0; i < done.size(); ++i) {
    Status status = done[i].Wait();
    if (!status.ok() && first.ok()) first = FindOriginal(std::move(status), outputs[i]);
  }
  return first;
}

}  // namespace callout::pjrt
