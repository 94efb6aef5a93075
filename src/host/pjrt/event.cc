// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/event.h"

#include <condition_variable>
#include <utility>

#include "core/base/process_state.h"
#include "core/base/thread_annotations.h"
#include "host/pjrt/pjrt_abi.h"

namespace callout::pjrt {
namespace {

using internal::Mutex;
using internal::MutexLock;
using internal::PjrtArgs;

// Shared by a timed wait and the plugin's thread, either of which may be the last to let go.
struct Outcome {
  Mutex mutex;
  std::condition_variable_any changed;
  bool happened CALLOUT_GUARDED_BY(mutex) = false;
};

struct Listener {
  std::function<void(Status)> callback;
  const internal::PjrtApi* api;
};

void Notify(PJRT_Error* error, void* user_arg) {
  const internal::PluginThreadScope scope;  // the listener may hold the last reference to the client
  const std::unique_ptr<Listener> listener(static_cast<Listener*>(user_arg));
  listener->callback(listener->api->Take(error));
}

}  // namespace

Event::Event(std::shared_ptr<const Client> client, PJRT_Event* handle) : handle_(Own(std::move(client), handle)) {}

const internal::PjrtApi& Event::api() const { return handle_.get_deleter().client->plugin().api(); }

Status Event::Wait() {
  if (handle_ == nullptr) return OkStatus();
  PjrtArgs<PJRT_Event_Await_Args> args;
  args.event = handle_.get();
  return CALLOUT_PJRT(api(), PJRT_Event_Await, args);
}

Status Event::WaitFor(std::chrono::nanoseconds timeout) {
  if (handle_ == nullptr) return OkStatus();
  using Clock = std::chrono::steady_clock;
  const Clock::time_point now = Clock::now();
  // A time that the clock cannot count means no limit.
  const Clock::time_point deadline =
      timeout > Clock::time_point::max() - now ? Clock::time_point::max() : now + timeout;
  const auto outcome = std::make_shared<Outcome>();
  CALLOUT_RETURN_IF_ERROR(OnReady([outcome](const Status&) {
    MutexLock lock(outcome->mutex);
    outcome->happened = true;
    outcome->changed.notify_all();
  }));
  {
    MutexLock lock(outcome->mutex);
    while (!outcome->happened) {
      if (deadline == Clock::time_point::max()) {
        outcome->changed.wait(outcome->mutex);
      } else if (outcome->changed.wait_until(outcome->mutex, deadline) == std::cv_status::timeout &&
                 !outcome->happened) {
        return Status(StatusCode::kDeadlineExceeded, "callout: the event has not happened in time");
      }
    }
  }
  return Wait();
}

Result<bool> Event::IsReady() const {
  if (handle_ == nullptr) return true;
  PjrtArgs<PJRT_Event_IsReady_Args> args;
  args.event = handle_.get();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api(), PJRT_Event_IsReady, args));
  return args.is_ready;
}

Status Event::OnReady(std::function<void(Status)> callback) {
  if (handle_ == nullptr) {
    callback(OkStatus());
    return OkStatus();
  }
  auto listener = std::make_unique<Listener>(Listener{std::move(callback), &api()});
  PjrtArgs<PJRT_Event_OnReady_Args> args;
  args.event = handle_.get();
  args.callback = &Notify;
  args.user_arg = listener.get();
  CALLOUT_RETURN_IF_ERROR(CALLOUT_PJRT(api(), PJRT_Event_OnReady, args));
  (void)listener.release();  // owned by Notify
  return OkStatus();
}

}  // namespace callout::pjrt
