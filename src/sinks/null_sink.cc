// SPDX-License-Identifier: Apache-2.0
#include "sinks/sink.h"
#include "sinks/sinks.h"

namespace callout::internal {
namespace {

class NullSink final : public Sink {
 public:
  using Sink::Sink;
  Status Deliver(const Record& /*record*/) override { return OkStatus(); }
};

}  // namespace

std::shared_ptr<Callback> MakeNullSink(std::string label) { return std::make_shared<NullSink>(std::move(label)); }

}  // namespace callout::internal
