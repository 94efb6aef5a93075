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

struct DLManagedTensorVersioned;  // defined in dlpack.h, 1.0 or newer

namespace callout::pjrt {

/// A view of an array in the host's memory on which a device works; nothing is copied. Movable. Borrowed: its Buffer
/// outlives it.
template <typename T>
class HostView {
 public:
  /// Returns the elements, row-major. Borrowed: valid as long as this object.
  std::span<const T> values() const { return values_; }

 private:
  friend class Buffer;
  HostView(std::span<const T> values, std::shared_ptr<const void> hold) : values_(values), hold_(std::move(hold)) {}

  std::span<const T> values_;
  std::shared_ptr<const void> hold_;  // keeps programs from taking over the buffer
};

/// An array on a device. Movable. Const members are thread-safe.
class CALLOUT_EXPORT Buffer {
 public:
  /// Copies a dense row-major array to `device`; `data` may change when this returns. Elements of less than a byte take
  /// a byte each. Errors: InvalidArgument for a dtype that PJRT does not have, and for impossible dims; else the
  /// plugin's own.
  static Result<Buffer> FromHost(std::shared_ptr<const Client> client, const Device& device, DType dtype,
                                 std::span<const int64_t> dims, const void* data);
  /// Copies a vector to `device`. InvalidArgument if the vector has another number of elements than `dims`.
  template <typename T>
  static Result<Buffer> FromHost(std::shared_ptr<const Client> client, const Device& device,
                                 std::span<const int64_t> dims, const std::vector<T>& values) {
    uint64_t elements = 1;  // any number for impossible dims, which the last call checks
    for (const int64_t extent : dims) elements *= static_cast<uint64_t>(extent);
    if (elements != values.size()) return WrongSize(static_cast<int64_t>(elements), values.size());
    return FromHost(std::move(client), device, DTypeOf<T>::value, dims, values.data());
  }
  /// Copies a dense row-major array to a memory of a device (Device::memories).
  static Result<Buffer> FromHost(std::shared_ptr<const Client> client, const Memory& memory, DType dtype,
                                 std::span<const int64_t> dims, const void* data);
  /// Makes a buffer without a copy where the device works in the host's memory and `data` is aligned as the plugin
  /// wants it (64 bytes are enough for XLA:CPU); else copies like FromHost. `data` must not change before the plugin
  /// drops it, which may happen on any thread. Programs never overwrite `data`, even if the input is donated.
  static Result<Buffer> FromHostShared(std::shared_ptr<const Client> client, const Device& device, DType dtype,
                                       std::span<const int64_t> dims, std::shared_ptr<const void> data);
  /// Makes a buffer of a DLPack tensor like FromHostShared; the tensor must be dense, row-major and in the host's
  /// memory. Takes ownership on success. InvalidArgument for other tensors, and for null.
  static Result<Buffer> FromDLPack(std::shared_ptr<const Client> client, const Device& device,
                                   DLManagedTensorVersioned* tensor);
  /// Wraps a handle of the plugin. Takes ownership of `handle`.
  Buffer(std::shared_ptr<const Client> client, PJRT_Buffer* handle, uint64_t type_tag = 0);

  /// Returns the element type. Errors: the plugin's own.
  Result<DType> dtype() const;
  /// Returns the extents, in elements. Errors: the plugin's own.
  Result<std::vector<int64_t>> dims() const;

  /// Blocks until the array is ready, and copies it, dense and row-major. Elements of less than a byte take a byte
  /// each, with zeros in the high bits. Errors: those of the program that computes the array.
  Result<std::vector<std::byte>> ToHost() const;
  /// Copies the array to `data`, like the other ToHost. InvalidArgument if `size` is not HostSize().
  Status ToHost(void* data, size_t size) const;
  /// Returns the number of bytes that ToHost copies.
  Result<size_t> HostSize() const;
  /// Copies the array to a vector, like ToHost. InvalidArgument if the elements are not Ts.
  template <typename T>
  Result<std::vector<T>> ToVector() const {
    CALLOUT_ASSIGN_OR_RETURN(const DType type, dtype());
    if (type != DTypeOf<T>::value) return WrongType(DTypeOf<T>::value, type);
    CALLOUT_ASSIGN_OR_RETURN(const std::vector<std::byte> bytes, ToHost());
    const auto* const first = reinterpret_cast<const T*>(bytes.data());
    return std::vector<T>(first, first + bytes.size() / sizeof(T));  // a std::vector<bool> has no elements in memory
  }

  /// Blocks until the array is ready, and returns a view of it. Errors: FailedPrecondition if the device's memory is
  /// not the host's, or the array not row-major; InvalidArgument if the elements are not Ts; those of the program that
  /// computes the array.
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

  /// Returns the array in the host's memory, without a copy, for another library to read. The library calls the
  /// tensor's `deleter` on any thread; until then no program takes the array over. The tensor may outlive this object.
  /// Errors: those of View; InvalidArgument for a dtype that DLPack does not have.
  Result<DLManagedTensorVersioned*> ToDLPack() const;

  /// Returns a copy on `device`, a device of `client`. The copy may not be ready yet. The plugin copies within a
  /// client; between clients the host copies, and Blocks until this array is ready. Errors: the plugin's own.
  Result<Buffer> CopyTo(std::shared_ptr<const Client> client, const Device& device) const;
  /// Returns a copy in a memory of a device of `client`, like the other CopyTo.
  Result<Buffer> CopyTo(std::shared_ptr<const Client> client, const Memory& memory) const;
  /// Returns the memory that holds the array. Errors: Unimplemented if the plugin does not report it.
  Result<Memory> memory() const;

  /// Returns true after a program took the array over, see ExecuteOptions::donated_inputs.
  Result<bool> IsDeleted() const;

  /// Returns an event that is set when the array is ready.
  Result<Event> Ready() const;

  /// Returns the plugin's handle, for this library's own classes. The handle's client is not always the one with which
  /// the array was made: see ClientOptions::concurrent_runs.
  PJRT_Buffer* handle() const { return handle_.get(); }
  /// Returns the client of handle(), for this library's own classes.
  const std::shared_ptr<const Client>& client() const { return handle_.get_deleter().client; }
  /// Returns a number that all arrays of one type share, and no array of another type has; 0 if finding it would need a
  /// call of the plugin.
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
