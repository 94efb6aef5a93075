// SPDX-License-Identifier: Apache-2.0
//
// Executables on runners (runners.h), and arguments from other devices than the program's.
#include "host/executables/executable_launch.h"

#include <algorithm>
#include <iterator>
#include <variant>

#include "callout/pjrt/executable.h"
#include "core/base/cat.h"
#include "core/callbacks/binding_scope.h"
#include "host/executables/compile_options.h"
#include "host/executables/executable_file.h"
#include "host/pjrt/loans.h"
#include "host/pjrt/topology.h"

namespace callout::pjrt {

using internal::PjrtArgs;

// True if XLA:CPU runs the program on the calling thread, whatever its callbacks do there: it does so below this number
// of operations.
bool LoadedExecutable::RunsOnCaller() const {
  constexpr float kFewFlops = 1000;
  const Result<Values> costs = ReadCosts();
  if (!costs.ok()) return false;
  const auto flops = costs->find("flops");
  if (flops == costs->end()) return false;
  const float* number = std::get_if<float>(&flops->second);
  return number != nullptr && *number < kFewFlops;
}

Status LoadedExecutable::MoveToRunners(const std::shared_ptr<const Client>& home, int32_t device,
                                       std::shared_ptr<const std::string> bytes, internal::BindingScope& scope) {
  internal::Runners* const runners = home->runners();
  const auto assigned = std::ranges::find(home->devices(), device, &Device::id);
  if (runners == nullptr || assigned == home->devices().end()) return Unimplemented("callout: there are no runners");
  scope.SetDevice(assigned->ordinal);
  std::vector<Handle<PJRT_LoadedExecutable>> loaded;
  for (const auto& client : runners->clients()) {
    CALLOUT_ASSIGN_OR_RETURN(PJRT_LoadedExecutable* const handle,
                             internal::LoadSerialized(*client, *bytes, internal::SerializePortableOptions()));
    // The executable and its outputs keep the client, which owns the runners.
    loaded.push_back(Own(std::shared_ptr<const Client>(home, client.get()), handle));
  }
  handle_ = std::move(loaded.front());
  loaded_from_ = std::move(bytes);
  others_on_runners_.assign(std::move_iterator(loaded.begin() + 1), std::move_iterator(loaded.end()));
  CALLOUT_RETURN_IF_ERROR(ReadProperties());
  num_devices_ = 1;  // the executable has no devices of its own
  home_device_ = device;
  runners_ = runners;
  return OkStatus();
}

namespace {

bool HaveOneOwner(const std::shared_ptr<const Client>& one, const std::shared_ptr<const Client>& other) {
  return !one.owner_before(other) && !other.owner_before(one);
}

}  // namespace

bool LoadedExecutable::IsElsewhere(const Buffer& buffer, const Launch& launch) const {
  if (buffer.client().get() != launch.client().get()) return true;
  if (!launch.runner) return false;  // without a runner, the plugin compares devices
  const auto device = internal::DeviceOf(client()->plugin().api(), buffer);
  return !device.ok() || *device != launch.runner.device();
}

Status LoadedExecutable::BorrowArguments(Arguments arguments, Launch& launch) const {
  if (runners_ != nullptr) launch.runner = runners_->Take(arguments[0]);
  if (launch.runner && launch.runner.client() > 0) launch.executable = &others_on_runners_[launch.runner.client() - 1];
  const size_t num_args = launch.kept.size();
  launch.borrowed.reserve(num_devices_ * num_args);  // so that pointers to the elements stay valid
  for (size_t i = 0; i < num_devices_ * num_args; ++i) {
    const Buffer& buffer = *arguments[i / num_args][i % num_args];
    if (!IsElsewhere(buffer, launch)) continue;
    if (!HaveOneOwner(buffer.client(), client())) {
      return InvalidArgument(internal::Cat("callout: argument ", i % num_args, " on device ", i / num_args,
                                           " is of another client than the program"));
    }
    PJRT_Device* const device = launch.runner ? launch.runner.device() : devices_[i / num_args];
    CALLOUT_ASSIGN_OR_RETURN(Buffer borrowed, internal::Borrow(buffer, launch.client(), device));
    launch.inputs.data()[i] = borrowed.handle();
    launch.borrowed.push_back(std::move(borrowed));
  }
  return OkStatus();
}

// Deletes the donated arguments for which borrowed arrays stood: the plugin has taken over the borrowed arrays only.
Status LoadedExecutable::DeleteDonated(Arguments arguments, const ExecuteOptions& options, const Launch& launch) const {
  const size_t num_args = launch.kept.size();
  for (const int64_t donated : options.donated_inputs) {
    for (size_t device = 0; device < num_devices_; ++device) {
      const auto number = static_cast<size_t>(donated);
      PJRT_Buffer* const given = arguments[device][number]->handle();
      if (launch.inputs.data()[device * num_args + number] == given) continue;
      PjrtArgs<PJRT_Buffer_Delete_Args> args;
      args.buffer = given;
      CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(client()->plugin().api(), PJRT_Buffer_Delete, args));
    }
  }
  return OkStatus();
}

}  // namespace callout::pjrt
