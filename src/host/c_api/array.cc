// SPDX-License-Identifier: Apache-2.0
//
// The arrays of callout/c_api.h.
#include <memory>
#include <string>

#include "callout/pjrt/buffer.h"
#include "core/base/cat.h"
#include "host/c_api/edge.h"
#include "host/pjrt/pjrt_abi.h"

using namespace callout;  // for the C functions below, which are outside of the namespace
using callout::internal::GuardC;
using callout::internal::PjrtArgs;

namespace {

// Returns the size of an array on the host as plugins read and write it: dense, with at least one byte for each
// element.
Result<uint64_t> HostBytes(const std::string& function, DType dtype, std::span<const int64_t> dims) {
  uint64_t bytes = static_cast<uint64_t>(BitWidth(dtype) + 7) / 8;
  for (const int64_t extent : dims) {
    if (extent < 0) return InvalidArgument(internal::Cat(function, ": an extent is ", extent));
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes)) {
      return InvalidArgument(function + ": the array is too large");
    }
  }
  return bytes;
}

Status CheckHostArray(const std::string& function, DType dtype, std::span<const int64_t> dims, const void* data,
                      size_t size_bytes) {
  if (BitWidth(dtype) == 0) {
    return InvalidArgument(internal::Cat(function, ": there is no dtype ", static_cast<uint32_t>(dtype)));
  }
  CALLOUT_ASSIGN_OR_RETURN(const uint64_t expected, HostBytes(function, dtype, dims));
  if (expected != size_bytes) {
    return InvalidArgument(internal::Cat(function, ": expected ", expected, " bytes, got ", size_bytes));
  }
  if (data == nullptr && expected > 0) return InvalidArgument(function + ": data is null");
  return OkStatus();
}

Result<std::span<const int64_t>> ReadShape(const std::string& function, const int64_t* dims, size_t rank) {
  if (dims == nullptr && rank > 0) return InvalidArgument(function + ": dims is null");
  return std::span<const int64_t>(dims, rank);
}

// The caller's memory: its `destroy` is called when nobody reads the memory any more.
struct Owner {
  explicit Owner(void* of) : context(of) {}
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
  ~Owner() {
    if (destroy != nullptr) destroy(context);
  }

  void* context;
  void (*destroy)(void*) = nullptr;
};

Result<const pjrt::Memory*> FindMemory(const char* function, const pjrt::Client& client, size_t device,
                                       std::string_view kind) {
  CALLOUT_ASSIGN_OR_RETURN(const pjrt::Device* found, internal::FindDevice(function, client, device));
  std::string kinds;
  for (const pjrt::Memory& memory : found->memories) {
    if (memory.kind == kind) return &memory;
    kinds += (kinds.empty() ? "'" : ", '") + memory.kind + "'";
  }
  return NotFound(internal::Cat(function, ": device ", device, " has no memory '", kind, "'; it has ",
                                kinds.empty() ? "none that the plugin tells" : kinds));
}

const internal::PjrtApi& Api(const callout_array& array) { return array.client->plugin().api(); }

}  // namespace

