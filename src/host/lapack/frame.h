// SPDX-License-Identifier: Apache-2.0
//
// Decodes the call frame of a LAPACK handler: batches of column-major matrices, as JAX's programs pass them (their
// layouts swap the last two axes), vectors, and flags. A program is not trusted: every extent is checked.
#pragma once

#include <algorithm>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "callout/dtype.h"
#include "callout/status.h"
#include "core/base/cat.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal::lapack {

using Int = int32_t;  // LAPACK's integers

/// A buffer of T. All axes but the last `inner` count the batch.
template <typename T>
struct Batch {
  T* data = nullptr;
  std::span<const int64_t> dims = {};  ///< The extents of one batch element.
  int64_t count = 0;
  int64_t stride = 0;  ///< The number of elements of T in one batch element.

  T* at(int64_t i) const { return data + i * stride; }
  Int dim(size_t axis) const { return static_cast<Int>(dims[axis]); }
};

/// The call frame of one handler. Borrowed: valid until the handler returns.
class Frame {
 public:
  Frame(const XLA_FFI_CallFrame* frame, std::string name) : frame_(frame), name_(std::move(name)) {}

  /// InvalidArgument if the handler did not get these numbers of operands and results.
  Status ExpectCounts(int64_t args, int64_t rets) const;

  template <typename T>
  Result<Batch<T>> Arg(int64_t i, size_t inner) const {
    return Read<T>("operand", frame_->args.args, i, inner);
  }
  template <typename T>
  Result<Batch<T>> Ret(int64_t i, size_t inner) const {
    return Read<T>("result", frame_->rets.rets, i, inner);
  }
  /// Returns result `i` with the bytes of operand `arg`, with which it may share memory. InvalidArgument if their
  /// shapes differ.
  template <typename T>
  Result<Batch<T>> InPlace(int64_t arg, int64_t i, size_t inner) const {
    CALLOUT_ASSIGN_OR_RETURN(const Batch<T> from, Arg<T>(arg, inner));
    CALLOUT_ASSIGN_OR_RETURN(const Batch<T> to, Ret<T>(i, inner));
    CALLOUT_RETURN_IF_ERROR(ExpectSame(from.count, to.count, "batches of operand and result"));
    for (size_t axis = 0; axis < inner; ++axis) {
      CALLOUT_RETURN_IF_ERROR(ExpectSame(from.dims[axis], to.dims[axis], "extents of operand and result"));
    }
    const auto bytes = static_cast<size_t>(to.count * to.stride) * sizeof(T);
    if (bytes != 0 && from.data != to.data) std::memmove(to.data, from.data, bytes);
    return to;
  }
  /// InvalidArgument, with `what`, if they differ.
  Status ExpectSame(int64_t expected, int64_t found, const char* what) const;
  /// InvalidArgument unless `batch` has `count` elements with these extents.
  template <typename T>
  Status ExpectDims(const Batch<T>& batch, int64_t count, std::initializer_list<int64_t> dims, const char* what) const {
    CALLOUT_RETURN_IF_ERROR(ExpectSame(count, batch.count, what));
    size_t axis = 0;
    for (const int64_t extent : dims) CALLOUT_RETURN_IF_ERROR(ExpectSame(extent, batch.dims[axis++], what));
    return OkStatus();
  }

  /// Returns a flag of LAPACK's, which must be in `allowed`. InvalidArgument for anything else.
  Result<char> Flag(const char* name, std::string_view allowed) const;
  Result<Int> Integer(const char* name) const;

  /// Returns the error for a negative `info`, which LAPACK returns for a bad argument, where the program does not check
  /// it.
  Status Refused(Int info) const { return InternalError(Cat("callout: ", name_, ": LAPACK returned info = ", info)); }
  Status Bad(const std::string& what) const { return InvalidArgument("callout: " + name_ + ": " + what); }
  const std::string& name() const { return name_; }

 private:
  template <typename T>
  Result<Batch<T>> Read(const char* kind, void* const* buffers, int64_t i, size_t inner) const {
    const auto* buffer = static_cast<const XLA_FFI_Buffer*>(buffers[i]);
    CALLOUT_RETURN_IF_ERROR(Check(kind, i, *buffer, static_cast<uint32_t>(DTypeOf<T>::value), inner));
    const auto rank = static_cast<size_t>(buffer->rank);
    Batch<T> batch{static_cast<T*>(buffer->data), {buffer->dims + (rank - inner), inner}, 1, 1};
    for (size_t axis = 0; axis < rank - inner; ++axis) batch.count *= buffer->dims[axis];
    for (const int64_t extent : batch.dims) batch.stride *= extent;
    return batch;
  }
  Status Check(const char* kind, int64_t i, const XLA_FFI_Buffer& buffer, uint32_t dtype, size_t inner) const;
  const XLA_FFI_Scalar* FindScalar(const char* name, XLA_FFI_DataType dtype) const;

  const XLA_FFI_CallFrame* frame_;
  std::string name_;
};

/// Returns a workspace for LAPACK. `answer`, of a size query, is rounded up: in single precision large sizes are not
/// exact.
template <typename T>
std::vector<T> Workspace(T answer) {
  const double size = std::real(std::complex<double>(answer)) * (1 + 4 * std::numeric_limits<float>::epsilon());
  return std::vector<T>(static_cast<size_t>(std::max(1.0, size + 1)));
}

}  // namespace callout::internal::lapack
