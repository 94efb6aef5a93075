// SPDX-License-Identifier: Apache-2.0
//
// A C++ function as a JAX function: its parameters say what it takes and gives.
//
//   #include "callout/kernel.h"
//   void scale(callout::In<float> x, callout::Attr<"factor", float> factor, callout::Out<float> y) {
//     for (int64_t i = 0; i < x.size(); ++i) y[i] = factor * x[i];
//   }
//   CALLOUT_KERNEL(scale);
//
// In Python: callout.cpp.load_inline(source).scale(x, factor=2.0). Nothing to link, and it compiles in a fraction of a
// second: no standard header beyond the smallest is included. Include <complex> to take std::complex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <type_traits>
#include <utility>

#include "callout/abi.h"

namespace callout {

/// bfloat16 as its bits, with conversions.
struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  BFloat16(float value) {  // NOLINT(google-explicit-constructor)
    const auto word = __builtin_bit_cast(uint32_t, value);
    const bool is_nan = (word & 0x7fffffffU) > 0x7f800000U;
    bits = static_cast<uint16_t>(is_nan ? (word >> 16) | 0x40U : (word + 0x7fffU + ((word >> 16) & 1U)) >> 16);
  }
  operator float() const {  // NOLINT(google-explicit-constructor)
    return __builtin_bit_cast(float, static_cast<uint32_t>(bits) << 16);
  }
};

/// Text of an attribute. Borrowed: valid as long as the executable. NUL-terminated.
struct Text {
  const char* data;
  int64_t size;
};

/// Elements of an array attribute. Borrowed: valid as long as the executable.
template <typename T>
struct List {
  const T* data;
  int64_t count;
  int64_t size() const { return count; }
  const T& operator[](int64_t i) const { return data[i]; }
  const T* begin() const { return data; }
  const T* end() const { return data + count; }
};

/// What a kernel may return instead of nothing: no error, or a text that fails the computation.
class [[nodiscard]] Error {
 public:
  Error() { text_[0] = '\0'; }
  explicit Error(const char* text) : failed_(true) {
    while (size_ < sizeof(text_) - 1 && text[size_] != '\0') {
      text_[size_] = text[size_];
      ++size_;
    }
    text_[size_] = '\0';
  }
  bool failed() const { return failed_; }
  const char* text() const { return text_; }
  size_t size() const { return size_; }

 private:
  char text_[512];  // written as far as it is used
  size_t size_ = 0;
  bool failed_ = false;
};

