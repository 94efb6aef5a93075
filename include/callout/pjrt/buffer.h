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

namespace callout::pjrt {

/// Movable. Const members are thread-safe.
class CALLOUT_EXPORT Buffer {
 public:
  /// Copies a dense row-major array to `device`; `data` is free when this returns. Errors: InvalidArgument for a dtype
  /// that PJRT does not have; else the plugin's own.
  static Result<Buffer> FromHost(std::shared_ptr<const Client> client, const Device& device, DType dtype,
                                 std::span<const int64_t> dims, const void* data);
  template <typename T>
  static Result<Buffer> FromHost(std::shared_ptr<const Client> client, const Device& device,
                                 std::span<const int64_t> dims, const std::vector<T>& values) {
    int64_t elements = 1;
    for (const int64_t extent : dims) elements *= extent;
    if (elements != static_cast<int64_t>(values.size())) return WrongSize(elements, values.size());
    return FromHost(std::move(client), device, DTypeOf<T>::value, dims, values.data());
  }
  /// Takes ownership of `handle`.
  Buffer(std::shared_ptr<const Client> client, PJRT_Buffer* handle);

  Result<DType> dtype() const;
  Result<std::vector<int64_t>> dims() const;

  /// Blocks until the array is there, and copies it, dense and row-major. Errors: those of the program that makes it.
  Result<std::vector<std::byte>> ToHost() const;
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

  /// Happens when the array is there.
  Result<Event> Ready() const;

  /// For this library's own classes.
  PJRT_Buffer* handle() const { return handle_.get(); }

 private:
  static Status WrongSize(int64_t elements, size_t values);
  static Status WrongType(DType expected, DType found);
  const std::shared_ptr<const Client>& client() const { return handle_.get_deleter().client; }
  const internal::PjrtApi& api() const;

  Handle<PJRT_Buffer> handle_;
};

}  // namespace callout::pjrt
