// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <utility>

#include "callout/pjrt/host_callback.h"
#include "core/callbacks/makers.h"
#include "sinks/catalog/callback_kinds.h"

namespace callout::pjrt {
namespace {

using internal::Callback;
using internal::Makers;

// A host's maker is called where nothing may be thrown, too.
Result<LoadedHostCallback> CallMaker(const HostCallbackMaker& maker, const std::string& label,
                                     std::string_view payload) {
  const std::string what = "callout: the maker of the callback '" + label + "' failed: ";
  try {
    return maker(label, payload);
  } catch (const std::exception& e) {
    return InternalError(what + e.what());
  } catch (...) {
    return InternalError(what + "it threw something that is not a std::exception");
  }
}

}  // namespace

Result<LoadedHostCallback> OpaqueCallback::Make() const {
  internal::RegisterKinds();
  const bool is_sink = internal::SinkKindOf(bytes) != nullptr;
  CALLOUT_ASSIGN_OR_RETURN(std::shared_ptr<Callback> callback,
                           is_sink ? internal::MakeSink(name, bytes) : Makers::Get().Make(name, bytes));
  return LoadedHostCallback(name, std::move(callback), bytes);
}

Status RegisterHostCallbackMaker(const std::string& kind, HostCallbackMaker maker, bool programs_may_use) {
  internal::RegisterKinds();
  if (!maker) return InvalidArgument("callout: the maker of callbacks of kind '" + kind + "' is no function");
  auto make = [maker = std::move(maker)](const std::string& label,
                                         std::string_view payload) -> Result<std::shared_ptr<Callback>> {
    CALLOUT_ASSIGN_OR_RETURN(const LoadedHostCallback made, CallMaker(maker, label, payload));
    if (made.callback() == nullptr) {
      return InternalError("callout: the maker of the callback '" + label + "' made nothing");
    }
    return made.callback();
  };
  return Makers::Get().Register(kind, std::move(make), programs_may_use ? Makers::For::kPrograms : Makers::For::kHosts);
}

}  // namespace callout::pjrt
