// SPDX-License-Identifier: Apache-2.0
//
// Compares a C function that Callout declares with that of a header. A parameter may be an int in one and an
// enumeration in the other.
#pragma once

#include <type_traits>

namespace callout::internal {

template <typename T>
constexpr int Kind() {
  return std::is_pointer_v<T> ? 1 : std::is_floating_point_v<T> ? 2 : std::is_void_v<T> ? 3 : 4;
}

template <typename Ours, typename Theirs>
constexpr bool SameValue() {
  if constexpr (std::is_void_v<Ours> || std::is_void_v<Theirs>) {
    return std::is_void_v<Ours> && std::is_void_v<Theirs>;
  } else {
    return sizeof(Ours) == sizeof(Theirs) && Kind<Ours>() == Kind<Theirs>();
  }
}

// The driver writes a pointer's target, so the target's size counts, too, if it has one.
template <typename Ours, typename Theirs>
constexpr bool SameParameter() {
  if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using To = std::remove_pointer_t<Ours>;
    using From = std::remove_pointer_t<Theirs>;
    if constexpr (std::is_arithmetic_v<To> || std::is_pointer_v<To>) {
      return std::is_const_v<To> == std::is_const_v<From> && SameValue<To, From>();
    } else {
      return true;
    }
  } else {
    return SameValue<Ours, Theirs>();
  }
}

template <typename Ours, typename Theirs>
struct SameFunction : std::false_type {};
template <typename R, typename... Ours, typename S, typename... Theirs>
  requires(sizeof...(Ours) == sizeof...(Theirs))
struct SameFunction<R (*)(Ours...), S (*)(Theirs...)>
    : std::bool_constant<SameValue<R, S>() && (SameParameter<Ours, Theirs>() && ...)> {};

}  // namespace callout::internal
