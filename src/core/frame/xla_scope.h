// SPDX-License-Identifier: Apache-2.0
//
// XLA's mark on a thread that runs a host callback. From JAX 0.12 on, XLA:CPU lets a marked thread dispatch
// computations beyond the limit of 32 in flight, so that a callback that uses JAX does not wait for programs that wait
// for the callback. The mark (xla::HostCallbackScope) is private to jaxlib; a handler of jaxlib's sets it around the
// Python function that the handler calls. Callout calls jaxlib's handler, with a frame and a function of its own; the
// function does the rest of the callback's call:
//
//   Callout's handler -> CallInXlaScope -> jaxlib's handler { mark; Callout's function; unmark }
//
// The handler finds its function in the execution context, as {function pointers, count}, a layout that no header
// promises. Callout relies on the layout only after a program that carries Callout's function had it there.
#pragma once

#include <string_view>

#include "callout/export.h"

struct XLA_FFI_CallFrame;

namespace callout::internal {

/// The attribute by which a program declares that it carries Callout's function.
inline constexpr std::string_view kXlaScopeAttribute = "host_callback";

/// Provides a handler (XLA_FFI_Handler*) that takes the attribute `index` (u64), no operands and no results, and calls
/// the Python function number `index` of the program in XLA's scope. `function` is Callout's function, which every
/// program with Python calls carries. Both live as long as the process. Thread-safe; only the first call counts.
CALLOUT_EXPORT void ProvideScopeHandler(void* handler, void* function);

/// Makes the provided handler call Callout's function, which must not raise, on this thread. `frame` is the frame of
/// Callout's own handler, which has not returned yet; its attribute `host_callback` (s64) is 1 if the program carries
/// Callout's function. Has no effect without a handler, or if no program has had its functions in the expected layout,
/// so the caller must check whether its function was called. Thread-safe.
CALLOUT_EXPORT void CallInXlaScope(XLA_FFI_CallFrame* frame);

}  // namespace callout::internal
