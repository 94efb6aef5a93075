// SPDX-License-Identifier: Apache-2.0
//
// Sinks as arguments of programs: a program receives the sink's handle, and a tap sends the handle before the value. At
// delivery, the handle selects the sink.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "callout/export.h"
#include "callout/status.h"
#include "core/callbacks/callback.h"
#include "core/handles/handle_table.h"

namespace callout::internal {

/// A sink that programs know by a handle. Programs cannot read it.
class CALLOUT_EXPORT SinkObject final : public HostObject {
 public:
  explicit SinkObject(std::shared_ptr<Callback> sink) : sink_(std::move(sink)) {}

  HandleKind kind() const override { return HandleKind::kSink; }

  const std::shared_ptr<Callback>& sink() const { return sink_; }

 private:
  const std::shared_ptr<Callback> sink_;
};

inline constexpr std::string_view kSinkKind = "sink";

/// Makes the callback that a program carries in the name "sink:NAME". It takes taps whose first operand is the handle
/// of a sink, u32[4], and passes the other operands to that sink. Thread-safe.
CALLOUT_EXPORT Result<std::shared_ptr<Callback>> MakeSinkByHandle(const std::string& label, std::string_view payload);

}  // namespace callout::internal