namespace internal {

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
  else if constexpr (std::is_same_v<T, _Float16>)
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

/// A call that cannot be made; caught where the kernel is entered.
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
  /// Number of elements.
  int64_t size() const { return size_; }
  int rank() const { return rank_; }
  /// Extent of a dimension, unchecked.
  int64_t dim(int axis) const { return dims_[axis]; }
  const int64_t* dims() const { return dims_; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  /// Row-major flat index, unchecked.
  T& operator[](int64_t i) const { return data_[i]; }
  /// One index a dimension, unchecked.
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

/// An operand: row-major, dense, read-only. Rank -1: any. Borrowed: valid until the kernel returns.
template <typename T, int Rank = -1>
class In : public internal::View<const T, Rank> {
 public:
  using internal::View<const T, Rank>::View;
  /// The element of a scalar.
  operator const T&() const  // NOLINT(google-explicit-constructor)
    requires(Rank == 0)
  {
    return (*this)[0];
  }
};

/// A result, to be filled in place; uninitialised on entry. Borrowed: valid until the kernel returns.
template <typename T, int Rank = -1>
class Out : public internal::View<T, Rank> {
 public:
  using internal::View<T, Rank>::View;
  Out& operator=(const T& value)
    requires(Rank == 0)
  {
    (*this)[0] = value;
    return *this;
  }
};

/// A constant of the program, passed by name. T: a number, callout::Text, or callout::List of numbers.
template <internal::FixedString Name, typename T>
struct Attr {
  T value;
  operator const T&() const { return value; }  // NOLINT(google-explicit-constructor)
  const T* operator->() const { return &value; }
};

/// Memory for intermediate values, until the kernel returns. Uninitialised.
class Scratch {
 public:
  explicit Scratch(const callout_call* call) : call_(call) {}
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

namespace internal {

inline const callout_attribute& FindAttribute(const callout_call* call, const char* name, uint32_t kind,
                                              uint32_t dtype) {
  for (uint32_t i = 0; i < call->num_attributes; ++i) {
    const callout_attribute& attribute = call->attributes[i];
    if (__builtin_strcmp(attribute.name, name) != 0) continue;
    if (attribute.kind != kind || attribute.dtype != dtype)
      throw Mismatch{"an attribute is of another type than declared"};
    return attribute;
  }
  throw Mismatch{"an attribute that the function declares is missing"};
}

// How a parameter type is described and made. `in` and `out` count the buffers of the parameters before it.
template <typename T>
struct Parameter;

template <typename T, int Rank>
struct Parameter<In<T, Rank>> {
  static constexpr int kIn = 1, kOut = 0;
  static constexpr bool kDescribed = true;
  static constexpr callout_parameter kDescription = {CALLOUT_PARAMETER_IN, NumberOf<T>(), Rank, 0, nullptr};
  static In<T, Rank> Make(const callout_call* call, int in, int) { return In<T, Rank>(call->args[in]); }
};

template <typename T, int Rank>
struct Parameter<Out<T, Rank>> {
  static constexpr int kIn = 0, kOut = 1;
  static constexpr bool kDescribed = true;
  static constexpr callout_parameter kDescription = {CALLOUT_PARAMETER_OUT, NumberOf<T>(), Rank, 0, nullptr};
  static Out<T, Rank> Make(const callout_call* call, int, int out) { return Out<T, Rank>(call->results[out]); }
};

template <FixedString Name, typename T>
struct Parameter<Attr<Name, T>> {
  static constexpr int kIn = 0, kOut = 0;
  static constexpr bool kDescribed = true;
  static_assert(NumberOf<T>() != 0, "callout: an attribute is a number, callout::Text or callout::List");
  static constexpr callout_parameter kDescription = {CALLOUT_PARAMETER_ATTRIBUTE, NumberOf<T>(), 0, 0, Name.text};
  static Attr<Name, T> Make(const callout_call* call, int, int) {
    return {*static_cast<const T*>(FindAttribute(call, Name.text, CALLOUT_ATTRIBUTE_SCALAR, NumberOf<T>()).data)};
  }
};

template <FixedString Name, typename T>
struct Parameter<Attr<Name, List<T>>> {
  static constexpr int kIn = 0, kOut = 0;
  static constexpr bool kDescribed = true;
  static constexpr callout_parameter kDescription = {CALLOUT_PARAMETER_ATTRIBUTE, NumberOf<T>(), 1, 0, Name.text};
  static Attr<Name, List<T>> Make(const callout_call* call, int, int) {
    const callout_attribute& found = FindAttribute(call, Name.text, CALLOUT_ATTRIBUTE_ARRAY, NumberOf<T>());
    return {{static_cast<const T*>(found.data), static_cast<int64_t>(found.count)}};
  }
};

template <FixedString Name>
struct Parameter<Attr<Name, Text>> {
  static constexpr int kIn = 0, kOut = 0;
  static constexpr bool kDescribed = true;
  static constexpr callout_parameter kDescription = {CALLOUT_PARAMETER_ATTRIBUTE, 0, 1, 0, Name.text};
  static Attr<Name, Text> Make(const callout_call* call, int, int) {
    const callout_attribute& found = FindAttribute(call, Name.text, CALLOUT_ATTRIBUTE_STRING, 0);
    return {{static_cast<const char*>(found.data), static_cast<int64_t>(found.count)}};
  }
};

template <>
struct Parameter<Scratch> {
  static constexpr int kIn = 0, kOut = 0;
  static constexpr bool kDescribed = false;
  static constexpr callout_parameter kDescription = {};
  static Scratch Make(const callout_call* call, int, int) { return Scratch(call); }
};

inline int32_t Fail(const callout_call* call, int32_t code, const char* text, size_t size) {
  call->set_error(call->error_context, code, text, size);
  return 1;
}

template <typename Return, typename... P>
struct Kernel {
  static constexpr int kCount = sizeof...(P);
  static constexpr int kIns = (0 + ... + Parameter<std::decay_t<P>>::kIn);
  static constexpr int kOuts = (0 + ... + Parameter<std::decay_t<P>>::kOut);
  static constexpr int kDescribed = (0 + ... + (Parameter<std::decay_t<P>>::kDescribed ? 1 : 0));

  struct Descriptions {
    callout_parameter of[kCount + 1];
  };
  static constexpr Descriptions Describe() {
    Descriptions all{};
    int n = 0;
    ((Parameter<std::decay_t<P>>::kDescribed ? void(all.of[n++] = Parameter<std::decay_t<P>>::kDescription) : void()),
     ...);
    return all;
  }
  static constexpr Descriptions kDescriptions = Describe();

  // Buffers of one direction among the first `end` parameters.
  template <bool Outputs>
  static constexpr int Before(int end) {
    int count = 0, i = 0;
    ((count += i++ < end ? (Outputs ? Parameter<std::decay_t<P>>::kOut : Parameter<std::decay_t<P>>::kIn) : 0), ...);
    return count;
  }

  template <auto kFunction, size_t... I>
  static Return Apply(const callout_call* call, std::index_sequence<I...>) {
    return kFunction(Parameter<std::decay_t<P>>::Make(call, Before<false>(I), Before<true>(I))...);
  }

  template <auto kFunction>
  static int32_t Run(const callout_call* call) {
    constexpr auto kIndices = std::make_index_sequence<kCount>();
    if (call->num_args != kIns || call->num_results != kOuts) {
      throw Mismatch{"the call has another number of operands or results than declared"};
    }
    if constexpr (std::is_void_v<Return>) {
      Apply<kFunction>(call, kIndices);
      return 0;
    } else {
      static_assert(std::is_same_v<Return, Error>, "callout: a kernel returns void or callout::Error");
      const Error error = Apply<kFunction>(call, kIndices);
      return error.failed() ? Fail(call, 13, error.text(), error.size()) : 0;
    }
  }
};

template <typename Return, typename... P>
constexpr Kernel<Return, P...> KernelOf(Return (*)(P...)) {
  return {};
}

// The function is a template parameter, so that it is inlined here.
template <auto kFunction>
int32_t RunKernel(const callout_call* call) noexcept {
  try {
    return decltype(KernelOf(kFunction))::template Run<kFunction>(call);
  } catch (const Mismatch& mismatch) {
    return Fail(call, 3, mismatch.text, __builtin_strlen(mismatch.text));
  } catch (const std::exception& error) {
    return Fail(call, 13, error.what(), __builtin_strlen(error.what()));
  } catch (...) {
    constexpr char kText[] = "the kernel threw something that is not a std::exception";
    return Fail(call, 13, kText, sizeof(kText) - 1);
  }
}

}  // namespace internal
}  // namespace callout

/// Exports `function` (free, not overloaded, of In, Out, Attr and Scratch parameters, returning void or callout::Error;
/// it may throw) for callout.cpp, and for `register("name", "lib.so:function")`.
#define CALLOUT_KERNEL(function)                                                                                \
  extern "C" __attribute__((visibility("default"))) int32_t function##_callout_call(const callout_call* call) { \
    return ::callout::internal::RunKernel<&function>(call);                                                     \
  }                                                                                                             \
  extern "C" __attribute__((visibility("default"))) const callout_function function##_callout_record;           \
  const callout_function function##_callout_record = {                                                          \
      sizeof(callout_function),                                                                                 \
      CALLOUT_ABI_VERSION,                                                                                      \
      CALLOUT_FUNCTION_CALL,                                                                                    \
      reinterpret_cast<void (*)(void)>(&function##_callout_call),                                               \
      decltype(::callout::internal::KernelOf(&function))::kDescriptions.of,                                     \
      static_cast<uint32_t>(decltype(::callout::internal::KernelOf(&function))::kDescribed),                    \
      0}
