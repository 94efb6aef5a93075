// SPDX-License-Identifier: Apache-2.0
//
// The catalog of all callbacks that are made from text: the kinds of sinks, and the kinds that a program carries in a
// name. The rest of the core looks up names (callbacks/) and decodes programs (ffi/) through registered makers, and
// does not depend on this catalog.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/attributes/attribute_rows.h"
#include "core/callbacks/callback.h"
#include "sinks/sink.h"

namespace callout::internal {

/// Registers all kinds by name (callbacks/callback.h), for programs and hosts. Must be called before a runtime runs
/// programs. Idempotent. Thread-safe.
CALLOUT_EXPORT void RegisterKinds();

/// Returns all kinds of sinks, sorted by name. Thread-safe.
CALLOUT_EXPORT const std::vector<const SinkKind*>& SinkKinds();

/// Returns null for an unknown name. Thread-safe.
CALLOUT_EXPORT const SinkKind* FindSinkKind(std::string_view name);

/// Returns the kind that a text in MakeSink's format names before the first ',' or ':', if hosts may use the kind.
/// Returns null for other texts. Thread-safe.
CALLOUT_EXPORT const SinkKind* SinkKindOf(std::string_view text);

/// Makes a sink from "kind[,option[=value]...][:main]". A flag without a value is true. Values escape characters as
/// "%2C"; the text after ':' is taken literally. Errors: NotFound for an unknown kind; those of MakeSink in
/// sinks/sink.h. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeSink(const std::string& label, std::string_view text);

/// Returns the forms in which hosts write sinks, for people: "csv:PATH", "null", "print[:FORMAT]", ...
CALLOUT_EXPORT std::vector<std::string> SinkForms();

/// A kind of callback that a program carries in the name "kind:payload".
struct ProgramKind {
  std::string_view kind;
  const char* description;
  /// Describes the payload (attributes/payload.h). Empty if the payload has no table.
  std::span<const AttributeDescription> fields;
  /// Must accept any payload: programs may come from anywhere.
  Result<std::shared_ptr<Callback>> (*make)(const std::string& label, std::string_view payload);
};

/// Returns all kinds that programs carry, sorted by name. Thread-safe.
CALLOUT_EXPORT std::span<const ProgramKind> ProgramKinds();

/// Returns a description, for people, of the callback that a program carries in `name` and that needs no binding.
/// Returns null for other names. Thread-safe.
CALLOUT_EXPORT const char* ProgramKindOf(std::string_view name);

}  // namespace callout::internal
