// SPDX-License-Identifier: Apache-2.0
//
// The catalog of the callbacks that are made from text: every kind of sink, and every kind that a program carries in a
// name. Whoever looks names up (callbacks/) or decodes programs (ffi/) knows makers only.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "callout/export.h"
#include "callout/status.h"
#include "core/callbacks/callback.h"
#include "sinks/sink.h"

namespace callout::internal {

/// Lets programs and hosts have the core's kinds by their names (callbacks/callback.h). Whoever makes a runtime run
/// programs calls it before. Idempotent. Thread-safe.
CALLOUT_EXPORT void RegisterKinds();

/// All kinds of sinks, in the order of their names. Thread-safe.
CALLOUT_EXPORT const std::vector<const SinkKind*>& SinkKinds();

/// Null for another name. Thread-safe.
CALLOUT_EXPORT const SinkKind* FindSinkKind(std::string_view name);

/// The kind that a text asks for which MakeSink reads, if it may come from a host: what stands before the first ',' or
/// ':' is its name. Null for other texts. Thread-safe.
CALLOUT_EXPORT const SinkKind* SinkKindOf(std::string_view text);

/// "kind[,option[=value]...][:main]". A flag without a value is true. In values "%2C" and the like stand for
/// characters; what is behind the ':' is taken as it is. Errors: NotFound for other kinds; as MakeSink of
/// sinks/sink.h. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeSink(const std::string& label, std::string_view text);

/// How hosts write them, for people: "csv:PATH", "null", "print[:FORMAT]", ...
CALLOUT_EXPORT std::vector<std::string> SinkForms();

/// What people call a callback that programs name so and that needs no binding; null for other names. Thread-safe.
CALLOUT_EXPORT const char* ProgramKindOf(std::string_view name);

}  // namespace callout::internal
