// SPDX-License-Identifier: Apache-2.0
//
// Guards threads that ask for the GIL while the interpreter goes away.
#pragma once

#include <cxxabi.h>
#include <unistd.h>

namespace callout::python {

/// Calls `body`, which asks for the GIL. While the interpreter goes away, CPython (up to 3.13) ends a thread that asks
/// for the GIL by unwinding its stack. The unwinding would run destructors without the GIL and end in std::terminate at
/// the first `noexcept`. This function stops such a thread instead, as CPython 3.14 does. Remove it when Python 3.13 is
/// no longer supported. Only glibc unwinds; elsewhere such a thread ends without running destructors.
template <typename Body>
auto WithoutUnwinding(Body&& body) {
#if defined(__GLIBC__)
  try {
    return body();
  } catch (abi::__forced_unwind&) {
    for (;;) pause();
  }
#else
  return body();
#endif
}

}  // namespace callout::python
