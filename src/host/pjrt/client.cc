// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/client.h"

#include <algorithm>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "core/base/cat.h"
#include "core/base/helper_threads.h"
#include "core/base/live_count.h"
#include "core/base/log.h"
#include "core/base/process_state.h"
#include "host/pjrt/pjrt_abi.h"
#include "host/pjrt/runners.h"
#include "host/pjrt/topology.h"
#include "host/pjrt/values.h"

namespace callout::pjrt {

using internal::PjrtArgs;

Result<std::shared_ptr<const Client>> Client::Create(std::shared_ptr<const Plugin> plugin,
                                                     const ClientOptions& options) {
  constexpr int kMostRuns = 4096;
  if (options.concurrent_runs < 0 || options.concurrent_runs > kMostRuns) {
    return InvalidArgument(
        internal::Cat("callout: concurrent_runs must be from 0 to ", kMostRuns, ", got ", options.concurrent_runs));
  }
  CALLOUT_ASSIGN_OR_RETURN(std::unique_ptr<Client> client, Make(std::move(plugin), options, /*is_counted=*/true));
  return std::shared_ptr<const Client>(client.release(), &End);
}

// Destroys a client. The plugin joins its threads then, so the destructor must not run on one of them.
void Client::End(const Client* client) {
  if (!internal::PluginThreadScope::IsIn()) {
    delete client;
    return;
  }
  try {
    internal::RunOnHelperThread([client] { delete client; });
  } catch (const std::exception& error) {
    internal::Log(internal::LogLevel::kWarning,
                  std::string("callout: a client stays, for want of a thread: ") + error.what());
  }
}

Client::Client(std::shared_ptr<const Plugin> plugin, ClientOptions options, bool is_counted)
    : plugin_(std::move(plugin)), options_(std::move(options)), is_counted_(is_counted) {}

Result<std::unique_ptr<Client>> Client::Make(std::shared_ptr<const Plugin> plugin, ClientOptions options,
                                             bool is_counted) {
  std::unique_ptr<Client> client(new Client(std::move(plugin), std::move(options), is_counted));
  CALLOUT_RETURN_IF_ERROR(client->Open());
  CALLOUT_RETURN_IF_ERROR(client->ReadDevices());
  return client;
}

internal::Runners* Client::runners() const {
  std::call_once(runners_made_, [this] { runners_ = MakeRunners(); });
  return runners_.get();
}

std::unique_ptr<internal::Runners> Client::MakeRunners() const {
  if (platform_ != "cpu" || options_.concurrent_runs == 0) return nullptr;
  const int processors = std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);
  const int few = std::min(options_.concurrent_runs, processors);
  ClientOptions options = options_;
  options.concurrent_runs = 0;
  std::vector<std::unique_ptr<const Client>> clients;
  for (const int devices : {few, options_.concurrent_runs - few}) {
    if (devices == 0) break;
    options.values["cpu_device_count"] = static_cast<int64_t>(devices);
    Result<std::unique_ptr<Client>> client = Make(plugin_, options, /*is_counted=*/false);
    if (!client.ok() || client.value()->devices().empty()) return nullptr;  // programs run without runners, too
    clients.push_back(std::move(client).value());
  }
  return std::make_unique<internal::Runners>(std::move(clients));
}

Status Client::Open() {
  const internal::PjrtApi& api = plugin_->api();
  std::vector<PJRT_NamedValue> values;
  for (const auto& [name, value] : options_.values) values.push_back(internal::ToNamedValue(name, value));
  PjrtArgs<PJRT_Client_Create_Args> args;
  args.create_options = values.data();
  args.num_options = values.size();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Client_Create, args));
  handle_ = args.client;
  if (is_counted_) internal::LiveCounter(internal::LiveKind::kPjrtClient).fetch_add(1, std::memory_order_relaxed);
  PjrtArgs<PJRT_Client_PlatformName_Args> name;
  name.client = handle_;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Client_PlatformName, name));
  platform_.assign(name.platform_name, name.platform_name_size);
  return OkStatus();
}

Status Client::ReadDevices() {
  PjrtArgs<PJRT_Client_AddressableDevices_Args> args;
  args.client = handle_;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(plugin_->api(), PJRT_Client_AddressableDevices, args));
  for (size_t i = 0; i < args.num_addressable_devices; ++i) {
    CALLOUT_ASSIGN_OR_RETURN(Device device, Describe(args.addressable_devices[i]));
    devices_.push_back(std::move(device));
  }
  return OkStatus();
}

Result<Device> Client::Describe(PJRT_Device* device) const {
  const internal::PjrtApi& api = plugin_->api();
  PjrtArgs<PJRT_Device_GetDescription_Args> description;
  description.device = device;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Device_GetDescription, description));
  PjrtArgs<PJRT_DeviceDescription_Id_Args> id;
  id.device_description = description.device_description;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_DeviceDescription_Id, id));
  PjrtArgs<PJRT_Device_LocalHardwareId_Args> ordinal;
  ordinal.device = device;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Device_LocalHardwareId, ordinal));
  PjrtArgs<PJRT_DeviceDescription_Kind_Args> kind;
  kind.device_description = description.device_description;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_DeviceDescription_Kind, kind));
  return Device{device, id.id, ordinal.local_hardware_id, std::string(kind.device_kind, kind.device_kind_size),
                internal::ReadMemories(api, device)};
}

Client::~Client() {
  runners_.reset();  // waits for its runs, which may read this client's arrays
  if (handle_ == nullptr) return;
  PjrtArgs<PJRT_Client_Destroy_Args> args;
  args.client = handle_;
  plugin_->api().Destroy(&PJRT_Api::PJRT_Client_Destroy, args);
  if (is_counted_) internal::LiveCounter(internal::LiveKind::kPjrtClient).fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace callout::pjrt
