// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/executable.h"

#include <algorithm>
#include <string>
#include <utility>

#include "pjrt/host_transfer_streams.h"
#include "pjrt/pjrt_abi.h"

namespace callout::pjrt {

using internal::PjrtArgs;

LoadedExecutable::LoadedExecutable(std::shared_ptr<const Client> client, PJRT_LoadedExecutable* handle)
    : handle_(Own(std::move(client), handle)) {}

Status LoadedExecutable::ReadProperties() {
  const internal::PjrtApi& api = client()->plugin().api();
  PjrtArgs<PJRT_LoadedExecutable_AddressableDevices_Args> devices;
  devices.executable = handle_.get();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_LoadedExecutable_AddressableDevices, devices));
  num_devices_ = devices.num_addressable_devices;
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
  if (CALLOUT_PJRT(api, PJRT_Executable_Name, name).ok()) {  // not worth an error
    name_.assign(name.executable_name, name.executable_name_size);
  }
  return OkStatus();
}

Result<Execution> LoadedExecutable::Execute(std::span<const std::vector<const Buffer*>> arguments,
                                            const ExecuteOptions& options) const {
  if (arguments.size() != num_devices_) {
    return InvalidArgument("callout: the program runs on " + std::to_string(num_devices_) +
                           " devices, got arguments for " + std::to_string(arguments.size()));
  }
  const size_t num_args = arguments.empty() ? 0 : arguments[0].size();
  std::vector<std::vector<PJRT_Buffer*>> inputs(num_devices_);
  std::vector<std::vector<PJRT_Buffer*>> outputs(num_devices_, std::vector<PJRT_Buffer*>(num_outputs_));
  std::vector<PJRT_Buffer* const*> input_lists;
  std::vector<PJRT_Buffer**> output_lists;
  std::vector<PJRT_Event*> events(num_devices_);
  for (size_t i = 0; i < num_devices_; ++i) {
    if (arguments[i].size() != num_args) {
      return InvalidArgument("callout: device " + std::to_string(i) + " got " + std::to_string(arguments[i].size()) +
                             " arguments, the first " + std::to_string(num_args));
    }
    for (const Buffer* buffer : arguments[i]) inputs[i].push_back(buffer->handle());
    input_lists.push_back(inputs[i].data());
    output_lists.push_back(outputs[i].data());
  }
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < static_cast<int64_t>(num_args); ++i) {
    const auto& donated = options.donated_inputs;
    if (std::find(donated.begin(), donated.end(), i) == donated.end()) kept.push_back(i);
  }
  PjrtArgs<PJRT_ExecuteOptions> run;
  run.launch_id = options.run_id;
  run.non_donatable_input_indices = kept.data();
  run.num_non_donatable_input_indices = kept.size();
  const auto transfers = transfers_ == nullptr ? nullptr : transfers_->Run(run);
  PjrtArgs<PJRT_LoadedExecutable_Execute_Args> args;
  args.executable = handle_.get();
  args.options = &run;
  args.argument_lists = input_lists.data();
  args.num_devices = num_devices_;
  args.num_args = num_args;
  args.output_lists = output_lists.data();
  args.device_complete_events = events.data();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(client()->plugin().api(), PJRT_LoadedExecutable_Execute, args));
  Execution execution;
  for (size_t i = 0; i < num_devices_; ++i) {
    std::vector<Buffer>& made = execution.outputs.emplace_back();
    for (PJRT_Buffer* output : outputs[i]) made.emplace_back(client(), output);
    execution.done.emplace_back(client(), events[i]);
  }
  CALLOUT_RETURN_IF_ERROR(internal::KeepUntilDone(transfers, execution.done));
  return execution;
}

Result<std::vector<Buffer>> LoadedExecutable::Run(const std::vector<const Buffer*>& arguments,
                                                  const ExecuteOptions& options) const {
  CALLOUT_ASSIGN_OR_RETURN(Execution execution, Execute({&arguments, 1}, options));
  CALLOUT_RETURN_IF_ERROR(execution.Wait());
  return std::move(execution.outputs.front());
}

Status Execution::Wait() {
  Status first;
  for (size_t i = 0; i < done.size(); ++i) {
    Status status = done[i].Wait();
    if (status.ok() || !first.ok()) continue;
    first = std::move(status);
    // XLA:CPU tells an event only "Internal: Compute error: ...", whatever the code was; an output has the original.
    for (const Buffer& output : outputs[i]) {
      if (output.handle() == nullptr) continue;  // moved away
      Result<Event> ready = output.Ready();
      if (!ready.ok()) continue;
      if (Status original = ready->Wait(); !original.ok()) {
        first = std::move(original);
        break;
      }
    }
  }
  return first;
}

}  // namespace callout::pjrt
