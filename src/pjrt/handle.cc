// SPDX-License-Identifier: Apache-2.0
#include "callout/pjrt/handle.h"

#include "pjrt/pjrt_abi.h"

namespace callout::pjrt {

using internal::PjrtArgs;

void Destroyer::operator()(PJRT_Buffer* handle) const {
  PjrtArgs<PJRT_Buffer_Destroy_Args> args;
  args.buffer = handle;
  client->plugin().api().Destroy(&PJRT_Api::PJRT_Buffer_Destroy, args);
}

void Destroyer::operator()(PJRT_Event* handle) const {
  PjrtArgs<PJRT_Event_Destroy_Args> args;
  args.event = handle;
  client->plugin().api().Destroy(&PJRT_Api::PJRT_Event_Destroy, args);
}

void Destroyer::operator()(PJRT_LoadedExecutable* handle) const {
  PjrtArgs<PJRT_LoadedExecutable_Destroy_Args> args;
  args.executable = handle;
  client->plugin().api().Destroy(&PJRT_Api::PJRT_LoadedExecutable_Destroy, args);
}

}  // namespace callout::pjrt
