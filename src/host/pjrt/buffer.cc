// SPDX-License-Identifier: Apache-2.0
//
// Buffers, and their conversion to DLPack tensors and back.
#include "callout/pjrt/buffer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "callout/pjrt/program.h"
#include "core/base/cat.h"
#include "core/frame/buffer.h"
#include "core/frame/dlpack_abi.h"
#include "core/frame/elements.h"
#include "host/pjrt/loans.h"
#include "host/pjrt/pjrt_abi.h"
#include "host/pjrt/topology.h"
#include "host/pjrt/values.h"

namespace callout::pjrt {

using internal::PjrtArgs;

Buffer::Buffer(std::shared_ptr<const Client> client, PJRT_Buffer* handle, uint64_t type_tag)
    : handle_(Own(std::move(client), handle)), type_tag_(type_tag) {}

const internal::PjrtApi& Buffer::api() const { return client()->plugin().api(); }

namespace {

// Returns the order of the buffer's dimensions in memory, as IsRowMajor takes it; empty if the plugin does not report
// it. Borrowed: valid as long as the buffer.
std::span<const int64_t> ReadOrder(const internal::PjrtApi& api, PJRT_Buffer* buffer) {
  PjrtArgs<PJRT_Buffer_GetMemoryLayout_Args> args;
  args.buffer = buffer;
  const bool is_told = CALLOUT_PJRT(api, PJRT_Buffer_GetMemoryLayout, args).ok();
  if (!is_told || internal::EnumNumber(args.layout.type) != PJRT_Buffer_MemoryLayout_Type_Tiled) return {};
  return {args.layout.tiled.minor_to_major, args.layout.tiled.minor_to_major_size};
}

}  // namespace

Result<DType> Buffer::dtype() const {
  PjrtArgs<PJRT_Buffer_ElementType_Args> args;
  args.buffer = handle();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api(), PJRT_Buffer_ElementType, args));
  return internal::FromPjrtType(internal::EnumNumber(args.type));
}

Result<std::vector<int64_t>> Buffer::dims() const {
  PjrtArgs<PJRT_Buffer_Dimensions_Args> args;
  args.buffer = handle();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api(), PJRT_Buffer_Dimensions, args));
  return std::vector<int64_t>(args.dims, args.dims + args.num_dims);
}

Result<size_t> Buffer::HostSize() const {
  PjrtArgs<PJRT_Buffer_ElementType_Args> elements;
  elements.buffer = handle();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api(), PJRT_Buffer_ElementType, elements));
  if (internal::EnumNumber(elements.type) == PJRT_Buffer_Type_TOKEN) {  // plugins end the process for a token
    return InvalidArgument("callout: a token has no elements to copy");
  }
  PjrtArgs<PJRT_Buffer_ToHostBuffer_Args> args;
  args.src = handle();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api(), PJRT_Buffer_ToHostBuffer, args));
  return args.dst_size;
}

Status Buffer::ToHost(void* data, size_t size) const {
  CALLOUT_ASSIGN_OR_RETURN(const size_t expected, HostSize());
  if (size != expected) {
    return InvalidArgument(internal::Cat("callout: the array has ", expected, " bytes, there is room for ", size));
  }
  if (size == 0) return OkStatus();
  const std::span<const int64_t> order = ReadOrder(api(), handle());
  if (internal::IsRowMajor(order)) return CopyToHost(data, size);
  CALLOUT_ASSIGN_OR_RETURN(const std::vector<int64_t> extents, dims());
  size_t elements = 1;
  for (const int64_t extent : extents) elements *= static_cast<size_t>(extent);
  std::vector<std::byte> copy(size);
  CALLOUT_RETURN_IF_ERROR(CopyToHost(copy.data(), size));
  internal::CopyToRowMajor(copy.data(), extents, order, size / elements, static_cast<std::byte*>(data));
  return OkStatus();
}

// Copies in the order of the elements on the device: plugins may ignore a request for another order.
Status Buffer::CopyToHost(void* data, size_t size) const {
  PjrtArgs<PJRT_Buffer_ToHostBuffer_Args> args;
  args.src = handle();
  args.dst = data;
  args.dst_size = size;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api(), PJRT_Buffer_ToHostBuffer, args));
  return Event(client(), args.event).Wait();
}

