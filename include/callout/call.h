// SPDX-License-Identifier: Apache-2.0
//
// Typed views over the C ABI, with which C++ authors write callbacks. Header-only: there is nothing to link.
//
//   #include "callout/call.h"
//   void Scale(const callout::Call& call) {
//     auto x = call.arg<float>(0);
//     auto y = call.result<float>(0);
//     for (int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
//   }
//   CALLOUT_DEFINE_CALLBACK(scale, Scale);
//
// In Python: callout.register("scale", "libmine.so:scale"); callout.pure_callback("scale", result_type, x).
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <stdexcept>
#include <string>

#include "callout/abi.h"
#include "callout/dtype.h"

namespace callout {

/// A dense row-major array of T in memory that XLA owns. Borrowed: valid until the callback returns.
template <typename T>
class ArrayView {
 public:
  /// Views `size` elements at `data`, in the shape `dims`. Nothing is copied.
  ArrayView(T* data, std::span<const int64_t> dims, int64_t size) : data_(data), dims_(dims), size_(size) {}

  /// Returns the first element. Null only if there are none.
  T* data() const { return data_; }
  /// Returns the number of elements.
  int64_t size() const { return size_; }
  /// Returns the number of dimensions; 0 for a scalar.
  int64_t rank() const { return static_cast<int64_t>(dims_.size()); }
  /// Returns the extents, in elements.
  std::span<const int64_t> dims() const { return dims_; }
  /// Returns the first element.
  T* begin() const { return data_; }
  /// Returns the address behind the last element.
  T* end() const { return data_ + size_; }
  /// Returns the element at a row-major flat index, unchecked.
  T& operator[](int64_t i) const { return data_[i]; }

 private:
  T* data_;
  std::span<const int64_t> dims_;
  int64_t size_;
};

/// Typed access to one call. Borrowed: valid until the callback returns. Accessors throw std::invalid_argument on a
/// wrong index or element type, which fails the computation with that text.
class Call {
 public:
  /// Views the C struct. Borrowed: valid as long as `call`.
  explicit Call(const callout_call* call) : call_(call) {}

  /// Returns the number of operands.
  int64_t num_args() const { return call_->num_args; }
  /// Returns the number of results; 0 for taps.
  int64_t num_results() const { return call_->num_results; }
  /// Returns XLA's number of the device; on CPU the id of the jax.Device. -1 if unknown.
  int32_t device_ordinal() const { return call_->device_ordinal; }
  /// Returns the number that all devices of one launch share; 0 outside a compiled program.
  int64_t run_id() const { return call_->run_id; }
  /// Returns the CUstream of a call on a device's memory; null if the operands are in the host's memory.
  void* stream() const { return call_->stream; }
  /// Returns the pointer that the host gave to this run, ExecuteOptions::context; null if the host gave none, for taps
  /// and under JAX. Borrowed: valid until the callback returns. Callbacks of one run may use the pointer at once, on
  /// several threads.
  void* context() const {
    return call_->struct_size >= offsetof(callout_call, context) + sizeof(void*) ? call_->context : nullptr;
  }
  /// Returns the untyped C view.
  const callout_call* raw() const { return call_; }

  /// Returns operand `index`, read-only.
  template <typename T>
  ArrayView<const T> arg(int64_t index) const {
    return View<const T>(Checked(call_->args, call_->num_args, index, "argument"), index, "argument");
  }
  /// Returns result `index`, which the callback fills; uninitialised on entry.
  template <typename T>
  ArrayView<T> result(int64_t index) const {
    return View<T>(Checked(call_->results, call_->num_results, index, "result"), index, "result");
  }

 private:
  static const callout_buffer& Checked(const callout_buffer* buffers, int64_t count, int64_t index, const char* what) {
    if (index < 0 || index >= count) {
      throw std::invalid_argument(std::string(what) + " " + std::to_string(index) + " asked for, but the call has " +
                                  std::to_string(count));
    }
    return buffers[index];
  }

  template <typename T>
  static ArrayView<T> View(const callout_buffer& buffer, int64_t index, const char* what) {
    constexpr DType kExpected = DTypeOf<std::remove_const_t<T>>::value;
    if (static_cast<DType>(buffer.dtype) != kExpected) {
      throw std::invalid_argument(std::string(what) + " " + std::to_string(index) + ": expected XLA element type " +
                                  std::to_string(static_cast<uint32_t>(kExpected)) + ", got " +
                                  std::to_string(buffer.dtype));
    }
    return ArrayView<T>(static_cast<T*>(buffer.data), {buffer.dims, buffer.rank},
                        static_cast<int64_t>(buffer.size_bytes / sizeof(T)));
  }

  const callout_call* call_;
};

namespace internal {

inline void SetError(const callout_call* call, const char* text) noexcept {
  call->set_error(call->error_context, 13, text, std::char_traits<char>::length(text));
}

/// Runs `fn` and turns an exception into an error of the call.
template <typename Fn>
int32_t Guarded(const callout_call* call, Fn&& fn) noexcept {
  try {
    fn(Call(call));
    return 0;
  } catch (const std::exception& e) {
    SetError(call, e.what());
  } catch (...) {
    SetError(call, "the callback threw something that is not a std::exception");
  }
  return 1;
}

}  // namespace internal
}  // namespace callout

/// Exports `function` (callable with a `const callout::Call&`; it may throw) under `symbol`, for `register("name",
/// "lib.so:symbol")`.
#define CALLOUT_DEFINE_CALLBACK(symbol, function)                                                             \
  extern "C" __attribute__((visibility("default"))) int32_t symbol##_callout_call(const callout_call* call) { \
    return ::callout::internal::Guarded(call, (function));                                                    \
  }                                                                                                           \
  extern "C" __attribute__((visibility("default"))) const callout_function symbol##_callout_record;           \
  const callout_function symbol##_callout_record = {sizeof(callout_function),                                 \
                                                    CALLOUT_ABI_VERSION,                                      \
                                                    CALLOUT_FUNCTION_CALL,                                    \
                                                    reinterpret_cast<void (*)(void)>(&symbol##_callout_call), \
                                                    nullptr,                                                  \
                                                    0,                                                        \
                                                    0}
