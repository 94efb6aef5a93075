// SPDX-License-Identifier: Apache-2.0
//
// A folder of compiled programs, which several processes may share. Its files are code: it is only used if nobody but
// this user can write to it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "callout/status.h"

namespace callout::internal {

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
