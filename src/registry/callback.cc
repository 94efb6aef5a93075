// SPDX-License-Identifier: Apache-2.0
#include "registry/callback.h"

#include "registry/stats_table.h"

namespace callout::internal {
namespace {

uint64_t NextId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

callout_call AsCall(const Record& record) {
  callout_call call = {};
  call.struct_size = sizeof(call);
  call.num_args = static_cast<uint32_t>(record.buffers.size());
  call.args = record.buffers.data();
  call.run_id = record.run_id;
  call.device_ordinal = record.device_ordinal;
  return call;
}

Callback::Callback(std::string label) : id_(NextId()), label_(std::move(label)), stats_(StatsFor(label_)) {}

Callback::~Callback() = default;

}  // namespace callout::internal
