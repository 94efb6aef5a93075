// SPDX-License-Identifier: Apache-2.0
//
// What Delivery says of itself.
#include <algorithm>

#include "core/delivery/delivery.h"

namespace callout::internal {

const char* WorkerName(Worker worker) { return worker == Worker::kPython ? "python" : "native"; }

std::vector<NamedQueueStats> Delivery::QueueStatistics() const {
  std::vector<NamedQueueStats> all;
  for (const auto& [stats, channel] : Channels()) all.push_back(stats);
  if (const Upstream* const source = upstream()) {
    for (const UpstreamStats& above : source->Statistics()) {
      const auto at = std::find_if(all.begin(), all.end(), [&](const NamedQueueStats& queue) {
        return queue.worker == above.worker && queue.device_ordinal == above.device_ordinal;
      });
      // Nothing may have come to its queue yet.
      if (at != all.end()) {
        at->upstream = above;
        continue;
      }
      all.push_back({above.worker, above.device_ordinal, {}, above});
    }
  }
  return all;
}

std::string Delivery::DescribeQueues() const {
  std::string text = "Queues:";
  const auto all = QueueStatistics();
  if (all.empty()) text += " none";
  for (const NamedQueueStats& q : all) {
    text += std::string(&q == all.data() ? " " : "; ") + WorkerName(q.worker) + " device " +
            std::to_string(q.device_ordinal) + ": " + std::to_string(q.stats.records - q.stats.delivered) +
            " records, " + std::to_string(q.stats.pending_bytes) + " of " + std::to_string(q.stats.capacity_bytes) +
            " bytes";
    if (q.upstream.capacity_bytes == 0) continue;
    text += ", " + std::to_string(q.upstream.records) + " more on their way from the device, " +
            std::to_string(q.upstream.bytes) + " of " + std::to_string(q.upstream.capacity_bytes) + " bytes";
  }
  return text;
}

int Delivery::RunningThreads() const {
  const Upstream* const source = upstream();
  int running = source != nullptr ? source->RunningThreads() : 0;
  MutexLock lock(mutex_);
  for (const auto& worker : threads_) {
    for (const auto& thread : worker) running += thread->running() ? 1 : 0;
  }
  return running;
}

}  // namespace callout::internal
