// SPDX-License-Identifier: Apache-2.0
//
// What a plugin made, and its destruction.
#pragma once

#include <memory>

#include "callout/export.h"
#include "callout/pjrt/client.h"

struct PJRT_Buffer;
struct PJRT_Event;
struct PJRT_LoadedExecutable;

namespace callout::pjrt {

/// Keeps the client alive, since its plugin destroys the handle.
struct CALLOUT_EXPORT Destroyer {
  std::shared_ptr<const Client> client;

  void operator()(PJRT_Buffer* handle) const;
  void operator()(PJRT_Event* handle) const;
  void operator()(PJRT_LoadedExecutable* handle) const;
};

template <typename T>
using Handle = std::unique_ptr<T, Destroyer>;

}  // namespace callout::pjrt
