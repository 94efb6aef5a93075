// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/embedded_library.h"

#include <sys/utsname.h>
#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>

#include "core/base/dynamic_library.h"
#include "core/base/log.h"
#include "core/base/thread_annotations.h"
#include "core/callbacks/binding_scope.h"
#include "core/callbacks/native_function.h"
#include "core/callbacks/registry.h"
#include "core/encoding/checksums.h"

namespace callout::internal {
namespace {

constexpr const char* kVariable = "CALLOUT_EMBEDDED_CODE";

// callout.config accepts the same texts in Python.
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

void AllowEmbeddedCode(bool allow) { IsAllowed().store(allow, std::memory_order_relaxed); }  // guards no other data

Status CheckEmbeddedCode(const std::string& what) {
  const std::optional<bool> of_compilation = BindingScope::EmbeddedCode();
  if (of_compilation.value_or(IsAllowed().load(std::memory_order_relaxed))) return OkStatus();
  const char* const who = of_compilation ? "this compilation does not allow code that programs carry"
                                         : "this process does not run code that programs carry "
                                           "(config.embedded_code, CALLOUT_EMBEDDED_CODE)";
  return FailedPrecondition("callout: the program carries " + what + ", and " + who);
}

namespace {

struct Loaded {
  Mutex mutex;
  std::map<std::string, DynamicLibrary, std::less<>> by_digest CALLOUT_GUARDED_BY(mutex);
  std::map<std::tuple<std::string, std::string, std::string>, std::weak_ptr<Callback>> functions
      CALLOUT_GUARDED_BY(mutex);  // by digest, symbol and label
};

Loaded& GetLoaded() {
  static Loaded* const loaded = new Loaded;  // leaked: programs are compiled until the process ends
  return *loaded;
}

// Replaces a function that this process refuses to load, in programs that are compiled nevertheless.
class RefusedFunction final : public Callback {
 public:
  RefusedFunction(std::string label, Status refused) : Callback(std::move(label)), refused_(std::move(refused)) {}

  Worker worker() const override { return Worker::kNative; }
  bool takes_device_memory() const override { return true; }
  Status Call(const callout_call& /*call*/) override { return refused_; }
  Status Deliver(const Record& /*record*/) override { return refused_; }

 private:
  const Status refused_;
};

Status Check(const std::string& label, const EmbeddedLibrary& library) {
  if (library.platform != NativePlatform()) {
    return FailedPrecondition("callout: the native function '" + label + "' that the program carries is for " +
                              std::string(library.platform) + "; this is " + NativePlatform());
  }
  if (const std::string digest = Sha256Hex(library.bytes); digest != library.digest) {
    return InvalidArgument("callout: the native function '" + label +
                           "' that the program carries is damaged: its SHA-256 is " + digest + ", expected " +
                           std::string(library.digest));
  }
  return OkStatus();
}

Result<DynamicLibrary> Open(Loaded& loaded, const EmbeddedLibrary& library) CALLOUT_REQUIRES(loaded.mutex) {
  if (auto it = loaded.by_digest.find(library.digest); it != loaded.by_digest.end()) return it->second;
  const std::string name = "callout-" + std::string(library.digest.substr(0, 16));
  CALLOUT_ASSIGN_OR_RETURN(DynamicLibrary opened, DynamicLibrary::OpenBytes(name, library.bytes));
  loaded.by_digest.emplace(library.digest, opened);
  return opened;
}

}  // namespace

std::string NativePlatform() {
  utsname names = {};
  uname(&names);
  std::string system = names.sysname;
  std::ranges::transform(system, system.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return system + "-" + names.machine;
}

Result<std::shared_ptr<Callback>> LoadEmbeddedFunction(const std::string& label, const EmbeddedLibrary& library) {
  if (Status refused = CheckEmbeddedCode("the native function '" + label + "'"); !refused.ok()) {
    if (!BindingScope::RefusedCodeFailsLate()) return refused;
    return std::shared_ptr<Callback>(std::make_shared<RefusedFunction>(label, std::move(refused)));
  }
  CALLOUT_RETURN_IF_ERROR(Check(label, library));
  Loaded& loaded = GetLoaded();
  MutexLock lock(loaded.mutex);
  std::weak_ptr<Callback>& known = loaded.functions[{std::string(library.digest), std::string(library.symbol), label}];
  if (auto callback = known.lock()) return callback;
  CALLOUT_ASSIGN_OR_RETURN(const DynamicLibrary opened, Open(loaded, library));
  CALLOUT_ASSIGN_OR_RETURN(auto callback, FindNativeFunction(label, opened, std::string(library.symbol)));
  known = callback;
  // Binds the callback to a name while it lives, so that reports find it.
  const std::string bound = std::string(kNativePrefix) + label + "/" + std::string(library.digest);
  Registry::Get().Unbind(Registry::Get().Bind(bound, callback), callback);
  return callback;
}

}  // namespace callout::internal
