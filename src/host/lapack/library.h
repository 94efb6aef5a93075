// SPDX-License-Identifier: Apache-2.0
//
// The LAPACK and BLAS of the machine, by their Fortran names. Nothing of them is needed to build.
#pragma once

#include <string>

#include "callout/status.h"

namespace callout::internal::lapack {

/// The address of `symbol` ("sgetrf_") in the LAPACK that was found first: the library that the environment variable
/// CALLOUT_LAPACK names, or else OpenBLAS, the reference LAPACK or MKL where the dynamic linker finds them. Integers
/// are of 32 bits in all of them. Errors: NotFound with what was tried, or with the symbol. Thread-safe.
Result<void*> FindSymbol(const std::string& symbol);

/// The path of the library, for people. Errors: as FindSymbol. Thread-safe.
Result<std::string> LibraryPath();

}  // namespace callout::internal::lapack
