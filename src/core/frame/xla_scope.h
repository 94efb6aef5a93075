// SPDX-License-Identifier: Apache-2.0
//
// XLA's mark on a thread that runs a host callback. From JAX 0.12 on, XLA:CPU lets a marked thread dispatch
// computations beyond the limit of 32 in flight, so a callback that uses JAX does not wait for programs that wait for
// it. The mark (xla::HostCallbackScope) is private to jaxlib; a handler of jaxlib's sets it around the Python function
// that it calls. We call that handler, with a frame of our own and a function of ours that does the rest of our call:
//
//   our handler -> CallInXlaScope -> jaxlib's handler { mark; our function; unmark }
//
// The handler finds its function in the execution context, as {function pointers, count}, a layout that no header
// promises. It is believed only after a program that carries our function was seen to have it there.
#pragma once

#include <string_view>

#include "callout/export.h"

struct XLA_FFI_CallFrame;

namespace callout::internal {

/// The attribute by which a program says that it carries our function.
inline constexpr std::string_view kXlaScopeAttribute = "host_callback";

/// Lends a handler (XLA_FFI_Handler*) that takes attribute `index` (u64), no operands and no results, and calls the
/// Python function number `index` of the program in XLA's scope. `function` is the one of ours, which every program
/// with Python calls carries. Both live as long as the process. Thread-safe; the first call counts.
CALLOUT_EXPORT void LendScopeHandler(void* handler, void* function);

/// Has the lent handler call our function, which must not raise, on this thread. `frame` is the one that XLA called a
/// handler of ours with, which has not returned yet; its attribute `host_callback` (s64) is 1 if the program carries
/// our function. Does nothing without a handler, or if no program has shown its functions where they are expected: the
/// caller must see for itself whether its function was called. Thread-safe.
CALLOUT_EXPORT void CallInXlaScope(XLA_FFI_CallFrame* frame);

}  // namespace callout::internal
