// SPDX-License-Identifier: Apache-2.0
//
// Owning handles of a plugin's objects.
#pragma once

#include <memory>

#include "callout/export.h"
#include "callout/pjrt/client.h"

struct PJRT_Buffer;
struct PJRT_Event;
struct PJRT_Executable;
struct PJRT_LoadedExecutable;

namespace callout::pjrt {

/// Destroys a handle, and keeps the client alive until then, because the client's plugin destroys the handle.
struct CALLOUT_EXPORT Destroyer {
  std::shared_ptr<const Client> client;  ///< The client whose plugin destroys the handle.

  /// Destroys `handle`.
  void operator()(PJRT_Buffer* handle) const;
  /// Destroys `handle`.
  void operator()(PJRT_Event* handle) const;
  /// Destroys `handle`.
  void operator()(PJRT_Executable* handle) const;
  /// Destroys `handle`.
  void operator()(PJRT_LoadedExecutable* handle) const;
};

/// An owning handle of a plugin's object.
template <typename T>
using Handle = std::unique_ptr<T, Destroyer>;

/// Wraps `handle`. Takes ownership. Null stays null.
CALLOUT_EXPORT Handle<PJRT_Buffer> Own(std::shared_ptr<const Client> client, PJRT_Buffer* handle);
/// Wraps `handle`. Takes ownership. Null stays null.
CALLOUT_EXPORT Handle<PJRT_Event> Own(std::shared_ptr<const Client> client, PJRT_Event* handle);
/// Wraps `handle`. Takes ownership. Null stays null.
CALLOUT_EXPORT Handle<PJRT_Executable> Own(std::shared_ptr<const Client> client, PJRT_Executable* handle);
/// Wraps `handle`. Takes ownership. Null stays null.
CALLOUT_EXPORT Handle<PJRT_LoadedExecutable> Own(std::shared_ptr<const Client> client, PJRT_LoadedExecutable* handle);

}  // namespace callout::pjrt
