// SPDX-License-Identifier: Apache-2.0
#include "executables/callback_bindings.h"

#include <string>

#include "transfers/preparation.h"

namespace callout::internal {

Result<Bindings> MakeBindings(std::span<const pjrt::LoadedHostCallback> callbacks) {
  Bindings bindings;
  for (size_t i = 0; i < callbacks.size(); ++i) {
    if (!bindings.emplace(callbacks[i].name(), callbacks[i].callback()).second) {
      return InvalidArgument("callout: two callbacks are bound to the name '" + callbacks[i].name() + "'");
    }
    bindings.emplace("#" + std::to_string(i), callbacks[i].callback());
  }
  CALLOUT_RETURN_IF_ERROR(BindHostTransfers(callbacks, bindings));
  return bindings;
}

}  // namespace callout::internal