Result<std::vector<std::byte>> Buffer::ToHost() const {
  CALLOUT_ASSIGN_OR_RETURN(const size_t size, HostSize());
  std::vector<std::byte> bytes(size);
  CALLOUT_RETURN_IF_ERROR(ToHost(bytes.data(), size));
  return bytes;
}

Result<Event> Buffer::Ready() const {
  PjrtArgs<PJRT_Buffer_ReadyEvent_Args> args;
  args.buffer = handle();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api(), PJRT_Buffer_ReadyEvent, args));
  return Event(client(), args.event);
}

Result<bool> Buffer::IsDeleted() const {
  PjrtArgs<PJRT_Buffer_IsDeleted_Args> args;
  args.buffer = handle();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api(), PJRT_Buffer_IsDeleted, args));
  return args.is_deleted;
}

Result<std::shared_ptr<const void>> Buffer::HoldData() const {
  CALLOUT_ASSIGN_OR_RETURN(Event ready, Ready());
  CALLOUT_RETURN_IF_ERROR(ready.Wait());
  PjrtArgs<PJRT_Buffer_IsOnCpu_Args> where;
  where.buffer = handle();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api(), PJRT_Buffer_IsOnCpu, where));
  if (!where.is_on_cpu) return FailedPrecondition("callout: cannot view an array that is not in the host's memory");
  if (!internal::IsRowMajor(ReadOrder(api(), handle()))) {
    return FailedPrecondition("callout: cannot view an array that is not row-major");
  }
  CALLOUT_ASSIGN_OR_RETURN(std::unique_ptr<internal::Loan> loan, internal::Loan::Take(api(), handle()));
  CALLOUT_ASSIGN_OR_RETURN(const void* const memory, loan->Memory());
  return std::shared_ptr<const void>(std::shared_ptr<internal::Loan>(std::move(loan)), memory);
}

Status Buffer::WrongSize(int64_t elements, size_t values) {
  return InvalidArgument(
      internal::Cat("callout: an array of ", elements, " elements cannot be made of ", values, " values"));
}

Status Buffer::WrongType(DType expected, DType found) {
  return InvalidArgument("callout: expected an array of " + std::string(ShortName(expected)) + ", got one of " +
                         std::string(ShortName(found)));
}

using internal::PjrtArgs;

namespace {

// Rejects types and extents that no array has: plugins would end the process.
Status CheckArray(DType dtype, std::span<const int64_t> dims) {
  if (dtype == DType::kToken) return InvalidArgument("callout: a token cannot be made of memory");
  int64_t bytes = 16;  // the size of the largest element
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

// One of the two members is null.
struct Place {
  PJRT_Device* device;
  PJRT_Memory* memory;
};

struct Made {
  Buffer buffer;
  Event done;  // happens when the host's array is no longer needed
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

// Copies between clients, which do not know each other's devices, through host memory.
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
  // Plugins keep a listener until the event has happened, even if the Event is destroyed.
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

namespace {

Status Refused(const std::string& why) { return InvalidArgument("callout: cannot take a tensor of DLPack " + why); }

Result<DType> TypeOf(const DLDataType& type) {
  for (const internal::DTypeRow& row : internal::kDTypeRows) {
    if (row.dlpack_code == type.code && row.bits == type.bits && type.lanes == 1) return row.dtype;
  }
  return Refused(internal::Cat("of type code ", type.code, ", ", type.bits, " bits, ", type.lanes, " lanes"));
}

bool IsRowMajor(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  const std::span<const int64_t> dims(tensor.shape, static_cast<size_t>(tensor.ndim));
  if (std::ranges::find(dims, 0) != dims.end()) return true;
  int64_t expected = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i] != 1 && tensor.strides[i] != expected) return false;
    if (__builtin_mul_overflow(expected, dims[i], &expected)) return false;
  }
  return true;
}

Status Check(const DLManagedTensorVersioned* managed) {
  if (managed == nullptr) return Refused("that is null");
  if (managed->major != 1) return Refused(internal::Cat("of version ", managed->major, "; it must be 1"));
  const DLTensor& tensor = managed->tensor;
  if (tensor.device.type != internal::kDLCpu && tensor.device.type != internal::kDLCudaHost) {
    return Refused(
        internal::Cat("in the memory of a device of type ", tensor.device.type, "; it must be in the host's"));
  }
  if (tensor.ndim < 0 || (tensor.ndim > 0 && tensor.shape == nullptr)) return Refused("without a shape");
  const std::span<const int64_t> dims(tensor.shape, static_cast<size_t>(tensor.ndim));
  if (tensor.data == nullptr && std::ranges::find(dims, 0) == dims.end()) return Refused("without its elements");
  if (!IsRowMajor(tensor)) return Refused("that is not dense and row-major");
  return OkStatus();
}

// Another library's tensor, from the time that it is taken over.
struct Taken {
  explicit Taken(DLManagedTensorVersioned* from) : tensor(from) {}
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  ~Taken() {
    if (is_ours && tensor->deleter != nullptr) tensor->deleter(tensor);
  }

