// SPDX-License-Identifier: Apache-2.0
//
// The edge of callout/c_api.h: the objects behind its handles, and the frame of each function, which checks
// arguments, returns Statuses and lets no exception out.
#pragma once

#include <cstddef>
#include <exception>
#include <initializer_list>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "callout/c_api.h"
#include "callout/pjrt/executable.h"
#include "callout/status.h"
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

namespace callout::internal {

// The edge of callout/c_api.h: it checks arguments, returns Statuses and lets no exception out.

/// Null if ok. The caller's to destroy.
callout_status* ToCStatus(const Status& status) noexcept;
callout_status* OutOfMemory() noexcept;

struct Argument {
  const void* pointer;
  const char* name;
};

/// InvalidArgument that names the first null.
Status CheckNotNull(const char* function, std::initializer_list<Argument> arguments);

/// Runs `body`, which returns a Status, unless one of the arguments is null, and hands over its error, or that of
/// whatever it throws.
template <typename Body>
callout_status* GuardC(const char* function, std::initializer_list<Argument> not_null, Body&& body) noexcept {
  try {
    Status status = CheckNotNull(function, not_null);
    if (status.ok()) status = std::forward<Body>(body)();
    return ToCStatus(status);
  } catch (const std::bad_alloc&) {
    return OutOfMemory();
  } catch (const std::exception& e) {
    return ToCStatus(InternalError(std::string("callout: ") + e.what()));
  } catch (...) {
    return ToCStatus(InternalError("callout: something that is not a std::exception was thrown"));
  }
}

/// Copies what the caller knew of `size` bytes at `options` to `known`, a struct of zeros. InvalidArgument if it is
/// smaller than `least`, or has something that is not zero behind what is known here.
Status CopyOptions(const char* function, const void* options, size_t least, size_t known_size, void* known);

/// As CopyOptions. Null is all zeros. A struct that grows says how large it was at first.
template <typename Options>
Result<Options> ReadOptions(const char* function, const Options* options, size_t least = sizeof(Options)) {
  Options known = {};
  if (options != nullptr) CALLOUT_RETURN_IF_ERROR(CopyOptions(function, options, least, sizeof(known), &known));
  return known;
}

/// Forever, as -1, where a clock could not count that far.
double ClampTimeout(double seconds);

}  // namespace callout::internal
