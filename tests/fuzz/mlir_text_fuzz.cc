// SPDX-License-Identifier: Apache-2.0
//
// Programs in MLIR text whose send and receive ops become calls.
#include <string>
#include <string_view>
#include <vector>

#include "callout/pjrt/host_transfer.h"
#include "fuzz.h"
#include "transfers/preparation.h"

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

// Whether all brackets are closed by their like. Text in which they are not is no program: MLIR refuses it, rewritten
// or not, and nothing is promised of what is rewritten there.
bool IsBalanced(std::string_view text) {
  std::string open;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == '(' || c == '[' || c == '{' || c == '<') open += c;
    const bool is_arrow = c == '>' && i > 0 && text[i - 1] == '-';
    if ((c != ')' && c != ']' && c != '}' && c != '>') || is_arrow) continue;
    const char like = c == ')' ? '(' : c == ']' ? '[' : c == '}' ? '{' : '<';
    if (open.empty() || open.back() != like) return false;
    open.pop_back();
  }
  return open.empty() && !in_string;
}

}  // namespace

void Try(std::string_view bytes) {
  static const std::vector<LoadedHostCallback> callbacks = {
      Make("f", {{1, DType::kFloat32, {}}, {2, DType::kFloat32, {4}}}, {{3, DType::kInt32, {}}}),
      Make("g", {{4, DType::kFloat32, {}}}, {})};
  (void)internal::PrepareHostTransfers(bytes, callbacks, "cuda");
  const Result<std::string> once = internal::PrepareHostTransfers(bytes, callbacks, "cpu");
  if (!once.ok() || !IsBalanced(bytes)) return;
  const Result<std::string> twice = internal::PrepareHostTransfers(*once, callbacks, "cpu");
  CALLOUT_CHECK(twice.ok() && *twice == *once, "ops are left, or the calls cannot be read");
}

}  // namespace callout::fuzz
