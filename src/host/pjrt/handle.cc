// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/handle.h"

#include <utility>

#include "core/base/live_count.h"
#include "host/pjrt/loans.h"
#include "host/pjrt/pjrt_abi.h"

namespace callout::pjrt {
namespace {

using internal::LiveKind;
using internal::PjrtArgs;

template <typename T>
Handle<T> Count(LiveKind kind, std::shared_ptr<const Client> client, T* handle) {
  if (handle != nullptr) internal::LiveCounter(kind).fetch_add(1, std::memory_order_relaxed);
  return Handle<T>(handle, {std::move(client)});
}

template <typename Args>
void Destroy(LiveKind kind, const Client& client, PJRT_Error* (*PJRT_Api::*function)(Args*), PjrtArgs<Args>& args) {
  client.plugin().api().Destroy(function, args);
  internal::LiveCounter(kind).fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace

Handle<PJRT_Buffer> Own(std::shared_ptr<const Client> client, PJRT_Buffer* handle) {
  return Count(LiveKind::kPjrtBuffer, std::move(client), handle);
}

Handle<PJRT_Event> Own(std::shared_ptr<const Client> client, PJRT_Event* handle) {
  return Count(LiveKind::kPjrtEvent, std::move(client), handle);
}

Handle<PJRT_Executable> Own(std::shared_ptr<const Client> client, PJRT_Executable* handle) {
  return Count(LiveKind::kPjrtExecutable, std::move(client), handle);
}

Handle<PJRT_LoadedExecutable> Own(std::shared_ptr<const Client> client, PJRT_LoadedExecutable* handle) {
  return Count(LiveKind::kPjrtExecutable, std::move(client), handle);
}

void Destroyer::operator()(PJRT_Buffer* handle) const {
  if (internal::LeaveToBorrowers(handle)) return;
  PjrtArgs<PJRT_Buffer_Destroy_Args> args;
  args.buffer = handle;
  Destroy(LiveKind::kPjrtBuffer, *client, &PJRT_Api::PJRT_Buffer_Destroy, args);
}

void Destroyer::operator()(PJRT_Event* handle) const {
  PjrtArgs<PJRT_Event_Destroy_Args> args;
  args.event = handle;
  Destroy(LiveKind::kPjrtEvent, *client, &PJRT_Api::PJRT_Event_Destroy, args);
}

void Destroyer::operator()(PJRT_Executable* handle) const {
  PjrtArgs<PJRT_Executable_Destroy_Args> args;
  args.executable = handle;
  Destroy(LiveKind::kPjrtExecutable, *client, &PJRT_Api::PJRT_Executable_Destroy, args);
}

void Destroyer::operator()(PJRT_LoadedExecutable* handle) const {
  PjrtArgs<PJRT_LoadedExecutable_Destroy_Args> args;
  args.executable = handle;
  Destroy(LiveKind::kPjrtExecutable, *client, &PJRT_Api::PJRT_LoadedExecutable_Destroy, args);
}

}  // namespace callout::pjrt
