// SPDX-License-Identifier: Apache-2.0
//
// What is behind the handles of callout/c_api.h.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "callout/c_api.h"
#include "callout/pjrt/executable.h"
#include "core/base/live_count.h"

namespace callout::internal {

using CountedHandle = Counted<LiveKind::kHandle>;

/// A handle over `parts`, for the caller to destroy.
template <typename Handle, typename... Parts>
Handle* NewHandle(Parts&&... parts) {
  return new Handle{std::forward<Parts>(parts)...};
}

/// InvalidArgument if one is null.
Result<std::vector<pjrt::LoadedHostCallback>> ReadCallbacks(const char* function, callout_callback* const* callbacks,
                                                            size_t count);

/// Reads options by their names. InvalidArgument for what is no option.
Result<pjrt::Values> ReadValues(const char* function, const callout_option* options, size_t count);

/// OutOfRange if there is none. Borrowed: valid as long as the client.
Result<const pjrt::Device*> FindDevice(const char* function, const pjrt::Client& client, size_t index);

}  // namespace callout::internal

struct callout_callback {
  callout::pjrt::LoadedHostCallback callback;
  callout::internal::CountedHandle counted = {};
};

struct callout_plugin {
  std::shared_ptr<const callout::pjrt::Plugin> plugin;
  callout::internal::CountedHandle counted = {};
};

struct callout_client {
  std::shared_ptr<const callout::pjrt::Client> client;
  callout::internal::CountedHandle counted = {};
};

struct callout_program {
  callout::pjrt::Program program;
  callout::internal::CountedHandle counted = {};
};

struct callout_executable {
  std::shared_ptr<const callout::pjrt::Client> client;
  callout::pjrt::LoadedExecutable executable;
  callout::internal::CountedHandle counted = {};
};

struct callout_bytes {
  std::string bytes;
  callout::internal::CountedHandle counted = {};
};

struct callout_array {
  std::shared_ptr<const callout::pjrt::Client> client;
  callout::pjrt::Buffer buffer;
  callout::internal::CountedHandle counted = {};
};

struct callout_execution {
  std::shared_ptr<const callout::pjrt::Client> client;
  callout::pjrt::Execution execution;
  callout::internal::CountedHandle counted = {};
};
