// SPDX-License-Identifier: Apache-2.0
//
// The part of callout/c_api.h for hosts that have a PJRT binding of their own.
#include "host/pjrt/attach.h"
#include "callout/pjrt/host_callback.h"
#include "core/callbacks/binding_scope.h"
#include "host/c_api/edge.h"
#include "host/c_api/handles.h"
#include "host/executables/callback_bindings.h"

using namespace callout;  // the functions are C symbols
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
