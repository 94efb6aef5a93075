// SPDX-License-Identifier: Apache-2.0
//
// The function behind channels. Its callers, a rewritten program or the streams of a device, pass operands and results
// in ascending order of their channels; the function gets them in the order of their declaration.
#include "callout/pjrt/host_transfer.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "core/base/cat.h"
#include "core/callbacks/callback.h"
#include "core/callbacks/native_function.h"
#include "host/programs/mlir_text.h"

namespace callout::pjrt {
namespace {

// Transfers in ascending order of their channels, with the declared position of each.
struct Sorted {
  std::vector<HostTransfer> transfers;
  std::vector<size_t> declared;
};

Sorted ByChannel(const std::vector<HostTransfer>& transfers) {
  Sorted sorted;
  for (size_t i = 0; i < transfers.size(); ++i) sorted.declared.push_back(i);
  std::sort(sorted.declared.begin(), sorted.declared.end(),
            [&](size_t a, size_t b) { return transfers[a].channel_id < transfers[b].channel_id; });
  for (const size_t i : sorted.declared) sorted.transfers.push_back(transfers[i]);
  return sorted;
}

std::string Listed(const std::vector<HostTransfer>& transfers) {
  return internal::Join(ByChannel(transfers).transfers, ",", &HostTransfer::channel_id);
}

class HostTransferFunction final : public internal::Callback {
 public:
  HostTransferFunction(std::string label, const HostTransfers& transfers,
                       std::function<Status(const callout::Call&)> function)
      : Callback(std::move(label)),
        operands_(ByChannel(transfers.operands)),
        results_(ByChannel(transfers.results)),
        function_(std::move(function)) {}

  internal::Worker worker() const override { return internal::Worker::kNative; }
  Status Deliver(const internal::Record& record) override { return Call(AsCall(record)); }

  Status Call(const callout_call& call) override {
    CALLOUT_ASSIGN_OR_RETURN(const std::vector<callout_buffer> args,
                             AsDeclared(operands_, {call.args, call.num_args}, "operand"));
    CALLOUT_ASSIGN_OR_RETURN(const std::vector<callout_buffer> results,
                             AsDeclared(results_, {call.results, call.num_results}, "result"));
    callout_call declared = call;
    declared.args = args.data();
    declared.results = results.data();
    return internal::CallNative(declared,
                                [this](const callout_call* whole) { return function_(callout::Call(whole)); });
  }

 private:
  // Checks the arrays: a program that was rewritten elsewhere may have other arrays than the callback.
  static Result<std::vector<callout_buffer>> AsDeclared(const Sorted& expected, std::span<const callout_buffer> found,
                                                        const char* what) {
    if (found.size() != expected.transfers.size()) {
      return InvalidArgument(internal::Cat("expected ", expected.transfers.size(), " ", what, "s, got ", found.size()));
    }
    std::vector<callout_buffer> buffers(found.size());
    for (size_t i = 0; i < found.size(); ++i) {
      const HostTransfer& transfer = expected.transfers[i];
      const callout_buffer& buffer = found[i];
      const std::span<const int64_t> dims(buffer.dims, buffer.rank);
      if (buffer.dtype != static_cast<uint32_t>(transfer.dtype) || !std::ranges::equal(dims, transfer.dims)) {
        const ArrayType got{static_cast<DType>(buffer.dtype), {dims.begin(), dims.end()}};
        return InvalidArgument(internal::Cat(what, " on channel ", transfer.channel_id, ": expected ",
                                             ArrayType{transfer.dtype, transfer.dims}.ToString(), ", got ",
                                             got.ToString()));
      }
      buffers[expected.declared[i]] = buffer;
    }
    return buffers;
  }

  const Sorted operands_;
  const Sorted results_;
  const std::function<Status(const callout::Call&)> function_;
};

// True for an array that can exist: no extent is negative, the dtype has a size, and the number of bits fits int64_t.
bool IsArray(const HostTransfer& transfer) {
  if (std::ranges::any_of(transfer.dims, [](int64_t extent) { return extent < 0; })) return false;
  if (std::ranges::find(transfer.dims, 0) != transfer.dims.end()) return BitWidth(transfer.dtype) != 0;
  int64_t bits = BitWidth(transfer.dtype);
  for (const int64_t extent : transfer.dims) {
    if (__builtin_mul_overflow(bits, extent, &bits)) return false;
  }
  return bits != 0;
}

Status CheckArray(const std::string& name, const HostTransfer& transfer) {
  if (IsArray(transfer)) return OkStatus();
  return InvalidArgument(internal::Cat("callout: the callback '", name, "' has ",
                                       ArrayType{transfer.dtype, transfer.dims}.ToString(), " on channel ",
                                       transfer.channel_id, ", which no array is"));
}

}  // namespace

std::string HostTransfers::Name() const { return "channels:" + Listed(operands) + "->" + Listed(results); }

Result<LoadedHostCallback> HostTransferCallback::Make() const {
  const std::string label = name.empty() ? transfers.Name() : name;
  if (!function) return InvalidArgument("callout: the callback '" + label + "' has no function");
  if (transfers.operands.empty()) {
    return InvalidArgument("callout: the callback '" + label +
                           "' has no operand on a channel: nothing in a program would start it");
  }
  std::set<int64_t> channels;
  for (const auto* list : {&transfers.operands, &transfers.results}) {
    for (const HostTransfer& transfer : *list) {
      CALLOUT_RETURN_IF_ERROR(CheckArray(label, transfer));
      if (channels.insert(transfer.channel_id).second) continue;
      return InvalidArgument(
          internal::Cat("callout: the callback '", label, "' has channel ", transfer.channel_id, " twice"));
    }
  }
  auto sorted = std::make_shared<HostTransfers>();
  sorted->operands = ByChannel(transfers.operands).transfers;
  sorted->results = ByChannel(transfers.results).transfers;
  return LoadedHostCallback(label, std::make_shared<HostTransferFunction>(label, transfers, function),
                            /*serialized=*/"", std::move(sorted));
}

}  // namespace callout::pjrt
