// SPDX-License-Identifier: Apache-2.0
//
// Calls that JAX itself lowered: pure_callback, io_callback, debug.callback and buffer_callback. The program has a
// number for each call, which in JAX is an index into a list of Python functions. Callout makes a name of the number,
// "jax:0".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/attributes/decode.h"

namespace callout::internal {

inline constexpr std::string_view kJaxNamePrefix = "jax:";
inline constexpr std::string_view kJaxIndexAttribute = "index";

/// A target that JAX 0.10.2 to 0.12 writes, by platform.
struct JaxTarget {
  std::string_view name;
  std::string_view platform;
  bool takes_device_memory;
};
inline constexpr JaxTarget kJaxTargets[] = {
    {"xla_ffi_python_cpu_callback", "cpu", false},
    {"xla_ffi_partitioned_python_cpu_callback", "cpu", false},
    {"xla_buffer_python_cpu_callback", "cpu", true},
    {"xla_ffi_python_gpu_callback", "cuda", false},
    {"xla_ffi_partitioned_python_gpu_callback", "cuda", false},
    {"xla_buffer_python_gpu_callback", "cuda", true},
};

/// Returns true for one of kJaxTargets.
bool IsJaxTarget(std::string_view name);

/// Returns "jax:0"; nullopt for attributes without an index.
std::optional<std::string> JaxName(const XLA_FFI_Attrs& attrs);

/// Decodes attributes like DecodeAttributes. For a call that JAX lowered, only the name is known, which `name` keeps.
template <typename Struct>
Result<Struct> DecodeCallAttributes(const XLA_FFI_Attrs& attrs, std::optional<std::string>& name) {
  name = JaxName(attrs);
  if (!name) return DecodeAttributes<Struct>(attrs);
  Struct attributes;
  attributes.callback = *name;
  return attributes;
}

}  // namespace callout::internal
