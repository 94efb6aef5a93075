// SPDX-License-Identifier: Apache-2.0
//
// Programs in MLIR text whose send and receive ops become calls.
#include <vector>

#include "callout/pjrt/host_transfer.h"
#include "fuzz.h"
#include "pjrt/host_transfers.h"

namespace callout::fuzz {
namespace {

using pjrt::HostTransfer;
using pjrt::HostTransferCallback;
using pjrt::LoadedHostCallback;

LoadedHostCallback Make(const char* name, std::vector<HostTransfer> operands, std::vector<HostTransfer> results) {
  const pjrt::HostTransfers transfers = {std::move(operands), std::move(results)};
  auto made = HostTransferCallback(name, transfers, [](const Call&) { return OkStatus(); }).Make();
  CALLOUT_CHECK(made.ok(), "the callbacks of this target can be made");
  return std::move(made).value();
}

}  // namespace

void Try(std::string_view bytes) {
  static const std::vector<LoadedHostCallback> callbacks = {
      Make("f", {{1, DType::kFloat32, {}}, {2, DType::kFloat32, {4}}}, {{3, DType::kInt32, {}}}),
      Make("g", {{4, DType::kFloat32, {}}}, {})};
  (void)internal::PrepareHostTransfers(bytes, callbacks, "cuda");
  const Result<std::string> once = internal::PrepareHostTransfers(bytes, callbacks, "cpu");
  if (!once.ok()) return;
  const Result<std::string> twice = internal::PrepareHostTransfers(*once, callbacks, "cpu");
  CALLOUT_CHECK(twice.ok() && *twice == *once, "ops are left, or the calls cannot be read");
}

}  // namespace callout::fuzz
