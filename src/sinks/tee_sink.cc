// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/base/caught.h"
#include "core/base/ticks.h"
#include "core/callbacks/invoke.h"
#include "sinks/sink.h"
#include "sinks/sinks.h"

namespace callout::internal {
namespace {

class TeeSink final : public Sink {
 public:
  TeeSink(std::string label, std::vector<std::shared_ptr<Callback>> receivers)
      : Sink(std::move(label)), receivers_(std::move(receivers)) {}

  Status Deliver(const Record& record) override {
    // Whoever is not the last gets no blocks: it may not take what others are still to read.
    std::vector<void*> no_blocks(record.buffers.size());
    Record shared = record;
    shared.blocks = no_blocks.data();
    size_t left = receivers_.size();
    return All([&](Callback& receiver) {
      const uint64_t start = Ticks();
      Status status = receiver.Deliver(--left == 0 ? record : shared);
      CallbackStats& stats = receiver.stats();
      stats.host_ticks.fetch_add(Ticks() - start, std::memory_order_relaxed);
      stats.calls.fetch_add(1, std::memory_order_relaxed);
      stats.bytes.fetch_add(TotalBytes(record.buffers), std::memory_order_relaxed);
      return status;
    });
  }

  Status Flush() override {
    return All([](Callback& receiver) { return receiver.Flush(); });
  }

 private:
  // Calls `body` with every receiver, whatever it does with those before. The first error, and how many there were.
  template <typename Body>
  Status All(Body&& body) {
    Status first;
    size_t failed = 0;
    for (const auto& receiver : receivers_) {
      Status status = Guarded(body, *receiver);
      if (status.ok()) continue;
      receiver->stats().errors.fetch_add(1, std::memory_order_relaxed);
      if (failed++ == 0) {
        first = Status(status.code(), "sink '" + receiver->label() + "': " + std::string(status.message()));
      }
    }
    if (failed < 2) return first;
    return Status(first.code(), std::string(first.message()) + " (and " + std::to_string(failed - 1) + " more of the " +
                                    std::to_string(receivers_.size()) + " sinks failed)");
  }

  const std::vector<std::shared_ptr<Callback>> receivers_;
};

}  // namespace

Result<std::shared_ptr<Callback>> MakeTeeSink(std::string label, std::vector<std::shared_ptr<Callback>> receivers) {
  if (receivers.empty()) return InvalidArgument("callout: the tee '" + label + "' has no receivers");
  for (const auto& receiver : receivers) {
    if (receiver->worker() == Worker::kNative) continue;
    return InvalidArgument("callout: the tee '" + label + "' delivers without Python; '" + receiver->label() +
                           "' is a Python function");
  }
  return std::shared_ptr<Callback>(std::make_shared<TeeSink>(std::move(label), std::move(receivers)));
}

}  // namespace callout::internal
