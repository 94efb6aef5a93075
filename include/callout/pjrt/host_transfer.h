// SPDX-License-Identifier: Apache-2.0
//
// Callbacks of programs that send operands to the host and receive results from it, each on its own channel:
// stablehlo.send and stablehlo.recv with is_host_transfer. On a platform without these operations (cpu), the program's
// operations are replaced by calls of the same callbacks: see docs/host.md.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "callout/call.h"
#include "callout/dtype.h"
#include "callout/export.h"
#include "callout/pjrt/host_callback.h"
#include "callout/status.h"

namespace callout::pjrt {

/// An array that passes through a channel.
struct HostTransfer {
  int64_t channel_id;              ///< The channel's number in the program.
  DType dtype;                     ///< Element type.
  std::vector<int64_t> dims = {};  ///< Extents, in elements.
};

/// The arrays that a callback gets from the program and returns to it.
struct HostTransfers {
  std::vector<HostTransfer> operands;  ///< Arrays that the program sends.
  std::vector<HostTransfer> results;   ///< Arrays that the program receives.

  /// Returns "channels:1,2->3": the channels of the operands and of the results, each in ascending order. A program
  /// whose transfers were replaced by a call asks for this name, with operands and results in the same order.
  CALLOUT_EXPORT std::string Name() const;
};

/// A C++ function behind channels. Each time that the program has sent all operands, the function is called once with
/// the operands as arguments, and fills the results, both in the order of `transfers`. `Call::device_ordinal` is the
/// device, and so the replica, that the call serves. Programs call the function on their own threads, several at once;
/// calls of one device are in sequence if the program orders them. An exception of the function becomes the error of
/// the call.
struct CALLOUT_EXPORT HostTransferCallback final : LoadedHostCallbackMakeArgs {
  /// Copies its arguments.
  HostTransferCallback(std::string callback_name, HostTransfers callback_transfers,
                       std::function<Status(const Call&)> callback_function)
      : name(std::move(callback_name)),
        transfers(std::move(callback_transfers)),
        function(std::move(callback_function)) {}
  /// Makes the callback. InvalidArgument without an operand (nothing would start the callback), for a channel that
  /// occurs twice, and for an impossible dtype or dims.
  Result<LoadedHostCallback> Make() const override;

  std::string name;                             ///< For errors, counters and lookups. Empty: transfers.Name().
  HostTransfers transfers;                      ///< The callback's channels.
  std::function<Status(const Call&)> function;  ///< The function to call.
};

}  // namespace callout::pjrt
