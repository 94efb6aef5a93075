// SPDX-License-Identifier: Apache-2.0
//
// Replaces npz.cc if minizip is not installed.
#include "npz.h"

namespace callout::tools {
namespace {

Status NoLibzip(const std::string& path) {
  return Unimplemented("callout: '" + path + "': this command was built without minizip, which .npz files need");
}

}  // namespace

Result<NamedArrays> ReadNpz(const std::string& path, const std::vector<DType>&, const std::string&) {
  return NoLibzip(path);
}

Status WriteNpz(const std::string& path, const NamedArrays&) { return NoLibzip(path); }

}  // namespace callout::tools
