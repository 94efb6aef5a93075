// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/closure.h"

#include "core/callbacks/native_call.h"

namespace callout::internal {
namespace {

class Closure final : public Callback {
 public:
  Closure(std::string label, const callout_closure& closure) : Callback(std::move(label)), closure_(closure) {}
  ~Closure() override {
    if (closure_.destroy != nullptr) closure_.destroy(closure_.context);
  }

  Worker worker() const override { return Worker::kNative; }
  bool takes_device_memory() const override { return true; }
  Status Call(const callout_call& call) override {
    return CallNative(call,
                      [this](const callout_call* with_error) { return closure_.call(closure_.context, with_error); });
  }
  Status Deliver(const Record& record) override { return Call(AsCall(record)); }

 private:
  const callout_closure closure_;
};

}  // namespace

Result<std::shared_ptr<Callback>> MakeClosure(std::string label, const callout_closure& closure) {
  if (closure.struct_size < sizeof(callout_closure)) {  // the first version; there are no smaller ones
    return InvalidArgument("callout: the closure for '" + label + "' has struct_size " +
                           std::to_string(closure.struct_size) + "; expected at least " +
                           std::to_string(sizeof(callout_closure)) + " (0: it was taken)");
  }
  if (closure.call == nullptr) return InvalidArgument("callout: the closure for '" + label + "' has no function");
  return std::shared_ptr<Callback>(std::make_shared<Closure>(std::move(label), closure));
}

}  // namespace callout::internal
