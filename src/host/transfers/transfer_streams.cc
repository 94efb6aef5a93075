// SPDX-License-Identifier: Apache-2.0
#include "host/transfers/transfer_streams.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "callout/pjrt/event.h"
#include "callout/pjrt/host_transfer.h"
#include "core/base/invariant.h"
#include "core/base/status.h"
#include "core/base/thread_annotations.h"
#include "core/encoding/error_tag.h"
#include "host/transfers/preparation.h"
#include "host/transfers/transfer_context.h"

namespace callout::internal {
namespace {

// A channel of a context. Plugins get its number instead of a pointer: a plugin whose execution failed may still have
// threads that send and receive.
struct Endpoint {
  std::weak_ptr<HostTransferContext> context;
  size_t index;
};

struct Endpoints {
  Mutex mutex;
  uint64_t last CALLOUT_GUARDED_BY(mutex) = 0;
  std::unordered_map<uint64_t, Endpoint> by_number CALLOUT_GUARDED_BY(mutex);
  std::vector<const PjrtApi*> apis CALLOUT_GUARDED_BY(mutex);  // of the plugins: few, and never unloaded
};

constexpr uint64_t kMaxApis = 256;  // a channel's number is its endpoint * kMaxApis + the index of its plugin

Endpoints& GetEndpoints() {
  static Endpoints* const endpoints = new Endpoints;  // leaked: plugins' threads live until the process ends
  return *endpoints;
}

uint64_t Add(const PjrtApi& api, const std::shared_ptr<HostTransferContext>& context, size_t index) {
  Endpoints& endpoints = GetEndpoints();
  MutexLock lock(endpoints.mutex);
  auto it = std::ranges::find(endpoints.apis, &api);
  if (it == endpoints.apis.end()) it = endpoints.apis.insert(it, &api);
  const auto plugin = static_cast<uint64_t>(it - endpoints.apis.begin());
  CALLOUT_CHECK(plugin < kMaxApis, "more plugins than numbers for them");
  const uint64_t number = ++endpoints.last * kMaxApis + plugin;
  endpoints.by_number[number] = {context, index};
  return number;
}

struct Found {
  std::shared_ptr<HostTransferContext> context;  // null: the execution is over
  size_t index;
  const PjrtApi& api;
};

Found Find(void* argument) {
  const uint64_t number = reinterpret_cast<uintptr_t>(argument);
  Endpoints& endpoints = GetEndpoints();
  MutexLock lock(endpoints.mutex);
  const PjrtApi& api = *endpoints.apis.at(number % kMaxApis);
  const auto it = endpoints.by_number.find(number);
  if (it == endpoints.by_number.end()) return {nullptr, 0, api};
  return {it->second.context.lock(), it->second.index, api};
}

void* AsArgument(uint64_t number) { return reinterpret_cast<void*>(static_cast<uintptr_t>(number)); }

Status Send(PJRT_Chunk* chunk, size_t total, bool done, void* number) {
  const Found found = Find(number);
  if (found.context == nullptr)
    return Status(StatusCode::kCancelled, "callout: the execution that this was sent by is over");
  return found.context->Send(found.index, chunk->data, chunk->size, total, done);
}

PJRT_Error* OnSend(PJRT_Chunk* chunk, PJRT_CallbackError* callback_error, size_t total, bool done, void* number) {
  const Status status = Guarded(&Send, chunk, total, done, number);
  if (chunk->deleter != nullptr) chunk->deleter(chunk->data, chunk->deleter_arg);
  if (status.ok()) return nullptr;
  const std::string text = TaggedMessage(status);
  return (*callback_error)(static_cast<PJRT_Error_Code>(status.code()), text.data(), text.size());
}

void OnRecv(PJRT_CopyToDeviceStream* stream, void* number) {
  const Found found = Find(number);
  if (found.context != nullptr) {
    found.context->Receive(found.index, stream);
    return;
  }
  PjrtArgs<PJRT_CopyToDeviceStream_Destroy_Args> args;
  args.stream = stream;
  found.api.Destroy(&PJRT_Api::PJRT_CopyToDeviceStream_Destroy, args);
}

}  // namespace

HostTransferRun::HostTransferRun(const PjrtApi& api, std::span<const pjrt::LoadedHostCallback> callbacks,
                                 std::span<const int32_t> ordinals, int64_t run_id) {
  for (const int32_t ordinal : ordinals) {
    std::vector<PJRT_SendCallbackInfo>& sends = sends_.emplace_back();
    std::vector<PJRT_RecvCallbackInfo>& recvs = recvs_.emplace_back();
    for (const pjrt::LoadedHostCallback& callback : callbacks) {
      if (callback.transfers() == nullptr) continue;
      const auto& context =
          contexts_.emplace_back(std::make_shared<HostTransferContext>(api, callback, ordinal, run_id));
      const auto& [operands, results] = *callback.transfers();
      for (size_t i = 0; i < operands.size(); ++i) {
        endpoints_.push_back(Add(api, context, i));
        sends.push_back({operands[i].channel_id, AsArgument(endpoints_.back()), &OnSend});
      }
      for (size_t i = 0; i < results.size(); ++i) {
        endpoints_.push_back(Add(api, context, i));
        recvs.push_back({results[i].channel_id, AsArgument(endpoints_.back()), &OnRecv});
      }
    }
  }
  for (auto& sends : sends_) send_lists_.push_back(sends.data());
  for (auto& recvs : recvs_) recv_lists_.push_back(recvs.data());
}

HostTransferRun::~HostTransferRun() {
  Endpoints& endpoints = GetEndpoints();
  MutexLock lock(endpoints.mutex);
  for (const uint64_t number : endpoints_) endpoints.by_number.erase(number);
}

void HostTransferRun::AddTo(PJRT_ExecuteOptions& options) {
  options.send_callbacks = send_lists_.data();
  options.recv_callbacks = recv_lists_.data();
  options.num_send_ops = sends_.empty() ? 0 : sends_.front().size();
  options.num_recv_ops = recvs_.empty() ? 0 : recvs_.front().size();
}

Status KeepUntilDone(const std::shared_ptr<void>& run, std::span<pjrt::Event> done) {
  if (run == nullptr) return OkStatus();
  for (pjrt::Event& event : done) CALLOUT_RETURN_IF_ERROR(event.OnReady([run](const Status&) {}));
  return OkStatus();
}

Result<std::shared_ptr<const HostTransferProgram>> HostTransferProgram::Make(
    const pjrt::Client& client, PJRT_LoadedExecutable* executable,
    std::span<const pjrt::LoadedHostCallback> callbacks) {
  std::vector<pjrt::LoadedHostCallback> with_channels;
  for (const pjrt::LoadedHostCallback& callback : callbacks) {
    if (callback.transfers() != nullptr) with_channels.push_back(callback);
  }
  std::shared_ptr<HostTransferProgram> program;
  if (with_channels.empty() || NeedsHostCalls(client.platform())) {
    return std::shared_ptr<const HostTransferProgram>(std::move(program));
  }
  program.reset(new HostTransferProgram(client.plugin().api(), std::move(with_channels)));
  PjrtArgs<PJRT_LoadedExecutable_AddressableDevices_Args> devices;
  devices.executable = executable;
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(program->api_, PJRT_LoadedExecutable_AddressableDevices, devices));
  for (size_t i = 0; i < devices.num_addressable_devices; ++i) {
    const auto device = std::ranges::find(client.devices(), devices.addressable_devices[i], &pjrt::Device::handle);
    program->ordinals_.push_back(device == client.devices().end() ? -1 : device->ordinal);
  }
  return std::shared_ptr<const HostTransferProgram>(std::move(program));
}

std::shared_ptr<HostTransferRun> HostTransferProgram::Run(PJRT_ExecuteOptions& options) const {
  auto run = std::make_shared<HostTransferRun>(api_, callbacks_, ordinals_, options.launch_id);
  run->AddTo(options);
  return run;
}

}  // namespace callout::internal
