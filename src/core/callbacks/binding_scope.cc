// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/binding_scope.h"

#include <algorithm>
#include <utility>

namespace callout::internal {
namespace {

thread_local BindingScope* t_scope = nullptr;

}  // namespace

BindingScope::BindingScope(const Bindings& bindings, Fallback fallback)
    : bindings_(bindings), fallback_(std::move(fallback)), outer_(t_scope) {
  t_scope = this;
}

BindingScope::~BindingScope() { t_scope = outer_; }

int32_t BindingScope::Device() { return t_scope == nullptr ? -1 : t_scope->device_; }

std::optional<bool> BindingScope::EmbeddedCode() { return t_scope == nullptr ? std::nullopt : t_scope->embedded_code_; }

bool BindingScope::RefusedCodeFailsLate() { return t_scope != nullptr && t_scope->refused_code_fails_late_; }

std::shared_ptr<Callback> BindingScope::Find(std::string_view name) {
  if (t_scope == nullptr) return nullptr;
  std::vector<std::string>& asked = t_scope->asked_;
  if (std::find(asked.begin(), asked.end(), name) == asked.end()) asked.emplace_back(name);
  const auto it = t_scope->bindings_.find(name);
  return it == t_scope->bindings_.end() ? nullptr : it->second;
}

std::shared_ptr<Callback> BindingScope::MakeFallback(std::string_view name) {
  return t_scope != nullptr && t_scope->fallback_ ? t_scope->fallback_(name) : nullptr;
}

bool BindingScope::Has(std::string_view name) {
  return t_scope != nullptr && t_scope->bindings_.find(name) != t_scope->bindings_.end();
}

Status CalledSink(std::string_view name) {
  return FailedPrecondition("callout: '" + std::string(name) +
                            "' is bound to a sink, which takes taps, and the program calls it: expected a function; "
                            "what goes to a sink leaves the program by callout.tap");
}

}  // namespace callout::internal
