// SPDX-License-Identifier: Apache-2.0
#include "pjrt/bindings.h"

namespace callout::internal {

Result<Bindings> MakeBindings(std::span<const pjrt::LoadedHostCallback> callbacks) {
  Bindings bindings;
  for (const pjrt::LoadedHostCallback& callback : callbacks) {
    if (!bindings.emplace(callback.name(), callback.callback()).second) {
      return InvalidArgument("callout: two callbacks are bound to the name '" + callback.name() + "'");
    }
  }
  return bindings;
}

}  // namespace callout::internal
