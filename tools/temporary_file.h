// SPDX-License-Identifier: Apache-2.0
//
// A file for what can only be read or written in a file, such as archives.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "callout/status.h"

namespace callout::tools {

/// In a folder of its own, which goes with it. Movable.
class TemporaryFile {
 public:
  /// The file is not there yet. Errors: with the folder.
  static Result<TemporaryFile> Make();
  TemporaryFile(TemporaryFile&& other) noexcept : folder_(std::exchange(other.folder_, "")) {}
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile();

  std::string path() const { return folder_ + "/file"; }
  /// Errors: with the path.
  Status Write(std::string_view bytes) const;

 private:
  explicit TemporaryFile(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_;
};

}  // namespace callout::tools
