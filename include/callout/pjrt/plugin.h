// SPDX-License-Identifier: Apache-2.0
//
// A PJRT plugin: a shared library with XLA in it, behind the PJRT C API.
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

/// What a plugin says of itself, and what it is told: "stablehlo_current_version", "cpu_device_count".
using Value = std::variant<std::string, int64_t, std::vector<int64_t>, float, bool>;
/// Options and attributes by name.
using Values = std::map<std::string, Value>;

/// A custom call of programs: what XLA_FFI_DEFINE_HANDLER of xla/ffi/api/ffi.h (a header of jaxlib) defines, or a
/// library exports. The functions stay until the process ends; runtimes call them on any thread.
struct FfiHandler {
  /// A handler of one stage.
  using Function = XLA_FFI_Error*(XLA_FFI_CallFrame* frame);

  std::string name;                 ///< What stablehlo.custom_call says.
  std::string platform = "cpu";     ///< Or "cuda", ...
  Function* execute = nullptr;      ///< The function itself.
  Function* instantiate = nullptr;  ///< Null for stages that it does not have.
  Function* prepare = nullptr;      ///< Or null.
  Function* initialize = nullptr;   ///< Or null.
  /// XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE, 1, or nothing.
  uint32_t traits = 0;

  /// Returns the exported function of a shared library, "path/lib.so:symbol". Errors: NotFound with what was attempted;
  /// InvalidArgument without a ':'. The library stays loaded. Thread-safe.
  CALLOUT_EXPORT static Result<Function*> Find(const std::string& library_and_symbol);
};

/// Loaded once a process and path, and never unloaded: XLA's threads live on. Thread-safe.
class CALLOUT_EXPORT Plugin {
 public:
  /// Loads the library at `path`; if that is empty, the one that the environment variable CALLOUT_PJRT_PLUGIN names, or
  /// else the CPU plugin of the active Python environment (VIRTUAL_ENV or CONDA_PREFIX). Callout's FFI targets are
  /// registered with it. Errors: NotFound with what was tried; FailedPrecondition if it is no PJRT plugin, of another
  /// major version, or without the FFI extension; else the plugin's own.
  static Result<std::shared_ptr<const Plugin>> Load(const std::string& path = {});

  /// Returns the path of the library that was loaded.
  const std::string& path() const { return path_; }
  /// Returns the version of the PJRT C API that the plugin has.
  int major_version() const { return major_; }
  /// Returns the version of the PJRT C API that the plugin has.
  int minor_version() const { return minor_; }
  /// Returns what the plugin says of itself.
  const Values& attributes() const { return attributes_; }
  /// Types of its extensions, as numbers of PJRT_Extension_Type.
  const std::vector<int>& extensions() const { return extensions_; }

  /// Registers a handler of XLA FFI with the plugin's runtime, for programs that are compiled from now on. Errors:
  /// InvalidArgument without a name or `execute`; those of the runtime, such as another handler of that name, or one of
  /// a newer XLA FFI than its own.
  Status RegisterHandler(const FfiHandler& handler) const;
  /// Returns the runtime's `const XLA_FFI_Api*`, for what XLA's own header does with it, such as registering types of
  /// states.
  const XLA_FFI_Api* ffi_api() const { return ffi_api_; }

  /// Returns the table, for this library's own classes.
  const internal::PjrtApi& api() const { return *api_; }

  /// The library stays loaded.
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
