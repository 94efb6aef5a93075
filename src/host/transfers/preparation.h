// SPDX-License-Identifier: Apache-2.0
//
// What the compiler does about send and receive ops. Programs in MLIR text are checked against the callbacks that they
// are compiled with. For platforms without such ops, the ops of each callback become one call of it:
//
//   %1 = "stablehlo.send"(%x, %0) {channel 1}
//   %2:2 = "stablehlo.recv"(%1) {channel 2}      ->  %2:2 = "stablehlo.custom_call"(%x, %0) {"channels:1->2"}
//
// The call takes the place of the first receive (or of the last send, if there is none), and the chain's tokens pass
// through it, so that the order stays what it was. python/callout/_export/host_transfers.py does the same with MLIR
// itself.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "callout/pjrt/host_callback.h"
#include "callout/status.h"
#include "core/callbacks/binding_scope.h"

namespace callout::internal {

/// Binds callbacks that have channels under HostTransfers::Name(), too. InvalidArgument if two have a name or a channel
/// in common.
Status BindHostTransfers(std::span<const pjrt::LoadedHostCallback> callbacks, Bindings& bindings);

/// True if the platform has no send and receive ops.
bool NeedsHostCalls(std::string_view platform);

/// The program to compile on `platform`; `code` itself where there is nothing to do. Errors, with lines:
/// InvalidArgument for a channel that no callback has, or that another array than the callback's passes; Unimplemented,
/// where calls are needed, for ops that do not belong to a host callback, or not in the order that one has.
Result<std::string> PrepareHostTransfers(std::string_view code, std::span<const pjrt::LoadedHostCallback> callbacks,
                                         std::string_view platform);

/// The error of a compilation, which says what to do if the program still has send and receive ops.
Status ExplainHostTransfers(Status status);

}  // namespace callout::internal
