// SPDX-License-Identifier: Apache-2.0
//
// The types of a kernel's parameters: see callout/kernel.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "callout/abi.h"

namespace callout {

/// A bfloat16 as its bits, with conversions.
struct BFloat16 {
  uint16_t bits;  ///< Sign, 8 bits of exponent, 7 of mantissa.
  /// Leaves the bits uninitialised.
  BFloat16() = default;
  /// Rounds to nearest, ties to even; NaN stays NaN.
  BFloat16(float value) {  // NOLINT(google-explicit-constructor)
    const auto word = __builtin_bit_cast(uint32_t, value);
    const bool is_nan = (word & 0x7fffffffU) > 0x7f800000U;
    bits = static_cast<uint16_t>(is_nan ? (word >> 16) | 0x40U : (word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
  }
  /// Returns the same value as a float.
  operator float() const {  // NOLINT(google-explicit-constructor)
    return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
  }
};

/// The text of an attribute. Borrowed: valid as long as the executable. NUL-terminated.
struct Text {
  const char* data;  ///< The characters and a NUL.
  int64_t size;      ///< Number of characters without the NUL.
};

/// The elements of an array attribute. Borrowed: valid as long as the executable.
template <typename T>
struct List {
  const T* data;  ///< The elements.
  int64_t count;  ///< The number of elements.
  /// Returns the number of elements.
  int64_t size() const { return count; }
  /// Returns element `i`, unchecked.
  const T& operator[](int64_t i) const { return data[i]; }
  /// Returns the first element.
  const T* begin() const { return data; }
  /// Returns the address behind the last element.
  const T* end() const { return data + count; }
};

/// A result that a kernel may return instead of void: no error, or a text that fails the computation.
class [[nodiscard]] Error {
 public:
  /// Makes a result without an error.
  Error() { text_[0] = '\0'; }
  /// Fails the computation with `text`, of which 511 characters are kept.
  explicit Error(const char* text) : failed_(true) {
    while (size_ < sizeof(text_) - 1 && text[size_] != '\0') {
      text_[size_] = text[size_];
      ++size_;
    }
    text_[size_] = '\0';
  }
  /// Returns whether the computation fails.
  bool failed() const { return failed_; }
  /// Returns the text, NUL-terminated. Borrowed: valid as long as this object.
  const char* text() const { return text_; }
  /// Returns the number of characters of the text.
  size_t size() const { return size_; }

 private:
  char text_[512];  // only the first size_ + 1 characters are written
  size_t size_ = 0;
  bool failed_ = false;
};

namespace internal {

// g++ before 13 has _Float16 in C++ on x86-64 only, and clang before 15 does not have it there: with such a clang no
// kernel can have operands of float16.
#if defined(__aarch64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
using Float16 = __fp16;
#elif defined(__x86_64__) && defined(__clang__) && __clang_major__ < 15
struct Float16;
#else
using Float16 = _Float16;
#endif

template <typename T>
constexpr uint32_t NumberOf() {
  if constexpr (std::is_same_v<T, bool>)
    return 1;
  else if constexpr (std::is_same_v<T, int8_t>)
    return 2;
  else if constexpr (std::is_same_v<T, int16_t>)
    return 3;
  else if constexpr (std::is_same_v<T, int32_t>)
    return 4;
  else if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, long long>)
    return 5;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return 6;
  else if constexpr (std::is_same_v<T, uint16_t>)
    return 7;
  else if constexpr (std::is_same_v<T, uint32_t>)
    return 8;
  else if constexpr (std::is_same_v<T, uint64_t> || std::is_same_v<T, unsigned long long>)
    return 9;
  else if constexpr (std::is_same_v<T, Float16>)
    return 10;
  else if constexpr (std::is_same_v<T, float>)
    return 11;
  else if constexpr (std::is_same_v<T, double>)
    return 12;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return 16;
  else if constexpr (requires { typename T::value_type; }) {  // std::complex
    if constexpr (std::is_same_v<typename T::value_type, float> && sizeof(T) == 8)
      return 15;
    else if constexpr (std::is_same_v<typename T::value_type, double> && sizeof(T) == 16)
      return 18;
    else
      return 0;
  } else
    return 0;
}

template <size_t N>
struct FixedString {
  char text[N];
  constexpr FixedString(const char (&from)[N]) {  // NOLINT(google-explicit-constructor)
    for (size_t i = 0; i < N; ++i) text[i] = from[i];
  }
};

/// Thrown if a call does not fit the kernel's parameters, and caught where the kernel is entered.
struct Mismatch {
  const char* text;
};

template <typename T, int Rank>
class View {
 public:
  using Element = std::remove_const_t<T>;
  static_assert(NumberOf<Element>() != 0, "callout: XLA has no arrays of this element type");

  explicit View(const callout_buffer& buffer)
      : data_(static_cast<T*>(buffer.data)), dims_(buffer.dims), rank_(static_cast<int>(buffer.rank)) {
    if (buffer.dtype != NumberOf<Element>()) throw Mismatch{"the operands are of other element types than declared"};
    if (Rank >= 0 && rank_ != Rank) throw Mismatch{"the operands are of other ranks than declared"};
    size_ = 1;
    for (int i = 0; i < rank_; ++i) size_ *= dims_[i];
  }

  T* data() const { return data_; }
  /// Returns the number of elements.
  int64_t size() const { return size_; }
  int rank() const { return rank_; }
  /// Returns the extent of a dimension, unchecked.
  int64_t dim(int axis) const { return dims_[axis]; }
  const int64_t* dims() const { return dims_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  /// Returns the element at a row-major flat index, unchecked.
  T& operator[](int64_t i) const { return data_[i]; }
  /// Returns the element at one index for each dimension, unchecked.
  template <typename... Index>
  T& operator()(Index... index) const {
    static_assert(Rank < 0 || sizeof...(Index) == static_cast<size_t>(Rank), "callout: one index a dimension");
    int64_t flat = 0;
    int axis = 0;
    ((flat = flat * dims_[axis++] + static_cast<int64_t>(index)), ...);
    return data_[flat];
  }

 private:
  T* data_;
  const int64_t* dims_;
  int64_t size_;
  int rank_;
};

}  // namespace internal

/// An operand: row-major, dense, read-only. Rank -1: any rank. Borrowed: valid until the kernel returns.
template <typename T, int Rank = -1>
class In : public internal::View<const T, Rank> {
 public:
  using internal::View<const T, Rank>::View;
  /// Returns the element of a scalar.
  operator const T&() const  // NOLINT(google-explicit-constructor)
    requires(Rank == 0)
  {
    return (*this)[0];
  }
};

/// A result, which the kernel fills in place; uninitialised on entry. Borrowed: valid until the kernel returns.
template <typename T, int Rank = -1>
class Out : public internal::View<T, Rank> {
 public:
  using internal::View<T, Rank>::View;
  /// Sets the element of a scalar.
  Out& operator=(const T& value)
    requires(Rank == 0)
  {
    (*this)[0] = value;
    return *this;
  }
};

/// A constant that the program passes by name. T: a number, callout::Text, or callout::List of numbers.
template <internal::FixedString Name, typename T>
struct Attr {
  /// The type of the value.
  using Value = T;
  /// The name under which the program passes the value.
  static constexpr const char* kName = Name.text;
  T value;  ///< The value that the program passed.
  /// Returns the value that the program passed.
  operator const T&() const { return value; }  // NOLINT(google-explicit-constructor)
  /// Returns a member of the value that the program passed.
  const T* operator->() const { return &value; }
};

/// The stream of a function that works on a device's memory (callout.cuda.load_host): a CUstream, or cudaStream_t. Work
/// that the function queues on the stream runs after the work that fills the operands, and before the work that reads
/// the results. Borrowed: valid until the kernel returns.
struct Stream {
  void* handle;  ///< The CUstream.
  /// Returns the handle as a pointer of the wanted type, such as a cudaStream_t.
  template <typename T>
  operator T*() const {  // NOLINT(google-explicit-constructor)
    return static_cast<T*>(handle);
  }
};

/// Memory for intermediate values, which lives until the kernel returns. Uninitialised.
class Scratch {
 public:
  /// Allocates from the memory of `call`.
  explicit Scratch(const callout_call* call) : call_(call) {}
  /// Returns memory for `count` Ts, aligned for them. The computation fails if the memory cannot be allocated.
  template <typename T>
  T* Get(int64_t count) const {
    static_assert(std::is_trivially_destructible_v<T>);
    if (count < 0 || static_cast<uint64_t>(count) > INT64_MAX / sizeof(T)) {
      throw internal::Mismatch{"scratch of a negative or impossible size"};
    }
    void* memory = call_->allocate(call_->allocator, static_cast<uint64_t>(count) * sizeof(T), alignof(T));
    if (memory == nullptr) throw internal::Mismatch{"out of memory for scratch"};
    return static_cast<T*>(memory);
  }

 private:
  const callout_call* call_;
};

}  // namespace callout
