// SPDX-License-Identifier: Apache-2.0
//
// Messages of a library.
#pragma once

#include <cstdio>
#include <string>

namespace callout::software_gpu {

/// Reports on stderr that `what` is not supported, and returns `status` for the caller. Clients report only the status,
/// without a name, and often not even that.
inline int Refuse(const std::string& what, int status) {
  std::fprintf(stderr, "software GPU: %s is not supported\n", what.c_str());
  return status;
}

}  // namespace callout::software_gpu

#define CALLOUT_LIBRARY_EXPORT extern "C" __attribute__((visibility("default")))
