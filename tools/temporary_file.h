// SPDX-License-Identifier: Apache-2.0
//
// A temporary file, for formats that need random access, such as archives.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "callout/status.h"

namespace callout::tools {

/// The file is in a folder of its own, which the destructor removes. Movable.
class TemporaryFile {
 public:
  /// Makes the folder; the file does not exist yet. The text of an error names the folder.
  static Result<TemporaryFile> Make();
  TemporaryFile(TemporaryFile&& other) noexcept : folder_(std::exchange(other.folder_, "")) {}
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile();

  std::string path() const { return folder_ + "/file"; }
  /// Writes the whole file. The text of an error names the path.
  Status Write(std::string_view bytes) const;

 private:
  explicit TemporaryFile(std::string folder) : folder_(std::move(folder)) {}

  std::string folder_;
};

}  // namespace callout::tools
