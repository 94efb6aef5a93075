// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/client.h"

#include "base/live_count.h"
#include "pjrt/pjrt_abi.h"
#include "pjrt/topology.h"
#include "pjrt/values.h"

namespace callout::pjrt {

using internal::PjrtArgs;

Result<std::shared_ptr<const Client>> Client::Create(std::shared_ptr<const Plugin> plugin,
                                                     const ClientOptions& options) {
  std::shared_ptr<Client> client(new Client(std::move(plugin)));
  CALLOUT_RETURN_IF_ERROR(client->Open(options));
  CALLOUT_RETURN_IF_ERROR(client->ReadDevices());
  return std::shared_ptr<const Client>(std::move(client));
}

Status Client::Open(const ClientOptions& options) {
  const internal::PjrtApi& api = plugin_->api();
  std::vector<PJRT_NamedValue> values;
  for (const auto& [name, value] : options.values) values.push_back(internal::ToNamedValue(name, value));
  PjrtArgs<PJRT_Client_Create_Args> args;
  args.create_options = values.data();
  args.num_options = values.size();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Client_Create, args));
  handle_ = args.client;
  internal::LiveCounter(internal::LiveKind::kPjrtClient).fetch_add(1, std::memory_order_relaxed);
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
  if (handle_ == nullptr) return;
  PjrtArgs<PJRT_Client_Destroy_Args> args;
  args.client = handle_;
  plugin_->api().Destroy(&PJRT_Api::PJRT_Client_Destroy, args);
  internal::LiveCounter(internal::LiveKind::kPjrtClient).fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace callout::pjrt
