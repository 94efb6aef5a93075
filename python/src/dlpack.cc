// SPDX-License-Identifier: Apache-2.0
#include "dlpack.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include "core/base/cat.h"
#include "core/frame/buffer.h"
#include "core/frame/elements.h"

namespace callout::python {
namespace {

// The memory that a consumer's tensor refers to. The tensor's deleter deletes it, on any thread.
struct Exported {
  std::shared_ptr<Leases> leases;
  std::vector<int64_t> extents;  // the shape, then the strides
  std::unique_ptr<char[]> copy;
  DLManagedTensor plain;
  DLManagedTensorVersioned versioned;

  ~Exported() {
    if (leases != nullptr) leases->fetch_sub(1, std::memory_order_release);
  }
};

template <typename Managed>
void Delete(Managed* managed) {
  delete static_cast<Exported*>(managed->manager_ctx);
}

// Drops the tensor of a capsule that no consumer took over: consumers rename capsules that they take.
template <typename Managed>
void DropCapsule(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}

constexpr char kPlain[] = "dltensor";
constexpr char kVersioned[] = "dltensor_versioned";

std::unique_ptr<Exported> Export(const callout_buffer& buffer, std::shared_ptr<Leases> leases, bool copy) {
  auto exported = std::make_unique<Exported>();
  if (copy) {
    exported->copy = std::make_unique<char[]>(buffer.size_bytes);
    if (buffer.size_bytes > 0) std::memcpy(exported->copy.get(), buffer.data, buffer.size_bytes);
  }
  exported->extents.assign(buffer.dims, buffer.dims + buffer.rank);
  exported->extents.resize(size_t{2} * buffer.rank);
  int64_t stride = 1;
  for (uint32_t i = buffer.rank; i-- > 0;) {
    exported->extents[buffer.rank + i] = stride;
    stride *= buffer.dims[i];
  }
  if (!copy) {
    leases->fetch_add(1, std::memory_order_relaxed);
    exported->leases = std::move(leases);  // the destructor gives the lease back
  }
  return exported;
}

}  // namespace

PyObject* ToDLPack(const callout_buffer& buffer, const DLPackRequest& request, std::shared_ptr<Leases> leases) {
  const auto dtype = static_cast<DType>(buffer.dtype);
  const int code = internal::RowOf(dtype).dlpack_code;
  if (code < 0) {
    PyErr_Format(PyExc_BufferError, "callout: DLPack has no dtype %s", std::string(NumpyName(dtype)).c_str());
    return nullptr;
  }
  std::unique_ptr<Exported> exported;
  try {
    exported = Export(buffer, std::move(leases), request.copy);
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  }
  const DLTensor tensor = {exported->copy != nullptr ? exported->copy.get() : buffer.data,
                           request.device,
                           static_cast<int32_t>(buffer.rank),
                           {static_cast<uint8_t>(code), static_cast<uint8_t>(BitWidth(dtype)), 1},
                           exported->extents.data(),
                           exported->extents.data() + buffer.rank,
                           0};
  PyObject* capsule = nullptr;
  if (request.versioned) {
    const uint64_t flags = (request.writeable || request.copy ? 0 : kDLReadOnly) | (request.copy ? kDLIsCopied : 0);
    exported->versioned = {1, 0, exported.get(), &Delete<DLManagedTensorVersioned>, flags, tensor};
    capsule = PyCapsule_New(&exported->versioned, kVersioned,
                            [](PyObject* self) { DropCapsule<DLManagedTensorVersioned>(self, kVersioned); });
  } else {
    exported->plain = {tensor, exported.get(), &Delete<DLManagedTensor>};
    capsule =
        PyCapsule_New(&exported->plain, kPlain, [](PyObject* self) { DropCapsule<DLManagedTensor>(self, kPlain); });
  }
  if (capsule != nullptr) (void)exported.release();  // owned by the capsule
  return capsule;
}

namespace {

bool SameShape(const DLTensor& tensor, const callout_buffer& like) {
  return tensor.ndim == static_cast<int32_t>(like.rank) && std::equal(like.dims, like.dims + like.rank, tensor.shape);
}

bool IsDense(const DLTensor& tensor) {
  int64_t stride = 1;
  for (int32_t i = tensor.ndim; tensor.strides != nullptr && i-- > 0;) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] != 1 && tensor.strides[i] != stride) return false;
    stride *= tensor.shape[i];
  }
  return true;
}

std::string Described(const DLTensor& tensor) {
  const std::span shape(tensor.shape, static_cast<size_t>(tensor.ndim));
  return internal::Cat("(", internal::Join(shape, ", "), ") of DLPack's type ", tensor.dtype.code, " of ",
                       tensor.dtype.bits, " bits");
}

}  // namespace

std::string DataOfDLPack(PyObject* capsule, const callout_buffer& like, const void** data) {
  const auto* managed = static_cast<const DLManagedTensor*>(PyCapsule_GetPointer(capsule, kPlain));
  if (managed == nullptr) return "";
  const DLTensor& tensor = managed->tensor;
  const auto dtype = static_cast<DType>(like.dtype);
  const int code = internal::RowOf(dtype).dlpack_code;
  const bool same_dtype = code == tensor.dtype.code && tensor.dtype.bits == BitWidth(dtype) && tensor.dtype.lanes == 1;
  if (!same_dtype || !SameShape(tensor, like)) {
    return "expected " + internal::ShapeString(like) + ", got " + Described(tensor);
  }
  if (!IsDense(tensor)) return "expected an array that is row-major and dense";
  *data = static_cast<const char*>(tensor.data) + tensor.byte_offset;
  return "";
}

}  // namespace callout::python
