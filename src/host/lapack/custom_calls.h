// SPDX-License-Identifier: Apache-2.0
//
// The custom calls of jax.numpy.linalg on CPU, for runtimes in which jaxlib has not registered its own.
#pragma once

#include <string_view>
#include <vector>

#include "callout/status.h"
#include "core/frame/ffi_abi.h"

namespace callout::internal::lapack {

struct Target {
  std::string_view name;  ///< For example "lapack_sgetrf_ffi".
  Handlers handlers;
};

/// Returns all targets. A program that calls one does not compile without a LAPACK; see library.h. Thread-safe.
const std::vector<Target>& Targets();

}  // namespace callout::internal::lapack
