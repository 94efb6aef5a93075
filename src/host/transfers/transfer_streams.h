// SPDX-License-Identifier: Apache-2.0
//
// Callbacks with channels on platforms that have send and receive ops. Each execution gives the plugin functions for
// all channels of all devices. The plugin calls them on its own threads: with pieces of the values that the program
// sends, and with streams for the values that the program receives.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "callout/pjrt/client.h"
#include "callout/pjrt/event.h"
#include "callout/pjrt/host_callback.h"
#include "callout/status.h"
#include "host/pjrt/pjrt_abi.h"

namespace callout::internal {

class HostTransferContext;

/// The transfers of one execution. The plugin may call its functions after the execution: they then fail.
class HostTransferRun {
 public:
  /// `ordinals`: of the devices on which the program runs. `api` is never destroyed.
  HostTransferRun(const PjrtApi& api, std::span<const pjrt::LoadedHostCallback> callbacks,
                  std::span<const int32_t> ordinals, int64_t run_id);
  ~HostTransferRun();
  HostTransferRun(const HostTransferRun&) = delete;
  HostTransferRun& operator=(const HostTransferRun&) = delete;

  /// Borrowed: `options` is valid as long as this object.
  void AddTo(PJRT_ExecuteOptions& options);

 private:
  std::vector<std::shared_ptr<HostTransferContext>> contexts_;  // of all devices' callbacks
  std::vector<uint64_t> endpoints_;
  std::vector<std::vector<PJRT_SendCallbackInfo>> sends_;  // of each device
  std::vector<std::vector<PJRT_RecvCallbackInfo>> recvs_;
  std::vector<PJRT_SendCallbackInfo*> send_lists_;
  std::vector<PJRT_RecvCallbackInfo*> recv_lists_;
};

/// Keeps `run`, which may be null, alive until all devices are done.
Status KeepUntilDone(const std::shared_ptr<void>& run, std::span<pjrt::Event> done);

/// The callbacks with channels of a compiled program, and the devices on which it runs. Thread-safe.
class HostTransferProgram {
 public:
  /// Returns null if runs need no transfers: there are no such callbacks, or the platform calls them instead.
  static Result<std::shared_ptr<const HostTransferProgram>> Make(const pjrt::Client& client,
                                                                 PJRT_LoadedExecutable* executable,
                                                                 std::span<const pjrt::LoadedHostCallback> callbacks);

  /// Prepares a run and adds it to `options`, which are then valid as long as the result.
  std::shared_ptr<HostTransferRun> Run(PJRT_ExecuteOptions& options) const;

 private:
  HostTransferProgram(const PjrtApi& api, std::vector<pjrt::LoadedHostCallback> callbacks)
      : api_(api), callbacks_(std::move(callbacks)) {}

  const PjrtApi& api_;
  const std::vector<pjrt::LoadedHostCallback> callbacks_;
  std::vector<int32_t> ordinals_;
};

}  // namespace callout::internal
