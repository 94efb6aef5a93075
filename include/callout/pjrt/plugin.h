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

namespace callout::internal {
class PjrtApi;
}

namespace callout::pjrt {

/// What a plugin says of itself, and what it is told: "stablehlo_current_version", "cpu_device_count".
using Value = std::variant<std::string, int64_t, std::vector<int64_t>, float, bool>;
using Values = std::map<std::string, Value>;

/// Loaded once a process and path, and never unloaded: XLA's threads live on. Thread-safe.
class CALLOUT_EXPORT Plugin {
 public:
  /// Loads the library at `path`; if that is empty, the one that the environment variable CALLOUT_PJRT_PLUGIN names, or
  /// else the CPU plugin of the active Python environment (VIRTUAL_ENV or CONDA_PREFIX). Callout's FFI targets are
  /// registered with it. Errors: NotFound with what was tried; FailedPrecondition if it is no PJRT plugin, of another
  /// major version, or without the FFI extension; else the plugin's own.
  static Result<std::shared_ptr<const Plugin>> Load(const std::string& path = {});

  const std::string& path() const { return path_; }
  int major_version() const { return major_; }
  int minor_version() const { return minor_; }
  const Values& attributes() const { return attributes_; }
  /// Types of its extensions, as numbers of PJRT_Extension_Type.
  const std::vector<int>& extensions() const { return extensions_; }

  /// The table, for this library's own classes.
  const internal::PjrtApi& api() const { return *api_; }

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
};

}  // namespace callout::pjrt
