// SPDX-License-Identifier: Apache-2.0
//
// Threads that ask for the GIL while the interpreter goes away.
#pragma once

#include <cxxabi.h>
#include <unistd.h>

namespace callout::python {

/// Calls `body`, which asks for the GIL. While the interpreter goes away, CPython (up to 3.13) ends a thread that does
/// by unwinding its stack, which would run our destructors without the GIL and end in std::terminate at the first
/// `noexcept`. Such a thread is stopped here instead, as CPython 3.14 does. The condition for removal: Python 3.13 is
/// no longer supported.
template <typename Body>
auto WithoutUnwinding(Body&& body) {
  try {
    return body();
  } catch (abi::__forced_unwind&) {
    for (;;) pause();
  }
}

}  // namespace callout::python
