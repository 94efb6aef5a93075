// SPDX-License-Identifier: Apache-2.0
#include "core/base/caught.h"

#include <exception>
#include <new>

namespace callout::internal {

Status CaughtStatus() {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("out of memory");
  } catch (const std::exception& e) {
    return InternalError(e.what());
  } catch (...) {
    return InternalError("it threw something that is not a std::exception");
  }
}

Status OutOfMemory(uint64_t bytes, const char* what) {
  return ResourceExhausted("out of memory: cannot allocate " + std::to_string(bytes) + " bytes for " + what);
}

}  // namespace callout::internal
