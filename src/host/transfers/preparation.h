// SPDX-License-Identifier: Apache-2.0
//
// The compiler's treatment of send and receive ops. Programs in MLIR text are checked against the callbacks with which
// they are compiled. For platforms without such ops, the ops of each callback become one call of the callback:
//
//   %1 = "stablehlo.send"(%x, %0) {channel 1}
//   %2:2 = "stablehlo.recv"(%1) {channel 2}      ->  %2:2 = "stablehlo.custom_call"(%x, %0) {"channels:1->2"}
//
// The call takes the place of the first receive, or of the last send if there is none. The chain's tokens pass through
// the call, so the order is kept. python/callout/_export/host_transfers.py makes this rewrite with MLIR itself.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "callout/pjrt/host_callback.h"
#include "callout/status.h"
#include "core/callbacks/binding_scope.h"

namespace callout::internal {

/// Binds callbacks with channels under HostTransfers::Name() as well. InvalidArgument if two have a name or a channel
/// in common.
Status BindHostTransfers(std::span<const pjrt::LoadedHostCallback> callbacks, Bindings& bindings);

/// True if the platform has no send and receive ops.
bool NeedsHostCalls(std::string_view platform);

/// Returns the program to compile on `platform`: `code` itself if nothing needs a change. Errors, with lines:
/// InvalidArgument for a channel that no callback has, or that passes another array than the callback's; Unimplemented,
/// on platforms that need calls, for ops that belong to no host callback or whose order a callback cannot have.
Result<std::string> PrepareHostTransfers(std::string_view code, std::span<const pjrt::LoadedHostCallback> callbacks,
                                         std::string_view platform);

/// Adds to the error of a compilation what to do if the program still has send and receive ops.
Status ExplainHostTransfers(Status status);

}  // namespace callout::internal
