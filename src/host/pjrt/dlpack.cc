// SPDX-License-Identifier: Apache-2.0
//
// Buffers as tensors of DLPack, and back.
#include <algorithm>
#include <string>
#include <utility>

#include "callout/pjrt/buffer.h"
#include "core/frame/dlpack_abi.h"
#include "core/frame/dtype_row.h"

namespace callout::pjrt {
namespace {

Status Refused(const std::string& why) { return InvalidArgument("callout: cannot take a tensor of DLPack " + why); }

Result<DType> TypeOf(const DLDataType& type) {
  for (const internal::DTypeRow& row : internal::kDTypeRows) {
    if (row.dlpack_code == type.code && row.bits == type.bits && type.lanes == 1) return row.dtype;
  }
  return Refused("of type code " + std::to_string(type.code) + ", " + std::to_string(type.bits) + " bits, " +
                 std::to_string(type.lanes) + " lanes");
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
  if (managed->major != 1) return Refused("of version " + std::to_string(managed->major) + "; it must be 1");
  const DLTensor& tensor = managed->tensor;
  if (tensor.device.type != internal::kDLCpu && tensor.device.type != internal::kDLCudaHost) {
    return Refused("in the memory of a device of type " + std::to_string(tensor.device.type) +
                   "; it must be in the host's");
  }
  if (tensor.ndim < 0 || (tensor.ndim > 0 && tensor.shape == nullptr)) return Refused("without a shape");
  const std::span<const int64_t> dims(tensor.shape, static_cast<size_t>(tensor.ndim));
  if (tensor.data == nullptr && std::ranges::find(dims, 0) == dims.end()) return Refused("without its elements");
  if (!IsRowMajor(tensor)) return Refused("that is not dense and row-major");
  return OkStatus();
}

// Somebody else's tensor, from when it is taken over.
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

// A buffer as a tensor. Members are destroyed from the last to the first.
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
