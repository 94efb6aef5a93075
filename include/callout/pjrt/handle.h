// SPDX-License-Identifier: Apache-2.0
//
// What a plugin made, and its destruction.
#pragma once

#include <memory>

#include "callout/export.h"
#include "callout/pjrt/client.h"

struct PJRT_Buffer;
struct PJRT_Event;
struct PJRT_Executable;
struct PJRT_LoadedExecutable;

namespace callout::pjrt {

/// Keeps the client alive, since its plugin destroys the handle.
struct CALLOUT_EXPORT Destroyer {
  std::shared_ptr<const Client> client;  ///< Whose plugin destroys the handle.

  /// Destroys it.
  void operator()(PJRT_Buffer* handle) const;
  /// Destroys it.
  void operator()(PJRT_Event* handle) const;
  /// Destroys it.
  void operator()(PJRT_Executable* handle) const;
  /// Destroys it.
  void operator()(PJRT_LoadedExecutable* handle) const;
};

/// A handle of the plugin's, destroyed with this.
template <typename T>
using Handle = std::unique_ptr<T, Destroyer>;

/// Takes ownership. Null stays null.
CALLOUT_EXPORT Handle<PJRT_Buffer> Own(std::shared_ptr<const Client> client, PJRT_Buffer* handle);
/// Takes ownership. Null stays null.
CALLOUT_EXPORT Handle<PJRT_Event> Own(std::shared_ptr<const Client> client, PJRT_Event* handle);
/// Takes ownership. Null stays null.
CALLOUT_EXPORT Handle<PJRT_Executable> Own(std::shared_ptr<const Client> client, PJRT_Executable* handle);
/// Takes ownership. Null stays null.
CALLOUT_EXPORT Handle<PJRT_LoadedExecutable> Own(std::shared_ptr<const Client> client, PJRT_LoadedExecutable* handle);

}  // namespace callout::pjrt