  DLManagedTensorVersioned* tensor;
  bool is_ours = false;
};

// A buffer exported as a tensor. Members are destroyed from the last to the first.
struct Lent {
  std::shared_ptr<const Client> client;
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;
  std::shared_ptr<const void> data;
  DLManagedTensorVersioned tensor = {};
};

std::vector<int64_t> RowMajorStrides(std::span<const int64_t> dims) {
  std::vector<int64_t> strides(dims.size(), 1);
  for (size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(dims[i], 1);
  return strides;
}

}  // namespace

Result<Buffer> Buffer::FromDLPack(std::shared_ptr<const Client> client, const Device& device,
                                  DLManagedTensorVersioned* tensor) {
  CALLOUT_RETURN_IF_ERROR(Check(tensor));
  const DLTensor& array = tensor->tensor;
  CALLOUT_ASSIGN_OR_RETURN(const DType dtype, TypeOf(array.dtype));
  const std::span<const int64_t> dims(array.shape, static_cast<size_t>(array.ndim));
  const auto taken = std::make_shared<Taken>(tensor);
  const void* const begin =
      array.data == nullptr ? nullptr : static_cast<const std::byte*>(array.data) + array.byte_offset;
  Result<Buffer> buffer =
      FromHostShared(std::move(client), device, dtype, dims, std::shared_ptr<const void>(taken, begin));
  taken->is_ours = buffer.ok();
  return buffer;
}

Result<DLManagedTensorVersioned*> Buffer::ToDLPack() const {
  CALLOUT_ASSIGN_OR_RETURN(const DType type, dtype());
  const internal::DTypeRow& row = internal::RowOf(type);
  if (row.dlpack_code < 0) {
    return InvalidArgument("callout: DLPack has no type for " + std::string(ShortName(type)));
  }
  CALLOUT_ASSIGN_OR_RETURN(std::vector<int64_t> extents, dims());
  CALLOUT_ASSIGN_OR_RETURN(std::shared_ptr<const void> data, HoldData());
  auto lent = std::make_unique<Lent>();
  lent->client = client();
  lent->dims = std::move(extents);
  lent->strides = RowMajorStrides(lent->dims);
  lent->data = std::move(data);
  DLManagedTensorVersioned& tensor = lent->tensor;
  tensor.major = 1;
  tensor.manager_ctx = lent.get();
  tensor.deleter = [](DLManagedTensorVersioned* self) { delete static_cast<Lent*>(self->manager_ctx); };
  tensor.flags = internal::kDLReadOnly;
  tensor.tensor.data = const_cast<void*>(lent->data.get());
  tensor.tensor.device = {internal::kDLCpu, 0};
  tensor.tensor.ndim = static_cast<int32_t>(lent->dims.size());
  tensor.tensor.dtype = {static_cast<uint8_t>(row.dlpack_code), static_cast<uint8_t>(row.bits), 1};
  tensor.tensor.shape = lent->dims.data();
  tensor.tensor.strides = lent->strides.data();
  return &lent.release()->tensor;
}

}  // namespace callout::pjrt
