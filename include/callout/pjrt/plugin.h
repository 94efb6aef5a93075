// SPDX-License-Identifier: Apache-2.0
//
// A PJRT plugin: a shared library that contains XLA, behind the PJRT C API.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"

struct XLA_FFI_Api;
struct XLA_FFI_CallFrame;
struct XLA_FFI_Error;

namespace callout::internal {
class PjrtApi;
}

namespace callout::pjrt {

/// The value of an attribute that a plugin reports, or of an option that it takes: "stablehlo_current_version",
/// "cpu_device_count".
using Value = std::variant<std::string, int64_t, std::vector<int64_t>, float, bool>;
/// Attributes or options by name.
using Values = std::map<std::string, Value>;

/// A handler of custom calls: a function that XLA_FFI_DEFINE_HANDLER of xla/ffi/api/ffi.h (a header of jaxlib) defines,
/// or a library exports. The functions stay until the process ends; runtimes call them on any thread.
struct FfiHandler {
  /// The handler of one stage.
  using Function = XLA_FFI_Error*(XLA_FFI_CallFrame* frame);

  std::string name;                 ///< The target name in stablehlo.custom_call.
  std::string platform = "cpu";     ///< The platform, "cpu", "cuda", ...
  Function* execute = nullptr;      ///< The handler of the execute stage.
  Function* instantiate = nullptr;  ///< Null if the handler has no such stage.
  Function* prepare = nullptr;      ///< Null if the handler has no such stage.
  Function* initialize = nullptr;   ///< Null if the handler has no such stage.
  /// XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE, 1, or 0.
  uint32_t traits = 0;

  /// Returns the exported function of a shared library, "path/lib.so:symbol". Errors: NotFound with what was attempted;
  /// InvalidArgument without a ':'. The library stays loaded. Thread-safe.
  CALLOUT_EXPORT static Result<Function*> Find(const std::string& library_and_symbol);
};

/// A loaded plugin. A plugin is loaded once per process and path, and never unloaded, because XLA's threads live on.
/// Thread-safe.
class CALLOUT_EXPORT Plugin {
 public:
  /// Loads the library at `path`. If `path` is empty, loads the library that the environment variable
  /// CALLOUT_PJRT_PLUGIN names, or else the CPU plugin of the active Python environment (VIRTUAL_ENV or CONDA_PREFIX).
  /// Registers Callout's FFI targets with the plugin. Errors: NotFound with the paths that were tried;
  /// FailedPrecondition if the library is no PJRT plugin, has another major version, or lacks the FFI extension; else
  /// the plugin's own.
  static Result<std::shared_ptr<const Plugin>> Load(const std::string& path = {});

  /// Returns the path of the library that was loaded.
  const std::string& path() const { return path_; }
  /// Returns the major version of the PJRT C API that the plugin has.
  int major_version() const { return major_; }
  /// Returns the minor version of the PJRT C API that the plugin has.
  int minor_version() const { return minor_; }
  /// Returns the attributes that the plugin reports.
  const Values& attributes() const { return attributes_; }
  /// Returns the types of the plugin's extensions, as numbers of PJRT_Extension_Type.
  const std::vector<int>& extensions() const { return extensions_; }

  /// Registers a handler of XLA FFI with the plugin's runtime, for programs that are compiled from now on. Errors:
  /// InvalidArgument without a name or `execute`; those of the runtime, such as another handler of that name, or a
  /// handler of a newer XLA FFI than the runtime's.
  Status RegisterHandler(const FfiHandler& handler) const;
  /// Returns the runtime's `const XLA_FFI_Api*`, for uses that XLA's own header has for it, such as registering types
  /// of states.
  const XLA_FFI_Api* ffi_api() const { return ffi_api_; }

  /// Returns the table of functions, for this library's own classes.
  const internal::PjrtApi& api() const { return *api_; }

  /// Leaves the library loaded.
  ~Plugin();
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

 private:
  Plugin();

  Status Open();
  Status ReadAttributes();

  std::string path_;
  int major_ = 0;
  int minor_ = 0;
  Values attributes_;
  std::vector<int> extensions_;
  std::unique_ptr<internal::PjrtApi> api_;
  const XLA_FFI_Api* ffi_api_ = nullptr;
};

}  // namespace callout::pjrt
