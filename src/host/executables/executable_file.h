// SPDX-License-Identifier: Apache-2.0
//
// Compiled programs as bytes, which are the plugin's own and what has to be true where they are loaded; and the
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

/// Errors: those of the plugin; Unimplemented where it has no such bytes.
Result<std::string> SerializeExecutable(const PjrtApi& api, PJRT_LoadedExecutable* executable);

/// The plugin believes `bytes`: they are code. Call sites are instantiated on this thread, as by a compilation.
/// `options`: a CompileOptionsProto, or empty for that with which it was compiled.
Result<PJRT_LoadedExecutable*> LoadSerialized(const pjrt::Client& client, std::string_view bytes,
                                              const std::string& options);

/// What LoadedExecutable::Serialize returns: a mark, the SHA-256 of the rest, and a message of these fields.
struct ExecutableFile {
  std::string made_by;         ///< MadeBy of the client that compiled it.
  bool wants_runners = false;  ///< True: it runs on runners (runners.h) where the client that loads it has some.
  int32_t device = 0;          ///< The id of the first device that it was compiled for.
  std::string bytes;           ///< The plugin's, as its compiler made them.

  std::string Write() const;
  /// InvalidArgument for what Write did not write, also of another version of this library, and for damage.
  static Result<ExecutableFile> Read(std::string_view text);
};

/// Tells plugins and machines apart whose executables do not fit each other: the plugin's file and versions, the
/// instructions that this machine has, the flags of the environment.
std::string MadeBy(const pjrt::Client& client);

// A folder of compiled programs, which several processes may share. Its files are code: it is only used if nobody but
// this user can write to it.

/// Thread-safe, and safe beside other processes.
class ExecutableCache {
 public:
  /// Makes the folder, with mode 0700, if it is missing. Errors: PermissionDenied if it is another user's, or others
  /// may write to it; Internal if it cannot be made or is none.
  static Result<ExecutableCache> Open(const std::string& folder);

  /// Nothing where there is no such file, or one that another user could have written. `key`: hexadecimal digits.
  std::optional<std::string> Read(const std::string& key) const;
  /// Other processes see all of it or nothing.
  Status Write(const std::string& key, std::string_view bytes) const;
  /// Removes the file, if there is one.
  void Remove(const std::string& key) const;

 private:
  explicit ExecutableCache(std::string folder) : folder_(std::move(folder)) {}
  std::string PathOf(const std::string& key) const { return folder_ + "/" + key + ".executable"; }

  std::string folder_;
};

}  // namespace callout::internal