callout_status* callout_array_from_host(const callout_client* client, size_t device, uint32_t dtype,
                                        const int64_t* dims, size_t rank, const void* data, size_t size_bytes,
                                        callout_array** out) noexcept {
  const char* const function = __func__;
  return GuardC(function, {{client, "client"}, {out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(const pjrt::Device* found, internal::FindDevice(function, *client->client, device));
    CALLOUT_ASSIGN_OR_RETURN(const auto shape, ReadShape(function, dims, rank));
    const auto type = static_cast<DType>(dtype);
    CALLOUT_RETURN_IF_ERROR(CheckHostArray(function, type, shape, data, size_bytes));
    CALLOUT_ASSIGN_OR_RETURN(pjrt::Buffer buffer, pjrt::Buffer::FromHost(client->client, *found, type, shape, data));
    *out = internal::NewHandle<callout_array>(client->client, std::move(buffer));
    return OkStatus();
  });
}

callout_status* callout_array_from_host_in(const callout_client* client, size_t device, const char* memory_kind,
                                           uint32_t dtype, const int64_t* dims, size_t rank, const void* data,
                                           size_t size_bytes, callout_array** out) noexcept {
  const char* const function = __func__;
  return GuardC(function, {{client, "client"}, {memory_kind, "memory_kind"}, {out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(const pjrt::Memory* memory, FindMemory(function, *client->client, device, memory_kind));
    CALLOUT_ASSIGN_OR_RETURN(const auto shape, ReadShape(function, dims, rank));
    const auto type = static_cast<DType>(dtype);
    CALLOUT_RETURN_IF_ERROR(CheckHostArray(function, type, shape, data, size_bytes));
    CALLOUT_ASSIGN_OR_RETURN(pjrt::Buffer buffer, pjrt::Buffer::FromHost(client->client, *memory, type, shape, data));
    *out = internal::NewHandle<callout_array>(client->client, std::move(buffer));
    return OkStatus();
  });
}

callout_status* callout_array_from_host_shared(const callout_client* client, size_t device, uint32_t dtype,
                                               const int64_t* dims, size_t rank, const void* data, size_t size_bytes,
                                               void* context, void (*destroy)(void* context),
                                               callout_array** out) noexcept {
  const char* const function = __func__;
  return GuardC(function, {{client, "client"}, {out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(const pjrt::Device* found, internal::FindDevice(function, *client->client, device));
    CALLOUT_ASSIGN_OR_RETURN(const auto shape, ReadShape(function, dims, rank));
    const auto type = static_cast<DType>(dtype);
    CALLOUT_RETURN_IF_ERROR(CheckHostArray(function, type, shape, data, size_bytes));
    const auto owner = std::make_shared<Owner>(context);
    const std::shared_ptr<const void> shared(owner, data);
    CALLOUT_ASSIGN_OR_RETURN(pjrt::Buffer buffer,
                             pjrt::Buffer::FromHostShared(client->client, *found, type, shape, shared));
    *out = internal::NewHandle<callout_array>(client->client, std::move(buffer));
    owner->destroy = destroy;
    return OkStatus();
  });
}

callout_status* callout_array_from_dlpack(const callout_client* client, size_t device, DLManagedTensorVersioned* tensor,
                                          callout_array** out) noexcept {
  const char* const function = __func__;
  return GuardC(function, {{client, "client"}, {tensor, "tensor"}, {out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(const pjrt::Device* found, internal::FindDevice(function, *client->client, device));
    std::unique_ptr<callout_array> handle(
        internal::NewHandle<callout_array>(client->client, pjrt::Buffer(client->client, nullptr)));
    // FromDLPack takes ownership of the tensor as the last step that can fail.
    CALLOUT_ASSIGN_OR_RETURN(handle->buffer, pjrt::Buffer::FromDLPack(client->client, *found, tensor));
    *out = handle.release();
    return OkStatus();
  });
}

callout_status* callout_array_to_dlpack(const callout_array* array, DLManagedTensorVersioned** out) noexcept {
  return GuardC(__func__, {{array, "array"}, {out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(*out, array->buffer.ToDLPack());
    return OkStatus();
  });
}

callout_status* callout_array_copy(const callout_array* array, const callout_client* client, size_t device,
                                   callout_array** out) noexcept {
  const char* const function = __func__;
  return GuardC(function, {{array, "array"}, {client, "client"}, {out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(const pjrt::Device* found, internal::FindDevice(function, *client->client, device));
    CALLOUT_ASSIGN_OR_RETURN(pjrt::Buffer buffer, array->buffer.CopyTo(client->client, *found));
    *out = internal::NewHandle<callout_array>(client->client, std::move(buffer));
    return OkStatus();
  });
}

callout_status* callout_array_copy_in(const callout_array* array, const callout_client* client, size_t device,
                                      const char* memory_kind, callout_array** out) noexcept {
  const char* const function = __func__;
  const auto copy = [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(const pjrt::Memory* memory, FindMemory(function, *client->client, device, memory_kind));
    CALLOUT_ASSIGN_OR_RETURN(pjrt::Buffer buffer, array->buffer.CopyTo(client->client, *memory));
    *out = internal::NewHandle<callout_array>(client->client, std::move(buffer));
    return OkStatus();
  };
  return GuardC(function, {{array, "array"}, {client, "client"}, {memory_kind, "memory_kind"}, {out, "out"}}, copy);
}

callout_status* callout_array_memory_kind(const callout_array* array, const char** out) noexcept {
  return GuardC(__func__, {{array, "array"}, {out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(const pjrt::Memory lies_in, array->buffer.memory());
    for (const pjrt::Device& device : array->client->devices()) {
      for (const pjrt::Memory& memory : device.memories) {  // the client's text, which outlives the call
        if (memory.kind != lies_in.kind) continue;
        *out = memory.kind.c_str();
        return OkStatus();
      }
    }
    return Unimplemented("callout_array_memory_kind: the client has no memory '" + lies_in.kind + "'");
  });
}

callout_status* callout_array_dtype(const callout_array* array, uint32_t* out) noexcept {
  return GuardC(__func__, {{array, "array"}, {out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(const DType dtype, array->buffer.dtype());
    *out = static_cast<uint32_t>(dtype);
    return OkStatus();
  });
}

callout_status* callout_array_dims(const callout_array* array, const int64_t** dims, size_t* rank) noexcept {
  return GuardC(__func__, {{array, "array"}, {dims, "dims"}, {rank, "rank"}}, [&]() -> Status {
    PjrtArgs<PJRT_Buffer_Dimensions_Args> args;
    args.buffer = array->buffer.handle();
    CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(Api(*array), PJRT_Buffer_Dimensions, args));
    *dims = args.dims;
    *rank = args.num_dims;
    return OkStatus();
  });
}

callout_status* callout_array_size_bytes(const callout_array* array, size_t* out) noexcept {
  return GuardC(__func__, {{array, "array"}, {out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(*out, array->buffer.HostSize());
    return OkStatus();
  });
}

callout_status* callout_array_to_host(const callout_array* array, void* data, size_t size_bytes) noexcept {
  return GuardC(__func__, {{array, "array"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(const size_t expected, array->buffer.HostSize());
    if (data == nullptr && expected > 0 && size_bytes == expected) {
      return InvalidArgument("callout_array_to_host: data is null");
    }
    return array->buffer.ToHost(data, size_bytes);
  });
}

void callout_array_destroy(callout_array* array) noexcept { delete array; }
