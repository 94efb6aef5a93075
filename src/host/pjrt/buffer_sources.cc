// SPDX-License-Identifier: Apache-2.0
//
// What buffers are made of: arrays of the host, copied or shared, and other buffers.
#include <algorithm>
#include <string>
#include <utility>

#include "callout/pjrt/buffer.h"
#include "callout/pjrt/program.h"
#include "host/pjrt/dtypes.h"
#include "host/pjrt/pjrt_abi.h"
#include "host/pjrt/topology.h"
#include "host/pjrt/type_tag.h"

namespace callout::pjrt {

using internal::PjrtArgs;

namespace {

// Plugins end the process for what is none.
Status CheckArray(DType dtype, std::span<const int64_t> dims) {
  if (dtype == DType::kToken) return InvalidArgument("callout: a token cannot be made of memory");
  int64_t bytes = 16;  // the largest element
  for (const int64_t extent : dims) {
    if (extent >= 0 && !__builtin_mul_overflow(bytes, std::max<int64_t>(extent, 1), &bytes)) continue;
    return InvalidArgument("callout: an array cannot be " +
                           ArrayType{dtype, std::vector<int64_t>(dims.begin(), dims.end())}.ToString());
  }
  return OkStatus();
}

struct Source {
  DType dtype;
  std::span<const int64_t> dims;
  const void* data;
};

// One of the two is null.
struct Place {
  PJRT_Device* device;
  PJRT_Memory* memory;
};

struct Made {
  Buffer buffer;
  Event done;  // with the host's array
};

Result<Made> Make(std::shared_ptr<const Client> client, Place place, const Source& source,
                  PJRT_HostBufferSemantics semantics) {
  CALLOUT_ASSIGN_OR_RETURN(const PJRT_Buffer_Type type, internal::ToPjrtType(source.dtype));
  CALLOUT_RETURN_IF_ERROR(CheckArray(source.dtype, source.dims));
  PjrtArgs<PJRT_Client_BufferFromHostBuffer_Args> args;
  args.client = client->handle();
  args.data = source.data;
  args.type = type;
  args.dims = source.dims.data();
  args.num_dims = source.dims.size();
  args.host_buffer_semantics = semantics;
  args.device = place.device;
  args.memory = place.memory;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(client->plugin().api(), PJRT_Client_BufferFromHostBuffer, args));
  Buffer buffer(client, args.buffer, internal::TypeTag(source.dtype, source.dims));
  return Made{std::move(buffer), Event(std::move(client), args.done_with_host_buffer)};
}

Result<Buffer> Copy(std::shared_ptr<const Client> client, Place place, const Source& source) {
  CALLOUT_ASSIGN_OR_RETURN(Made made,
                           Make(std::move(client), place, source, PJRT_HostBufferSemantics_kImmutableOnlyDuringCall));
  CALLOUT_RETURN_IF_ERROR(made.done.Wait());
  return std::move(made.buffer);
}

// Between clients, which do not know each other's devices.
Result<Buffer> CopyOverHost(const Buffer& source, std::shared_ptr<const Client> client, Place place) {
  CALLOUT_ASSIGN_OR_RETURN(const DType dtype, source.dtype());
  CALLOUT_ASSIGN_OR_RETURN(const std::vector<int64_t> dims, source.dims());
  CALLOUT_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, source.ToHost());
  return Copy(std::move(client), place, {dtype, dims, bytes.data()});
}

}  // namespace

Result<Buffer> Buffer::FromHost(std::shared_ptr<const Client> client, const Device& device, DType dtype,
                                std::span<const int64_t> dims, const void* data) {
  return Copy(std::move(client), {device.handle, nullptr}, {dtype, dims, data});
}

Result<Buffer> Buffer::FromHost(std::shared_ptr<const Client> client, const Memory& memory, DType dtype,
                                std::span<const int64_t> dims, const void* data) {
  return Copy(std::move(client), {nullptr, memory.handle}, {dtype, dims, data});
}

Result<Buffer> Buffer::FromHostShared(std::shared_ptr<const Client> client, const Device& device, DType dtype,
                                      std::span<const int64_t> dims, std::shared_ptr<const void> data) {
  CALLOUT_ASSIGN_OR_RETURN(Made made, Make(std::move(client), {device.handle, nullptr}, {dtype, dims, data.get()},
                                           PJRT_HostBufferSemantics_kImmutableZeroCopy));
  // Plugins keep what listens until the event has happened, also without the Event.
  CALLOUT_RETURN_IF_ERROR(made.done.OnReady([held = std::move(data)](const Status&) {}));
  return std::move(made.buffer);
}

Result<Buffer> Buffer::CopyTo(std::shared_ptr<const Client> client, const Device& device) const {
  if (client.get() != this->client().get()) return CopyOverHost(*this, std::move(client), {device.handle, nullptr});
  PjrtArgs<PJRT_Buffer_CopyToDevice_Args> args;
  args.buffer = handle();
  args.dst_device = device.handle;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api(), PJRT_Buffer_CopyToDevice, args));
  return Buffer(std::move(client), args.dst_buffer, type_tag());
}

Result<Buffer> Buffer::CopyTo(std::shared_ptr<const Client> client, const Memory& memory) const {
  if (client.get() != this->client().get()) return CopyOverHost(*this, std::move(client), {nullptr, memory.handle});
  PjrtArgs<PJRT_Buffer_CopyToMemory_Args> args;
  args.buffer = handle();
  args.dst_memory = memory.handle;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api(), PJRT_Buffer_CopyToMemory, args));
  return Buffer(std::move(client), args.dst_buffer, type_tag());
}

Result<Memory> Buffer::memory() const {
  PjrtArgs<PJRT_Buffer_Memory_Args> args;
  args.buffer = handle();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api(), PJRT_Buffer_Memory, args));
  return internal::Describe(api(), args.memory);
}

}  // namespace callout::pjrt
