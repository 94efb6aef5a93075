// SPDX-License-Identifier: Apache-2.0
//
// The callbacks of callout/c_api.h, and the barrier.
#include "callout/pjrt/host_callback.h"
#include "core/base/cat.h"
#include "core/callbacks/binding_scope.h"
#include "core/callbacks/native_function.h"
#include "host/c_api/edge.h"
#include "host/executables/callback_bindings.h"
#include "host/pjrt/attach.h"

using namespace callout;  // for the C functions below, which are outside of the namespace
using callout::internal::GuardC;

namespace {

Status Make(const pjrt::LoadedHostCallbackMakeArgs& args, callout_callback** out) {
  CALLOUT_ASSIGN_OR_RETURN(pjrt::LoadedHostCallback callback, args.Make());
  *out = internal::NewHandle<callout_callback>(std::move(callback));
  return OkStatus();
}

}  // namespace

Result<std::vector<pjrt::LoadedHostCallback>> internal::ReadCallbacks(const char* function,
                                                                      callout_callback* const* callbacks,
                                                                      size_t count) {
  std::vector<pjrt::LoadedHostCallback> read;
  for (size_t i = 0; i < count; ++i) {
    if (callbacks == nullptr || callbacks[i] == nullptr) {
      return InvalidArgument(internal::Cat(function, ": callback ", i, " is null"));
    }
    read.push_back(callbacks[i]->callback);
  }
  return read;
}

callout_status* callout_callback_from_closure(const char* name, const callout_closure* closure,
                                              callout_callback** out) noexcept {
  return GuardC(__func__, {{name, "name"}, {closure, "closure"}, {out, "out"}}, [&] {
    std::string copy = name;
    std::unique_ptr<callout_callback> handle(
        internal::NewHandle<callout_callback>(pjrt::LoadedHostCallback("", nullptr)));
    // MakeClosure is the last step that can fail, because it takes ownership of the closure if it succeeds.
    CALLOUT_ASSIGN_OR_RETURN(auto callback, internal::MakeClosure(copy, *closure));
    handle->callback = pjrt::LoadedHostCallback(std::move(copy), std::move(callback));
    *out = handle.release();
    return OkStatus();
  });
}

callout_status* callout_callback_from_library(const char* name, const char* library_and_symbol,
                                              callout_callback** out) noexcept {
  return GuardC(__func__, {{name, "name"}, {library_and_symbol, "library_and_symbol"}, {out, "out"}},
                [&] { return Make(pjrt::LibraryCallback(name, library_and_symbol), out); });
}

callout_status* callout_callback_from_sink(const char* name, uint32_t kind, const char* path,
                                           callout_callback** out) noexcept {
  return GuardC(__func__, {{name, "name"}, {out, "out"}}, [&]() -> Status {
    const pjrt::SinkCallback sink(name, static_cast<pjrt::SinkCallback::Kind>(kind), path == nullptr ? "" : path);
    if (path == nullptr && sink.NeedsPath()) return InvalidArgument("callout_callback_from_sink: path is null");
    return Make(sink, out);
  });
}

callout_status* callout_callback_from_serialized(const char* name, const char* serialized,
                                                 callout_callback** out) noexcept {
  return GuardC(__func__, {{name, "name"}, {serialized, "serialized"}, {out, "out"}},
                [&] { return Make(pjrt::OpaqueCallback(name, serialized), out); });
}

const char* callout_callback_name(const callout_callback* callback) noexcept {
  return callback == nullptr ? "" : callback->callback.name().c_str();
}

void callout_callback_destroy(callout_callback* callback) noexcept { delete callback; }

callout_status* callout_barrier_wait(double timeout_seconds) noexcept {
  return GuardC(__func__, {}, [&] { return pjrt::BarrierWait(internal::ClampTimeout(timeout_seconds)); });
}

using namespace callout;  // for the C functions below, which are outside of the namespace
using callout::internal::GuardC;

namespace {

thread_local callout_binding_scope* t_innermost = nullptr;

}  // namespace

struct callout_binding_scope {
  explicit callout_binding_scope(internal::Bindings bound)
      : bindings(std::move(bound)), scope(bindings), outer(t_innermost) {
    t_innermost = this;
  }
  ~callout_binding_scope() { t_innermost = outer; }

  const internal::Bindings bindings;
  const internal::BindingScope scope;
  callout_binding_scope* const outer;
  internal::CountedHandle counted;
};

callout_status* callout_attach(const void* pjrt_api) noexcept {
  return GuardC(__func__, {{pjrt_api, "pjrt_api"}}, [&] {
    const internal::PjrtApi api(static_cast<const PJRT_Api*>(pjrt_api));
    return internal::AttachTargets(api, "the plugin").status();
  });
}

callout_status* callout_binding_scope_begin(callout_callback* const* callbacks, size_t num_callbacks,
                                            callout_binding_scope** out) noexcept {
  return GuardC(__func__, {{out, "out"}}, [&]() -> Status {
    CALLOUT_ASSIGN_OR_RETURN(const auto bound,
                             internal::ReadCallbacks("callout_binding_scope_begin", callbacks, num_callbacks));
    CALLOUT_ASSIGN_OR_RETURN(internal::Bindings bindings, internal::MakeBindings(bound));
    *out = internal::NewHandle<callout_binding_scope>(std::move(bindings));
    return OkStatus();
  });
}

size_t callout_binding_scope_num_names(const callout_binding_scope* scope) noexcept {
  return scope == nullptr ? 0 : scope->scope.asked().size();
}

const char* callout_binding_scope_name(const callout_binding_scope* scope, size_t index) noexcept {
  return index < callout_binding_scope_num_names(scope) ? scope->scope.asked()[index].c_str() : nullptr;
}

callout_status* callout_binding_scope_end(callout_binding_scope* scope) noexcept {
  return GuardC(__func__, {}, [&]() -> Status {
    if (scope != nullptr && scope != t_innermost) {
      return FailedPrecondition(
          "callout_binding_scope_end: this is not the innermost scope of the thread: scopes end in the reverse order "
          "of "
          "their beginning, on the thread that began them");
    }
    delete scope;
    return OkStatus();
  });
}
