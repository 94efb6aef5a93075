// SPDX-License-Identifier: Apache-2.0
//
// An array on a device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "callout/dtype.h"
#include "callout/export.h"
#include "callout/pjrt/client.h"
#include "callout/pjrt/event.h"
#include "callout/pjrt/handle.h"
#include "callout/status.h"

struct DLManagedTensorVersioned;  // of dlpack.h, 1.0 or newer

namespace callout::pjrt {

/// An array in the host's memory that a device works on, not a copy of it. Movable. Borrowed: its Buffer outlives it.
template <typename T>
class HostView {
 public:
  /// Returns the elements, row-major. Borrowed: valid as long as this object.
  std::span<const T> values() const { return values_; }

 private:
  friend class Buffer;
  HostView(std::span<const T> values, std::shared_ptr<const void> hold) : values_(values), hold_(std::move(hold)) {}

  std::span<const T> values_;
  std::shared_ptr<const void> hold_;  // keeps a program from taking the buffer over
};

/// Movable. Const members are thread-safe.
class CALLOUT_EXPORT Buffer {
 public:
  /// Copies a dense row-major array to `device`; `data` is free when this returns. Elements of less than a byte have a
  /// byte each. Errors: InvalidArgument for a dtype that PJRT does not have, and for dims that no array
  /// has; else the plugin's own.
  static Result<Buffer> FromHost(std::shared_ptr<const Client> client, const Device& device, DType dtype,
                                 std::span<const int64_t> dims, const void* data);
  /// As above, of a vector. InvalidArgument if it has another number of elements than `dims`.
  template <typename T>
  static Result<Buffer> FromHost(std::shared_ptr<const Client> client, const Device& device,
                                 std::span<const int64_t> dims, const std::vector<T>& values) {
    uint64_t elements = 1;  // of dims that no array has, some number: they are looked at below
    for (const int64_t extent : dims) elements *= static_cast<uint64_t>(extent);
    if (elements != values.size()) return WrongSize(static_cast<int64_t>(elements), values.size());
    return FromHost(std::move(client), device, DTypeOf<T>::value, dims, values.data());
  }
  /// As the first, into a memory of a device's (Device::memories).
  static Result<Buffer> FromHost(std::shared_ptr<const Client> client, const Memory& memory, DType dtype,
                                 std::span<const int64_t> dims, const void* data);
  /// As the first, but without a copy where the device works in the host's memory and `data` is aligned as the plugin
  /// wants it (64 bytes are enough for XLA:CPU). `data` must not change before it is dropped, which the plugin does on
  /// any thread. Programs never overwrite it, also if the input is donated.
  static Result<Buffer> FromHostShared(std::shared_ptr<const Client> client, const Device& device, DType dtype,
                                       std::span<const int64_t> dims, std::shared_ptr<const void> data);
  /// As FromHostShared, of a dense row-major tensor of DLPack in the host's memory. Takes ownership if it succeeds.
  /// InvalidArgument for other tensors, and for null.
  static Result<Buffer> FromDLPack(std::shared_ptr<const Client> client, const Device& device,
                                   DLManagedTensorVersioned* tensor);
  /// Takes ownership of `handle`.
  Buffer(std::shared_ptr<const Client> client, PJRT_Buffer* handle, uint64_t type_tag = 0);

  /// Returns the element type. Errors: the plugin's own.
  Result<DType> dtype() const;
  /// Extents, in elements. Errors: the plugin's own.
  Result<std::vector<int64_t>> dims() const;

  /// Blocks until the array is there, and copies it, dense and row-major, elements of less than a byte in a byte each
  /// (the bits above them are 0). Errors: those of the program that makes it.
  Result<std::vector<std::byte>> ToHost() const;
  /// As ToHost, to `data`. InvalidArgument if `size` is not HostSize().
  Status ToHost(void* data, size_t size) const;
  /// Bytes that ToHost copies.
  Result<size_t> HostSize() const;
  /// As ToHost. InvalidArgument if the elements are not Ts.
  template <typename T>
  Result<std::vector<T>> ToVector() const {
    CALLOUT_ASSIGN_OR_RETURN(const DType type, dtype());
    if (type != DTypeOf<T>::value) return WrongType(DTypeOf<T>::value, type);
    CALLOUT_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ToHost());
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) __builtin_memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  /// Blocks until the array is there. FailedPrecondition if the device's memory is not the host's, or the array
  /// not row-major, InvalidArgument if
  /// the elements are not Ts; errors of the program that makes it.
  template <typename T>
  Result<HostView<T>> View() const {
    CALLOUT_ASSIGN_OR_RETURN(const DType type, dtype());
    if (type != DTypeOf<T>::value) return WrongType(DTypeOf<T>::value, type);
    CALLOUT_ASSIGN_OR_RETURN(const std::vector<int64_t> extents, dims());
    size_t elements = 1;
    for (const int64_t extent : extents) elements *= static_cast<size_t>(extent);
    CALLOUT_ASSIGN_OR_RETURN(std::shared_ptr<const void> data, HoldData());
    const auto* values = static_cast<const T*>(data.get());
    return HostView<T>({values, elements}, std::move(data));
  }

  /// Returns the array in the host's memory, without a copy, for another library to read; that one calls its `deleter`,
  /// on any thread. It outlives this object, and no program takes it over meanwhile. Errors: as View; InvalidArgument
  /// for a dtype that DLPack does not have.
  Result<DLManagedTensorVersioned*> ToDLPack() const;

  /// Returns a copy on `device`, which `client` has. May return before it is there. Within a client the plugin copies,
  /// between clients the host does, which Blocks until this array is there. Errors: the plugin's own.
  Result<Buffer> CopyTo(std::shared_ptr<const Client> client, const Device& device) const;
  /// As above, in a memory of a device's.
  Result<Buffer> CopyTo(std::shared_ptr<const Client> client, const Memory& memory) const;
  /// Where it lies. Errors: Unimplemented if the plugin does not tell.
  Result<Memory> memory() const;

  /// Returns True after a program took it over, see ExecuteOptions::donated_inputs.
  Result<bool> IsDeleted() const;

  /// Happens when the array is there.
  Result<Event> Ready() const;

  /// For this library's own classes. The client is not always the one that the array was made with: see
  /// ClientOptions::concurrent_runs.
  PJRT_Buffer* handle() const { return handle_.get(); }
  /// As handle().
  const std::shared_ptr<const Client>& client() const { return handle_.get_deleter().client; }
  /// Returns a number, the same for all arrays of one type, and of no other type; 0 if it is not known without asking
  /// the plugin.
  uint64_t type_tag() const { return type_tag_; }

 private:
  static Status WrongSize(int64_t elements, size_t values);
  static Status WrongType(DType expected, DType found);
  const internal::PjrtApi& api() const;
  Status CopyToHost(void* data, size_t size) const;
  Result<std::shared_ptr<const void>> HoldData() const;

  Handle<PJRT_Buffer> handle_;
  uint64_t type_tag_;
};

}  // namespace callout::pjrt
