// SPDX-License-Identifier: Apache-2.0
#include "host/transfers/transfer_context.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "core/base/cat.h"
#include "core/base/process_state.h"
#include "core/base/status.h"
#include "core/callbacks/invoke.h"
#include "core/callbacks/run_context.h"

namespace callout::internal {
namespace {

using pjrt::HostTransfer;

constexpr uint64_t kMostBytes = uint64_t{1} << 57;  // no processor has more addresses

uint64_t BytesOf(const HostTransfer& transfer) {
  uint64_t elements = 1;  // cannot overflow: HostTransferCallback has checked the array
  for (const int64_t extent : transfer.dims) elements *= static_cast<uint64_t>(extent);
  return PackedBytes(transfer.dtype, static_cast<int64_t>(elements));
}

callout_buffer BufferOf(const HostTransfer& transfer, std::vector<std::byte>& bytes) {
  return {static_cast<uint32_t>(transfer.dtype), static_cast<uint32_t>(transfer.dims.size()), bytes.data(),
          transfer.dims.data(), bytes.size()};
}

Status WrongSize(const HostTransfer& transfer, const char* what, uint64_t expected, uint64_t got) {
  return InvalidArgument(
      Cat("callout: the ", what, " on channel ", transfer.channel_id, ": expected ", expected, " bytes, got ", got));
}

void DestroyStream(const PjrtApi& api, PJRT_CopyToDeviceStream* stream) {
  PjrtArgs<PJRT_CopyToDeviceStream_Destroy_Args> args;
  args.stream = stream;
  api.Destroy(&PJRT_Api::PJRT_CopyToDeviceStream_Destroy, args);
}

void DestroyEvent(const PjrtApi& api, PJRT_Event* event) {
  PjrtArgs<PJRT_Event_Destroy_Args> args;
  args.event = event;
  api.Destroy(&PJRT_Api::PJRT_Event_Destroy, args);
}

}  // namespace

// A value on its way to the device. The stream must live until the transfer is done.
struct HostTransferContext::Transfer {
  std::shared_ptr<HostTransferContext> context;
  PJRT_CopyToDeviceStream* stream;
  PJRT_Event* done;
};

HostTransferContext::HostTransferContext(const PjrtApi& api, const pjrt::LoadedHostCallback& callback,
                                         int32_t device_ordinal, int64_t run_id)
    : api_(api),
      callback_(callback.callback()),
      transfers_(callback.transfers()),
      device_ordinal_(device_ordinal),
      run_id_(run_id),
      arriving_(transfers_->operands.size()),
      operands_(transfers_->operands.size()),
      results_(transfers_->results.size()),
      waiting_(transfers_->results.size()) {}

HostTransferContext::~HostTransferContext() {
  for (auto& streams : waiting_) {
    for (PJRT_CopyToDeviceStream* stream : streams) DestroyStream(api_, stream);
  }
}

Status HostTransferContext::Send(size_t operand, const void* data, size_t size, size_t total, bool is_last) {
  const std::span<const std::byte> piece(static_cast<const std::byte*>(data), size);
  Status status = Guarded([&] { return Keep(operand, piece, total, is_last); });
  if (status.ok() && !is_last) return status;
  if (status.ok()) status = Guarded([&] { return CallWhenComplete(); });
  if (!status.ok()) Fail(status);
  FeedWaiting();
  return status;
}

Status HostTransferContext::Keep(size_t operand, std::span<const std::byte> piece, uint64_t total, bool is_last) {
  const HostTransfer& transfer = transfers_->operands[operand];
  const uint64_t expected = BytesOf(transfer);
  MutexLock lock(mutex_);
  if (!failure_.ok()) return failure_;
  Bytes& arriving = arriving_[operand];
  const uint64_t arrived = arriving.size() + piece.size();
  if (total != expected) return WrongSize(transfer, "operand", expected, total);
  if (arrived > expected || (is_last && arrived != expected)) {
    return WrongSize(transfer, "operand", expected, arrived);
  }
  arriving.reserve(expected);
  arriving.insert(arriving.end(), piece.begin(), piece.end());
  if (is_last) operands_[operand].push_back(std::exchange(arriving, {}));
  return OkStatus();
}

// Makes one call at a time, so that results have the order of their operands. The thread that is in a call makes the
// next call, too.
Status HostTransferContext::CallWhenComplete() {
  for (;;) {
    std::vector<Bytes> operands, results;
    operands.reserve(transfers_->operands.size());
    {
      MutexLock lock(mutex_);
      const bool complete = std::ranges::none_of(operands_, [](const auto& queue) { return queue.empty(); });
      if (calling_ || !complete) return OkStatus();
      calling_ = true;
      for (auto& queue : operands_) {
        operands.push_back(std::move(queue.front()));
        queue.pop_front();
      }
    }
    Status status = Guarded([&] { return CallOnce(std::move(operands), &results); });
    {
      MutexLock lock(mutex_);
      calling_ = false;
      for (size_t i = 0; status.ok() && i < results_.size(); ++i) results_[i].push_back(std::move(results[i]));
    }
    if (!status.ok()) return status;
    FeedWaiting();
  }
}

Status HostTransferContext::CallOnce(std::vector<Bytes> operands, std::vector<Bytes>* filled) {
  std::vector<callout_buffer> args;
  std::vector<callout_buffer> results;
  filled->resize(transfers_->results.size());
  for (size_t i = 0; i < operands.size(); ++i) args.push_back(BufferOf(transfers_->operands[i], operands[i]));
  for (size_t i = 0; i < filled->size(); ++i) {
    const uint64_t bytes = BytesOf(transfers_->results[i]);
    if (bytes > kMostBytes) return OutOfMemory(bytes, "a callback's result");
    (*filled)[i].resize(bytes);
    results.push_back(BufferOf(transfers_->results[i], (*filled)[i]));
  }
  callout_call call = {};
  call.struct_size = sizeof(call);
  call.num_args = static_cast<uint32_t>(args.size());
  call.num_results = static_cast<uint32_t>(results.size());
  call.args = args.data();
  call.results = results.data();
  const SeenRun run = FindRun(run_id_);
  call.run_id = run.id;
  call.context = run.context;
  call.device_ordinal = device_ordinal_;
  return Invoke(*callback_, call);
}

void HostTransferContext::Receive(size_t result, PJRT_CopyToDeviceStream* stream) {
  Status kept = Guarded([&] {
    MutexLock lock(mutex_);
    waiting_[result].push_back(stream);
    return OkStatus();
  });
  if (!kept.ok()) {
    DestroyStream(api_, stream);
    Fail(std::move(kept));
  }
  FeedWaiting();
}

// Feeds each result's values into its streams, in order. After a failure there are no more values, so the streams are
// destroyed: PJRT's C API offers no other way to report the failure.
void HostTransferContext::FeedWaiting() {
  for (;;) {
    PJRT_CopyToDeviceStream* stream = nullptr;
    Bytes bytes;
    size_t result = 0;
    bool failed = false;
    {
      MutexLock lock(mutex_);
      failed = !failure_.ok();
      while (result < waiting_.size() && (waiting_[result].empty() || (!failed && results_[result].empty()))) ++result;
      if (result == waiting_.size()) return;
      stream = waiting_[result].front();
      waiting_[result].pop_front();
      if (!failed) {
        bytes = std::move(results_[result].front());
        results_[result].pop_front();
      }
    }
    if (failed) {
      DestroyStream(api_, stream);
    } else {
      Feed(result, stream, std::move(bytes));
    }
  }
}

void HostTransferContext::Feed(size_t result, PJRT_CopyToDeviceStream* stream, Bytes bytes) {
  Status status = Guarded([&] { return StartTransfer(result, stream, bytes); });
  if (status.ok()) return;
  DestroyStream(api_, stream);
  Fail(std::move(status));
}

Status HostTransferContext::StartTransfer(size_t result, PJRT_CopyToDeviceStream* stream, Bytes& bytes) {
  PjrtArgs<PJRT_CopyToDeviceStream_TotalBytes_Args> total;
  total.stream = stream;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api_, PJRT_CopyToDeviceStream_TotalBytes, total));
  if (static_cast<uint64_t>(total.total_bytes) != bytes.size()) {
    return WrongSize(transfers_->results[result], "result", static_cast<uint64_t>(total.total_bytes), bytes.size());
  }
  auto transfer = std::make_unique<Transfer>(Transfer{shared_from_this(), stream, nullptr});
  auto owned = std::make_unique<Bytes>(std::move(bytes));
  PJRT_Chunk chunk = {owned->data(), owned->size(), [](void*, void* arg) { delete static_cast<Bytes*>(arg); },
                      owned.get()};
  PjrtArgs<PJRT_CopyToDeviceStream_AddChunk_Args> add;
  add.stream = stream;
  add.chunk = &chunk;
  (void)owned.release();  // owned by the plugin, even if the call fails
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api_, PJRT_CopyToDeviceStream_AddChunk, add));
  transfer->done = add.transfer_complete;
  PjrtArgs<PJRT_Event_OnReady_Args> ready;
  ready.event = add.transfer_complete;
  ready.callback = &TransferIsDone;
  ready.user_arg = transfer.get();
  Status status = CALLOUT_PJRT(api_, PJRT_Event_OnReady, ready);
  if (status.ok()) {
    (void)transfer.release();  // owned by TransferIsDone
  } else {
    DestroyEvent(api_, add.transfer_complete);
  }
  return status;
}

void HostTransferContext::TransferIsDone(PJRT_Error* error, void* user_arg) {
  const PluginThreadScope scope;
  const std::unique_ptr<Transfer> transfer(static_cast<Transfer*>(user_arg));
  HostTransferContext& context = *transfer->context;
  Status status = Guarded([&] { return context.api_.Take(error); });
  DestroyEvent(context.api_, transfer->done);
  DestroyStream(context.api_, transfer->stream);
  if (status.ok()) return;
  context.Fail(std::move(status));
  context.FeedWaiting();
}

void HostTransferContext::Fail(Status status) noexcept {
  MutexLock lock(mutex_);
  if (failure_.ok()) failure_ = std::move(status);
}

}  // namespace callout::internal
