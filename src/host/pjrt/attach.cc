// SPDX-License-Identifier: Apache-2.0
#include "host/pjrt/attach.h"

#include <map>
#include <string_view>

#include "core/base/cat.h"
#include "core/base/thread_annotations.h"
#include "cuda/handlers/targets.h"
#include "host/services/host_services.h"
#include "sinks/catalog/callback_kinds.h"

namespace callout::internal {
namespace {

struct Attached {
  Mutex mutex;
  std::map<const PJRT_Api*, const XLA_FFI_Api*> tables CALLOUT_GUARDED_BY(mutex);
  int attempts CALLOUT_GUARDED_BY(mutex) = 0;
};

Attached& GetAttached() {
  static Attached* const attached = new Attached;  // leaked: plugins stay until the process ends
  return *attached;
}

Status RegisterBootstrap(const PjrtApi& api, const PjrtFfiExtension& extension, const std::string& name) {
  constexpr std::string_view kPlatform = "cpu";
  PjrtFfiRegisterHandlerArgs args = {};
  args.struct_size = kPjrtFfiRegisterHandlerArgsSize;
  args.target_name = name.data();
  args.target_name_size = name.size();
  args.handler = BootstrapHandler();
  args.platform_name = kPlatform.data();
  args.platform_name_size = kPlatform.size();
  try {
    return api.Take(extension.register_handler(&args));
  } catch (...) {
    return PjrtApi::Threw("its FFI extension");
  }
}

}  // namespace

Result<const XLA_FFI_Api*> AttachTargets(const PjrtApi& api, const std::string& plugin) {
  const int major = api.table().pjrt_api_version.major_version;
  if (major != PJRT_API_MAJOR) {
    return FailedPrecondition(
        Cat("callout: ", plugin, " has major version ", major, " of the PJRT C API; expected ", PJRT_API_MAJOR));
  }
  const auto* extension = reinterpret_cast<const PjrtFfiExtension*>(api.Extension(PJRT_Extension_Type_FFI));
  if (extension == nullptr || extension->base.struct_size < sizeof(PjrtFfiExtension)) {
    return FailedPrecondition("callout: " + plugin + " cannot call functions of its host: it has no FFI extension");
  }
  Attached& attached = GetAttached();
  MutexLock lock(attached.mutex);
  if (const auto it = attached.tables.find(&api.table()); it != attached.tables.end()) return it->second;
  // A new name each time: runtimes refuse a known name with another function, and several plugins may share one
  // runtime.
  const std::string name = Cat("callout.bootstrap.", attached.attempts++);
  RegisterKinds();
  CALLOUT_RETURN_IF_ERROR(RegisterBootstrap(api, *extension, name));
  CALLOUT_ASSIGN_OR_RETURN(const XLA_FFI_Api* runtime, RegisterTargetsWithRuntime());
  attached.tables.emplace(&api.table(), runtime);
  StartHostServices();
  return runtime;
}

}  // namespace callout::internal
