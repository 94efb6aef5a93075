// SPDX-License-Identifier: Apache-2.0
//
// One callback on one device, during one execution. It collects operands until the callback can be called, and hands
// out the results in the order of the requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "callout/pjrt/host_transfer.h"
#include "callout/status.h"
#include "core/base/thread_annotations.h"
#include "core/callbacks/callback.h"
#include "host/pjrt/pjrt_abi.h"

namespace callout::internal {

/// Thread-safe. Operands and results are numbered in ascending order of their channels.
class HostTransferContext : public std::enable_shared_from_this<HostTransferContext> {
 public:
  HostTransferContext(const PjrtApi& api, const pjrt::LoadedHostCallback& callback, int32_t device_ordinal,
                      int64_t run_id);
  /// Gives up the streams for which no value has come.
  ~HostTransferContext();
  HostTransferContext(const HostTransferContext&) = delete;
  HostTransferContext& operator=(const HostTransferContext&) = delete;

  /// Takes the next piece of an operand of `total` bytes. The last piece of the last operand calls the callback, on
  /// this thread. Returns the callback's error, and returns it again for all later pieces.
  Status Send(size_t operand, const void* data, size_t size, size_t total, bool is_last);

  /// Takes ownership of `stream`. Fills it with the result's next value as soon as there is one.
  void Receive(size_t result, PJRT_CopyToDeviceStream* stream);

 private:
  using Bytes = std::vector<std::byte>;
  struct Transfer;

  Status Keep(size_t operand, std::span<const std::byte> piece, uint64_t total, bool is_last);
  Status CallWhenComplete();
  Status CallOnce(std::vector<Bytes> operands, std::vector<Bytes>* filled);
  void FeedWaiting();
  void Feed(size_t result, PJRT_CopyToDeviceStream* stream, Bytes bytes);
  Status StartTransfer(size_t result, PJRT_CopyToDeviceStream* stream, Bytes& bytes);
  void Fail(Status status) noexcept;
  static void TransferIsDone(PJRT_Error* error, void* user_arg);

  const PjrtApi& api_;
  const std::shared_ptr<Callback> callback_;
  const std::shared_ptr<const pjrt::HostTransfers> transfers_;
  const int32_t device_ordinal_;
  const int64_t run_id_;

  Mutex mutex_;
  bool calling_ CALLOUT_GUARDED_BY(mutex_) = false;
  Status failure_ CALLOUT_GUARDED_BY(mutex_);  // the first failure
  std::vector<Bytes> arriving_ CALLOUT_GUARDED_BY(mutex_);
  std::vector<std::deque<Bytes>> operands_ CALLOUT_GUARDED_BY(mutex_);
  std::vector<std::deque<Bytes>> results_ CALLOUT_GUARDED_BY(mutex_);
  std::vector<std::deque<PJRT_CopyToDeviceStream*>> waiting_ CALLOUT_GUARDED_BY(mutex_);
};

}  // namespace callout::internal
