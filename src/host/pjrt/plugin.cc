// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/plugin.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "core/base/cat.h"
#include "core/base/status.h"
#include "core/base/thread_annotations.h"
#include "host/pjrt/attach.h"
#include "host/pjrt/pjrt_abi.h"
#include "host/pjrt/values.h"

namespace callout::pjrt {
namespace {

using internal::Mutex;
using internal::MutexLock;

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// Returns the CPU plugin that is installed in a Python environment, "" if there is none.
std::string PluginOfEnvironment(const std::string& prefix) {
  if (prefix.empty()) return "";
  std::error_code ignored;
  for (const auto& version : std::filesystem::directory_iterator(prefix + "/lib", ignored)) {
    const auto path = version.path() / "site-packages/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so";
    if (std::filesystem::exists(path, ignored)) return path;
  }
  return "";
}

Result<std::string> FindPlugin(const std::string& path) {
  if (!path.empty()) return path;
  for (const std::string& candidate :
       {Environment("CALLOUT_PJRT_PLUGIN"), PluginOfEnvironment(Environment("VIRTUAL_ENV")),
        PluginOfEnvironment(Environment("CONDA_PREFIX"))}) {
    if (!candidate.empty()) return candidate;
  }
  return NotFound(
      "callout: no PJRT plugin: give its path, or set CALLOUT_PJRT_PLUGIN to it, or activate a Python environment with "
      "the package xla-cpu-pjrt in it");
}

struct LoadedPlugins {
  Mutex mutex;
  std::map<std::string, std::shared_ptr<const Plugin>> by_path CALLOUT_GUARDED_BY(mutex);
};

LoadedPlugins& GetLoaded() {
  // Leaked: XLA's threads use the plugins until the process ends.
  static LoadedPlugins* const loaded = new LoadedPlugins;
  return *loaded;
}

}  // namespace

Plugin::Plugin() = default;
Plugin::~Plugin() = default;

Result<std::shared_ptr<const Plugin>> Plugin::Load(const std::string& path) {
  CALLOUT_ASSIGN_OR_RETURN(const std::string found, FindPlugin(path));
  LoadedPlugins& loaded = GetLoaded();
  MutexLock lock(loaded.mutex);
  if (const auto it = loaded.by_path.find(found); it != loaded.by_path.end()) return it->second;
  std::shared_ptr<Plugin> plugin(new Plugin);
  plugin->path_ = found;
  CALLOUT_RETURN_IF_ERROR(plugin->Open());
  CALLOUT_RETURN_IF_ERROR(plugin->ReadAttributes());
  CALLOUT_ASSIGN_OR_RETURN(plugin->ffi_api_, internal::AttachTargets(*plugin->api_, "'" + found + "'"));
  loaded.by_path[found] = plugin;
  return std::shared_ptr<const Plugin>(std::move(plugin));
}

Status Plugin::Open() {
  void* library = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return NotFound("callout: cannot load the PJRT plugin '" + path_ + "': " + dlerror());
  using GetApi = const PJRT_Api* (*)();
  const auto get_api = reinterpret_cast<GetApi>(dlsym(library, "GetPjrtApi"));
  const PJRT_Api* table = nullptr;
  try {
    if (get_api != nullptr) table = get_api();
  } catch (...) {
    return InternalError("callout: cannot load the PJRT plugin '" + path_ +
                         "': GetPjrtApi threw an exception: " + internal::CaughtStatus().c_message());
  }
  if (table == nullptr) return FailedPrecondition("callout: '" + path_ + "' is no PJRT plugin: it has no GetPjrtApi");
  major_ = table->pjrt_api_version.major_version;
  minor_ = table->pjrt_api_version.minor_version;
  if (major_ != PJRT_API_MAJOR) {
    return FailedPrecondition(internal::Cat("callout: '", path_, "' has major version ", major_,
                                            " of the PJRT C API; expected ", PJRT_API_MAJOR));
  }
  api_ = std::make_unique<internal::PjrtApi>(table);
  for (auto* extension = table->extension_start; extension != nullptr; extension = extension->next) {
    extensions_.push_back(internal::EnumNumber(extension->type));
  }
  internal::PjrtArgs<PJRT_Plugin_Initialize_Args> args;
  return CALLOUT_PJRT(*api_, PJRT_Plugin_Initialize, args);
}

Status Plugin::ReadAttributes() {
  internal::PjrtArgs<PJRT_Plugin_Attributes_Args> args;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(*api_, PJRT_Plugin_Attributes, args));
  attributes_ = internal::FromNamedValues(args.attributes, args.num_attributes);
  return OkStatus();
}

}  // namespace callout::pjrt
