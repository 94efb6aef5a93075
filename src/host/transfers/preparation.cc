// SPDX-License-Identifier: Apache-2.0
#include "host/transfers/preparation.h"

#include <map>
#include <utility>

#include "callout/pjrt/host_transfer.h"
#include "core/base/cat.h"
#include "host/programs/exported_file.h"
#include "host/programs/mlir_text.h"
#include "host/transfers/transfer_ops.h"

namespace callout::internal {
namespace {

using pjrt::HostTransfer;
using pjrt::HostTransfers;
using pjrt::LoadedHostCallback;

// The transfer of a channel.
struct Place {
  const LoadedHostCallback* callback;
  const HostTransfer* transfer;
  bool is_operand;
};
using Channels = std::map<int64_t, Place>;

Result<Channels> ChannelsOf(std::span<const LoadedHostCallback> callbacks) {
  Channels channels;
  for (const LoadedHostCallback& callback : callbacks) {
    if (callback.transfers() == nullptr) continue;
    for (const auto* list : {&callback.transfers()->operands, &callback.transfers()->results}) {
      for (const HostTransfer& transfer : *list) {
        const Place place = {&callback, &transfer, list == &callback.transfers()->operands};
        const auto [it, is_new] = channels.emplace(transfer.channel_id, place);
        if (is_new) continue;
        return InvalidArgument(Cat("callout: the callbacks '", it->second.callback->name(), "' and '", callback.name(),
                                   "' both have channel ", transfer.channel_id));
      }
    }
  }
  return channels;
}

std::string Listed(const Channels& channels) {
  return channels.empty() ? "none" : Join(channels, ", ", [](const auto& channel) { return channel.first; });
}

// Checks the array that passes the channel: the op's first operand, or its first result.
Status CheckType(const MlirText& text, const TransferOp& op, const Place& place) {
  const std::string of = "callout: " + Describe(text, op) + " of the callback '" + place.callback->name() + "': ";
  if (op.is_send != place.is_operand) {
    return InvalidArgument(of + "expected a stablehlo." + (place.is_operand ? "send" : "recv") +
                           ", since the channel is " + (place.is_operand ? "an operand's" : "a result's"));
  }
  const std::vector<std::string_view>& types = op.is_send ? op.operand_types : op.result_types;
  const std::vector<std::string_view>& tokens = op.is_send ? op.result_types : op.operand_types;
  if (types.size() != 2 || tokens.size() != 1) {
    return InvalidArgument(Cat(of, "expected one array and a token, got ", types.size(), " values"));
  }
  const pjrt::ArrayType expected = {place.transfer->dtype, place.transfer->dims};
  const std::optional<pjrt::ArrayType> found = FromMlirType(types[0]);
  if (found == expected) return OkStatus();
  return InvalidArgument(of + "expected " + expected.ToString() + ", got " +
                         (found.has_value() ? found->ToString() : std::string(types[0])));
}

// The program's ops by callback, in the order of the text.
using OpsOfCallbacks = std::map<const LoadedHostCallback*, std::vector<const TransferOp*>>;

Result<OpsOfCallbacks> Assign(const MlirText& text, const std::vector<TransferOp>& ops, const Channels& channels) {
  std::map<int64_t, const TransferOp*> seen;
  OpsOfCallbacks assigned;
  for (const TransferOp& op : ops) {
    if (!op.is_host) continue;
    const auto place = op.channel.has_value() ? channels.find(*op.channel) : channels.end();
    if (place == channels.end()) {
      return InvalidArgument("callout: no callback for the program's " + Describe(text, op) +
                             "; channels of the callbacks: " + Listed(channels));
    }
    CALLOUT_RETURN_IF_ERROR(CheckType(text, op, place->second));
    if (const auto [it, is_new] = seen.emplace(*op.channel, &op); !is_new) {
      return InvalidArgument("callout: the program has both " + Describe(text, *it->second) + " and " +
                             Describe(text, op));
    }
    assigned[place->second.callback].push_back(&op);
  }
  for (const auto& [channel, place] : channels) {
    if (!assigned.contains(place.callback) || seen.contains(channel)) continue;
    return InvalidArgument(Cat("callout: the callback '", place.callback->name(), "': expected a stablehlo.",
                               place.is_operand ? "send" : "recv", " on channel ", channel,
                               " in the program, got none"));
  }
  return assigned;
}

}  // namespace

bool NeedsHostCalls(std::string_view platform) { return platform == "cpu"; }

Status BindHostTransfers(std::span<const LoadedHostCallback> callbacks, Bindings& bindings) {
  CALLOUT_RETURN_IF_ERROR(ChannelsOf(callbacks).status());
  for (const LoadedHostCallback& callback : callbacks) {
    if (callback.transfers() == nullptr) continue;
    const std::string name = callback.transfers()->Name();
    if (bindings.emplace(name, callback.callback()).second || callback.name() == name) continue;
    return InvalidArgument("callout: two callbacks are bound to the name '" + name + "'");
  }
  return OkStatus();
}

Result<std::string> PrepareHostTransfers(std::string_view code, std::span<const LoadedHostCallback> callbacks,
                                         std::string_view platform) {
  const bool has_ops = code.find("\"stablehlo.send\"") != code.npos || code.find("\"stablehlo.recv\"") != code.npos;
  if (code.starts_with(kMlirBytecode) || !has_ops) return std::string(code);
  CALLOUT_ASSIGN_OR_RETURN(const MlirText text, MlirText::Scan(code));
  CALLOUT_ASSIGN_OR_RETURN(const std::vector<TransferOp> ops, FindTransferOps(text));
  CALLOUT_ASSIGN_OR_RETURN(const Channels channels, ChannelsOf(callbacks));
  CALLOUT_ASSIGN_OR_RETURN(const OpsOfCallbacks assigned, Assign(text, ops, channels));
  if (!NeedsHostCalls(platform)) return std::string(code);
  for (const TransferOp& op : ops) {
    if (op.is_host) continue;
    return Unimplemented("callout: " + Describe(text, op) + " is between devices, which the platform '" +
                         std::string(platform) + "' cannot do; expected is_host_transfer = true and the channel type " +
                         (op.is_send ? "2" : "3"));
  }
  HostTransferCalls calls(text);
  for (const auto& [callback, its_ops] : assigned) {
    CALLOUT_RETURN_IF_ERROR(calls.Add(callback->transfers()->Name(), its_ops));
  }
  return calls.Write();
}

Status ExplainHostTransfers(Status status) {
  const std::string text(status.message());
  if (status.code() != StatusCode::kUnimplemented ||
      (text.find("opcode `send") == text.npos && text.find("opcode `recv") == text.npos)) {
    return status;
  }
  return Unimplemented(
      "callout: the program sends to its host or receives from it, which this platform cannot do: turn that into calls "
      "with callout.export, or with callout.host.rewrite_host_transfers in Python, or give the program as MLIR text (" +
      text + ")");
}

}  // namespace callout::internal
