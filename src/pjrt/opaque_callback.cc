// SPDX-License-Identifier: Apache-2.0
#include <exception>
#include <utility>

#include "base/check.h"
#include "callout/pjrt/host_callback.h"
#include "registry/makers.h"

namespace callout::pjrt {
namespace {

using internal::Callback;
using internal::Makers;

// As the maker of another kind of arguments.
template <typename Args, typename... Rest>
Makers::Maker MakerOf(Rest... rest) {
  return [rest...](const std::string& label, std::string_view payload) -> Result<std::shared_ptr<Callback>> {
    CALLOUT_ASSIGN_OR_RETURN(const LoadedHostCallback made, Args(label, rest..., std::string(payload)).Make());
    return made.callback();
  };
}

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

void RegisterOwn(const char* kind, Makers::Maker maker) {
  const Status status = Makers::Get().Register(kind, std::move(maker), Makers::For::kHosts);
  CALLOUT_CHECK(status.ok(), "our own kinds of callbacks are registered first");
}

void RegisterOwnKinds() {
  using Kind = SinkCallback::Kind;
  static const bool registered = [] {
    RegisterOwn("null", MakerOf<SinkCallback>(Kind::kNull));
    RegisterOwn("print", MakerOf<SinkCallback>(Kind::kPrint));
    RegisterOwn("jsonl", MakerOf<SinkCallback>(Kind::kJsonLines));
    RegisterOwn("csv", MakerOf<SinkCallback>(Kind::kCsv));
    RegisterOwn("tensorboard", MakerOf<SinkCallback>(Kind::kTensorBoard));
    RegisterOwn("library", MakerOf<LibraryCallback>());
    return true;
  }();
  (void)registered;
}

}  // namespace

Result<LoadedHostCallback> OpaqueCallback::Make() const {
  RegisterOwnKinds();
  CALLOUT_ASSIGN_OR_RETURN(std::shared_ptr<Callback> callback, Makers::Get().Make(name, bytes));
  return LoadedHostCallback(name, std::move(callback), bytes);
}

Status RegisterHostCallbackMaker(const std::string& kind, HostCallbackMaker maker, bool programs_may_use) {
  RegisterOwnKinds();
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
