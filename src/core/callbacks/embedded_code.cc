// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/embedded_code.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include "core/base/log.h"
#include "core/callbacks/binding_scope.h"

namespace callout::internal {
namespace {

constexpr const char* kVariable = "CALLOUT_EMBEDDED_CODE";

// The texts are those that callout.config takes in Python.
bool IsAllowedByEnvironment() {
  const char* variable = std::getenv(kVariable);
  if (variable == nullptr || *variable == '\0') return true;
  std::string text = variable;
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::string_view kYes[] = {"1", "true", "yes", "on", "y", "t"};
  constexpr std::string_view kNo[] = {"0", "false", "no", "off", "n", "f"};
  if (std::ranges::find(kYes, text) != std::end(kYes)) return true;
  if (std::ranges::find(kNo, text) == std::end(kNo)) {
    Log(LogLevel::kWarning,
        std::string(kVariable) + "='" + variable + "' is neither true nor false; code that programs carry is refused");
  }
  return false;
}

std::atomic<bool>& IsAllowed() {
  static std::atomic<bool> allowed{IsAllowedByEnvironment()};
  return allowed;
}

}  // namespace

void AllowEmbeddedCode(bool allow) { IsAllowed().store(allow, std::memory_order_relaxed); }  // it guards no other data

Status CheckEmbeddedCode(const std::string& what) {
  const std::optional<bool> of_compilation = BindingScope::EmbeddedCode();
  if (of_compilation.value_or(IsAllowed().load(std::memory_order_relaxed))) return OkStatus();
  const char* const who = of_compilation ? "this compilation does not allow code that programs carry"
                                         : "this process does not run code that programs carry "
                                           "(config.embedded_code, CALLOUT_EMBEDDED_CODE)";
  return FailedPrecondition("callout: the program carries " + what + ", and " + who);
}

}  // namespace callout::internal
