// SPDX-License-Identifier: Apache-2.0
#include "host/executables/callback_bindings.h"

#include <algorithm>
#include <string>

#include "core/attributes/jax_calls.h"
#include "core/base/cat.h"
#include "host/transfers/preparation.h"

namespace callout::internal {

Result<Bindings> MakeBindings(std::span<const pjrt::LoadedHostCallback> callbacks) {
  Bindings bindings;
  for (size_t i = 0; i < callbacks.size(); ++i) {
    if (!bindings.emplace(callbacks[i].name(), callbacks[i].callback()).second) {
      return InvalidArgument("callout: two callbacks are bound to the name '" + callbacks[i].name() + "'");
    }
    bindings.emplace(Cat("#", i), callbacks[i].callback());
  }
  CALLOUT_RETURN_IF_ERROR(BindHostTransfers(callbacks, bindings));
  return bindings;
}

Status CheckJaxCalls(const pjrt::LoadedExecutable& executable, const Bindings& bindings) {
  const auto is_sink_of_jax = [](const Bindings::value_type& binding) {
    return binding.first.starts_with(kJaxNamePrefix) && binding.second->takes_taps_only();
  };
  if (std::ranges::none_of(bindings, is_sink_of_jax)) return OkStatus();  // reading the uses is slow
  const auto uses = executable.ReadCallbackUses();
  if (!uses.ok()) return OkStatus();  // the call itself will then fail
  for (const pjrt::CallbackUse& use : *uses) {
    const auto bound = bindings.find(use.name);
    if (bound != bindings.end() && is_sink_of_jax(*bound) && !use.results.empty()) return CalledSink(use.name);
  }
  return OkStatus();
}

}  // namespace callout::internal
