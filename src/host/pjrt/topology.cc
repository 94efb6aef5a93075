// SPDX-License-Identifier: Apache-2.0
#include "host/pjrt/topology.h"

#include "host/pjrt/values.h"

namespace callout::internal {

Result<pjrt::Memory> Describe(const PjrtApi& api, PJRT_Memory* memory) {
  PjrtArgs<PJRT_Memory_Id_Args> id;
  id.memory = memory;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Memory_Id, id));
  PjrtArgs<PJRT_Memory_Kind_Args> kind;
  kind.memory = memory;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Memory_Kind, kind));
  return pjrt::Memory{memory, id.id, std::string(kind.kind, kind.kind_size)};
}

std::vector<pjrt::Memory> ReadMemories(const PjrtApi& api, PJRT_Device* device) {
  PjrtArgs<PJRT_Device_AddressableMemories_Args> args;
  args.device = device;
  std::vector<pjrt::Memory> memories;
  if (!CALLOUT_PJRT(api, PJRT_Device_AddressableMemories, args).ok()) return memories;
  for (size_t i = 0; i < args.num_memories; ++i) {
    Result<pjrt::Memory> memory = Describe(api, args.memories[i]);
    if (memory.ok()) memories.push_back(std::move(memory).value());
  }
  return memories;
}

Result<PJRT_Device*> DeviceOf(const PjrtApi& api, const pjrt::Buffer& buffer) {
  PjrtArgs<PJRT_Buffer_Device_Args> args;
  args.buffer = buffer.handle();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Buffer_Device, args));
  return args.device;
}

}  // namespace callout::internal

namespace callout::pjrt {

using internal::PjrtArgs;

Result<Topology> Client::ReadTopology() const {
  const internal::PjrtApi& api = plugin_->api();
  PjrtArgs<PJRT_Client_TopologyDescription_Args> args;
  args.client = handle_;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_Client_TopologyDescription, args));
  PjrtArgs<PJRT_TopologyDescription_PlatformName_Args> name;
  name.topology = args.topology;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_TopologyDescription_PlatformName, name));
  PjrtArgs<PJRT_TopologyDescription_PlatformVersion_Args> version;
  version.topology = args.topology;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_TopologyDescription_PlatformVersion, version));
  PjrtArgs<PJRT_TopologyDescription_GetDeviceDescriptions_Args> devices;
  devices.topology = args.topology;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_TopologyDescription_GetDeviceDescriptions, devices));
  PjrtArgs<PJRT_TopologyDescription_Attributes_Args> attributes;
  attributes.topology = args.topology;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_TopologyDescription_Attributes, attributes));
  Topology topology{std::string(name.platform_name, name.platform_name_size),
                    std::string(version.platform_version, version.platform_version_size),
                    {},
                    internal::FromNamedValues(attributes.attributes, attributes.num_attributes)};
  for (size_t i = 0; i < devices.num_descriptions; ++i) {
    PjrtArgs<PJRT_DeviceDescription_ToString_Args> text;
    text.device_description = devices.descriptions[i];
    CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api, PJRT_DeviceDescription_ToString, text));
    topology.devices.emplace_back(text.to_string, text.to_string_size);
  }
  return topology;
}

}  // namespace callout::pjrt
