// SPDX-License-Identifier: Apache-2.0
#include "host/executables/other_handlers.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "core/base/dynamic_library.h"
#include "core/base/thread_annotations.h"
#include "core/frame/ffi_abi.h"
#include "host/lapack/custom_calls.h"
#include "host/lapack/library.h"

namespace callout::internal {
namespace {

// The handlers that hosts registered.
struct Registered {
  Mutex mutex;
  std::set<std::pair<const XLA_FFI_Api*, std::string>> names CALLOUT_GUARDED_BY(mutex);
};

Registered& GetRegistered() {
  static Registered* const registered = new Registered;  // leaked: plugins stay until the process ends
  return *registered;
}

}  // namespace
}  // namespace callout::internal

namespace callout::pjrt {

Status Plugin::RegisterHandler(const FfiHandler& handler) const {
  if (handler.name.empty()) return InvalidArgument("callout: a handler needs a name");
  if (handler.execute == nullptr) {
    return InvalidArgument("callout: the handler '" + handler.name + "' has no function for the stage execute");
  }
  const internal::Handlers handlers = {handler.instantiate, handler.initialize, handler.execute, handler.prepare,
                                       handler.traits};
  CALLOUT_RETURN_IF_ERROR(internal::RegisterHandlers(ffi_api_, handler.name, handler.platform, handlers));
  internal::Registered& registered = internal::GetRegistered();
  internal::MutexLock lock(registered.mutex);
  registered.names.emplace(ffi_api_, handler.name);
  return OkStatus();
}

Result<FfiHandler::Function*> FfiHandler::Find(const std::string& library_and_symbol) {
  CALLOUT_ASSIGN_OR_RETURN(const auto named, internal::LibrarySymbol::Parse(library_and_symbol));
  CALLOUT_ASSIGN_OR_RETURN(const internal::DynamicLibrary library, internal::DynamicLibrary::Open(named.path));
  void* found = library.Find(named.symbol);
  if (found == nullptr) return NotFound("callout: '" + named.path + "' has no symbol '" + named.symbol + "'");
  return reinterpret_cast<Function*>(found);
}

}  // namespace callout::pjrt

namespace callout::internal {
namespace {

struct Provided {
  Mutex mutex;
  std::set<const XLA_FFI_Api*> runtimes CALLOUT_GUARDED_BY(mutex);
};

Provided& GetProvided() {
  static Provided* const provided = new Provided;  // leaked: plugins stay until the process ends
  return *provided;
}

}  // namespace

Status ProvideLapack(const pjrt::Client& client, std::string_view code) {
  if (client.platform() != "cpu" || code.find("lapack_") == std::string_view::npos) return OkStatus();
  const XLA_FFI_Api* runtime = client.plugin().ffi_api();
  Provided& provided = GetProvided();
  MutexLock lock(provided.mutex);
  if (!provided.runtimes.insert(runtime).second) return OkStatus();
  for (const lapack::Target& target : lapack::Targets()) {
    // An error is ignored: the host has then registered its own handler, which serves as well.
    (void)RegisterHandlers(runtime, target.name, client.platform(), target.handlers);
  }
  return OkStatus();
}

std::string GiverOf(const pjrt::Plugin& plugin, const std::string& target) {
  {
    Registered& registered = GetRegistered();
    MutexLock lock(registered.mutex);
    if (registered.names.contains({plugin.ffi_api(), target})) return "the host";
  }
  const auto& ours = lapack::Targets();
  if (std::ranges::find(ours, target, &lapack::Target::name) == ours.end()) return "the plugin";
  const Result<std::string> library = lapack::LibraryPath();
  return library.ok() ? "LAPACK of '" + *library + "'" : "LAPACK, which is missing";
}

Status ExplainMissingHandler(Status error) {
  if (error.message().find("No FFI handler registered for") == std::string_view::npos) return error;
  return error.WithMessage(
      "callout: the program calls a function of XLA FFI that nobody registered with this plugin; register it "
      "with Plugin::RegisterHandler (callout_plugin_register_handler in C, --handler of the command) before "
      "Compile. The plugin says: " +
      std::string(error.message()));
}

}  // namespace callout::internal
