// SPDX-License-Identifier: Apache-2.0
#include "sinks/each_sink_kind.h"
#include "sinks/sink.h"

namespace callout::internal {
namespace {

class NullSink final : public Sink {
 public:
  using Sink::Sink;
  Status Deliver(const Record& /*record*/) override { return OkStatus(); }
};

Result<std::shared_ptr<Callback>> MakeNull(const std::string& label, const SinkOptions& /*options*/) {
  return std::shared_ptr<Callback>(std::make_shared<NullSink>(label));
}

}  // namespace

const SinkKind& NullKind() {
  static constexpr SinkKind kKind = {
      .name = "null", .options = {}, .has_main = false, .is_for_hosts = true, .make = &MakeNull};
  return kKind;
}

}  // namespace callout::internal
