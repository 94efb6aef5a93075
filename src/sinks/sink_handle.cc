// SPDX-License-Identifier: Apache-2.0
#include "sinks/sink_handle.h"

#include <span>
#include <utility>

#include "callout/dtype.h"
#include "core/base/cat.h"
#include "core/frame/buffer.h"
#include "sinks/sink.h"

namespace callout::internal {
namespace {

class SinkByHandle final : public Sink, private Router {
 public:
  using Sink::Sink;

  Router* router() override { return this; }
  // For callers that do not use the router: JAX's own callbacks.
  Status Deliver(const Record& record) override {
    CALLOUT_ASSIGN_OR_RETURN(const std::shared_ptr<Callback> sink, Find(record.buffers));
    const SiteInfo site = record.site->BehindFirst();
    Record rest = record.BehindFirst();
    rest.site = &site;
    CALLOUT_RETURN_IF_ERROR(sink->Deliver(rest));
    return sink->Flush();
  }

 private:
  Result<std::shared_ptr<Callback>> Find(std::span<const callout_buffer> buffers) override {
    if (buffers.empty())
      return InvalidArgument("expected the handle of one sink, u32[4], before the value, got nothing");
    const callout_buffer& handle = buffers.front();
    const bool is_handle = handle.dtype == static_cast<uint32_t>(DType::kUint32) && handle.size_bytes == sizeof(Handle);
    if (!is_handle || handle.rank != 1) {
      return InvalidArgument(
          Cat("expected the handle of one sink, u32[4], before the value, got ", ShapeString(handle)));
    }
    const Handle words = Handle::Of(handle.data);
    const HandleTable::Found found = HandleTable::Get().Find(words, HandleKind::kSink);
    if (!found) return HandleTable::Get().WhyNotFound(words, HandleKind::kSink);
    return static_cast<const SinkObject&>(*found).sink();
  }
};

}  // namespace

Result<std::shared_ptr<Callback>> MakeSinkByHandle(const std::string&, std::string_view payload) {
  return std::shared_ptr<Callback>(std::make_shared<SinkByHandle>(std::string(payload)));
}

}  // namespace callout::internal
