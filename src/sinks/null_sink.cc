// SPDX-License-Identifier: Apache-2.0
#include "sinks/sinks.h"

namespace callout::internal {
namespace {

class NullSink final : public Callback {
 public:
  using Callback::Callback;
  Lane lane() const override { return Lane::kNative; }
  Status Call(const callout_call& /*call*/) override { return OkStatus(); }
  Status Deliver(const Record& /*record*/) override { return OkStatus(); }
};

}  // namespace

std::shared_ptr<Callback> MakeNullSink(std::string label) { return std::make_shared<NullSink>(std::move(label)); }

}  // namespace callout::internal
