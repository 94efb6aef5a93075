// SPDX-License-Identifier: Apache-2.0
#include "ffi/find_callback.h"

#include "registry/embedded_library.h"
#include "registry/registry.h"

namespace callout::internal {

Result<std::shared_ptr<Callback>> FindCallback(const CallAttributes& attributes) {
  if (!attributes.library) return Registry::Get().Find(attributes.callback, attributes.names);
  const auto& [bytes, digest, platform, symbol] = *attributes.library;
  return LoadEmbeddedFunction(std::string(attributes.callback), {bytes, digest, platform, symbol});
}

}  // namespace callout::internal
