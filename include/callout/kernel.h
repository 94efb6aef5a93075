// SPDX-License-Identifier: Apache-2.0
//
// A C++ function as a JAX function: the types of its parameters say what it takes and returns.
//
//   #include "callout/kernel.h"
//   void scale(callout::In<float> x, callout::Attr<"factor", float> factor, callout::Out<float> y) {
//     for (int64_t i = 0; i < x.size(); ++i) y[i] = factor * x[i];
//   }
//   CALLOUT_KERNEL(scale);
//
// In Python: callout.cpp.load_inline(source).scale(x, factor=2.0). There is nothing to link, and the file compiles in a
// fraction of a second because it includes only the smallest standard headers. Include the header `complex` to take
// std::complex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <type_traits>
#include <utility>

#include "callout/kernel_types.h"  // IWYU pragma: export

namespace callout {
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

// Describes an attribute of a type, and finds it in a call.
template <typename T>
struct AttributeType {
  static_assert(NumberOf<T>() != 0, "callout: an attribute is a number, callout::Text or callout::List");
  static constexpr callout_parameter Describe(const char* name) {
    return {CALLOUT_PARAMETER_ATTRIBUTE, NumberOf<T>(), 0, 0, name};
  }
  static T Find(const callout_call* call, const char* name) {
    return *static_cast<const T*>(FindAttribute(call, name, CALLOUT_ATTRIBUTE_SCALAR, NumberOf<T>()).data);
  }
};

template <typename T>
struct AttributeType<List<T>> {
  static constexpr callout_parameter Describe(const char* name) {
    return {CALLOUT_PARAMETER_ATTRIBUTE, NumberOf<T>(), 1, 0, name};
  }
  static List<T> Find(const callout_call* call, const char* name) {
    const callout_attribute& found = FindAttribute(call, name, CALLOUT_ATTRIBUTE_ARRAY, NumberOf<T>());
    return {static_cast<const T*>(found.data), static_cast<int64_t>(found.count)};
  }
};

template <>
struct AttributeType<Text> {
  static constexpr callout_parameter Describe(const char* name) { return {CALLOUT_PARAMETER_ATTRIBUTE, 0, 1, 0, name}; }
  static Text Find(const callout_call* call, const char* name) {
    const callout_attribute& found = FindAttribute(call, name, CALLOUT_ATTRIBUTE_STRING, 0);
    return {static_cast<const char*>(found.data), static_cast<int64_t>(found.count)};
  }
};

// Describes a parameter of a type, and makes it from a call. `in` and `out` count the buffers of the parameters before
// it. The primary template serves Attr, because nvcc 13.0 matches no specialisation by a string.
template <typename T>
struct Parameter {
  static_assert(requires { T::kName; }, "callout: a parameter is an In, Out, Attr, Scratch or Stream");
  using Type = AttributeType<typename T::Value>;
  static constexpr int kIn = 0, kOut = 0;
  static constexpr bool kDescribed = true;
  static constexpr callout_parameter kDescription = Type::Describe(T::kName);
  static T Make(const callout_call* call, int, int) { return {Type::Find(call, T::kName)}; }
};

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

template <>
struct Parameter<Stream> {
  static constexpr int kIn = 0, kOut = 0;
  static constexpr bool kDescribed = false;
  static constexpr callout_parameter kDescription = {};
  static Stream Make(const callout_call* call, int, int) {
    if (call->platform == CALLOUT_PLATFORM_HOST) {
      throw Mismatch{"the function takes a stream, and was called on the host's memory (see callout.cuda.load_host)"};
    }
    return {call->stream};
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

  // Counts the buffers of one direction among the first `end` parameters.
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

// The function is a template parameter, so that the compiler inlines it here.
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

/// Exports `function` (free, not overloaded, of In, Out, Attr, Scratch and Stream parameters, returning void or
/// callout::Error; it may throw) for callout.cpp, and for `register("name", "lib.so:function")`.
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
