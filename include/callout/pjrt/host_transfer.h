// SPDX-License-Identifier: Apache-2.0
//
// Callbacks of programs that send operands to the host and receive results from it, each on a channel of its own:
// stablehlo.send and stablehlo.recv with is_host_transfer. Where a platform has no such ops (cpu), the program's are
// turned into calls of the same callbacks: see docs/host.md.
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

/// An array that passes a channel.
struct HostTransfer {
  int64_t channel_id;              ///< The program's number of the channel.
  DType dtype;                     ///< Of its elements.
  std::vector<int64_t> dims = {};  ///< Extents, in elements.
};

/// What a callback gets from the program, and gives back to it.
struct HostTransfers {
  std::vector<HostTransfer> operands;  ///< What the program sends.
  std::vector<HostTransfer> results;   ///< What the program receives.

  /// "channels:1,2->3": the channels of the operands and of the results, each in ascending order. A program whose
  /// transfers were turned into a call asks for this name, with operands and results in the same order.
  CALLOUT_EXPORT std::string Name() const;
};

/// A C++ function behind channels. It is called once for each time that the program has sent all operands, with the
/// operands as arguments, and fills the results, both in the order of `transfers`. `Call::device_ordinal` says which
/// device, and so which replica, it serves. Programs call it on their own threads, several at once, one device's calls
/// one after the other where the program orders them. What it throws becomes its error.
struct CALLOUT_EXPORT HostTransferCallback final : LoadedHostCallbackMakeArgs {
  /// Copies what it is given.
  HostTransferCallback(std::string callback_name, HostTransfers callback_transfers,
                       std::function<Status(const Call&)> callback_function)
      : name(std::move(callback_name)),
        transfers(std::move(callback_transfers)),
        function(std::move(callback_function)) {}
  /// InvalidArgument without an operand (nothing would start it), for a channel that occurs twice, and for a dtype or
  /// dims that no array has.
  Result<LoadedHostCallback> Make() const override;

  std::string name;  ///< For errors and counters; it can also be asked for by this name. Empty: transfers.Name().
  HostTransfers transfers;                      ///< Its channels.
  std::function<Status(const Call&)> function;  ///< What is called.
};

}  // namespace callout::pjrt
