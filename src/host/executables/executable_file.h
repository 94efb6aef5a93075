// SPDX-License-Identifier: Apache-2.0
//
// Compiled programs as bytes: the plugin's own bytes, with the conditions under which they can be loaded; and the
// folder that keeps them (the cache).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "callout/pjrt/client.h"
#include "callout/status.h"
#include "host/pjrt/pjrt_abi.h"

namespace callout::internal {

/// Errors: the plugin's own; Unimplemented if the plugin cannot serialise.
Result<std::string> SerializeExecutable(const PjrtApi& api, PJRT_LoadedExecutable* executable);

/// Loads bytes that the plugin serialised. The plugin trusts `bytes`: they are code. Call sites are instantiated on
/// this thread, as in a compilation. `options`: a CompileOptionsProto, or empty for the options of the compilation.
Result<PJRT_LoadedExecutable*> LoadSerialized(const pjrt::Client& client, std::string_view bytes,
                                              const std::string& options);

/// The bytes of LoadedExecutable::Serialize: a mark, the SHA-256 of the rest, and a message of these fields.
struct ExecutableFile {
  std::string made_by;         ///< MadeBy of the client that compiled it.
  bool wants_runners = false;  ///< True if it runs on runners (runners.h) where the loading client has some.
  int32_t device = 0;          ///< The id of the first device that it was compiled for.
  std::string bytes;           ///< The plugin's bytes, as its compiler made them.

  std::string Write() const;
  /// InvalidArgument for damage, for text that Write did not write, and for a file of another version of this library.
  static Result<ExecutableFile> Read(std::string_view text);
};

/// Returns a text that differs if an executable of one plugin or machine may not run on the other. The text names the
/// plugin's file and versions, the machine's instructions, and the flags of the environment.
std::string MadeBy(const pjrt::Client& client);

// A folder of compiled programs, which several processes may share. Its files are code: the folder is used only if
// nobody but this user can write to it.

/// Thread-safe; several processes may use one folder.
class ExecutableCache {
 public:
  /// Makes the folder, with mode 0700, if it is missing. Errors: PermissionDenied if the folder is another user's or
  /// others may write to it; Internal if it cannot be made or the path is no folder.
  static Result<ExecutableCache> Open(const std::string& folder);

  /// Returns nothing if there is no such file, or if another user could have written it. `key`: hexadecimal digits.
  std::optional<std::string> Read(const std::string& key) const;
  /// Writes a file atomically: other processes see all of it or nothing.
  Status Write(const std::string& key, std::string_view bytes) const;
  /// Removes the file, if there is one.
  void Remove(const std::string& key) const;

 private:
  explicit ExecutableCache(std::string folder) : folder_(std::move(folder)) {}
  std::string PathOf(const std::string& key) const { return folder_ + "/" + key + ".executable"; }

  std::string folder_;
};

}  // namespace callout::internal
