// SPDX-License-Identifier: Apache-2.0
//
// The edge of callout/c_api.h: the objects behind its handles, and the guard around each function, which checks
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

/// Returns a new handle over `parts`, which the caller destroys.
template <typename Handle, typename... Parts>
Handle* NewHandle(Parts&&... parts) {
  return new Handle{std::forward<Parts>(parts)...};
}

/// Reads an array of callbacks. InvalidArgument if one is null.
Result<std::vector<pjrt::LoadedHostCallback>> ReadCallbacks(const char* function, callout_callback* const* callbacks,
                                                            size_t count);

/// Reads options by their names. InvalidArgument for a value that no option can have.
Result<pjrt::Values> ReadValues(const char* function, const callout_option* options, size_t count);

/// Returns the device at `index`; OutOfRange if there is none. Borrowed: valid as long as the client.
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

// The guard around each function: it checks arguments, returns Statuses and lets no exception out.

/// Returns null if ok. The caller destroys the result.
callout_status* ToCStatus(const Status& status) noexcept;
callout_status* OutOfMemory() noexcept;

struct Argument {
  const void* pointer;
  const char* name;
};

/// InvalidArgument that names the first null argument.
Status CheckNotNull(const char* function, std::initializer_list<Argument> arguments);

/// Runs `body`, which returns a Status, unless an argument in `not_null` is null. Returns the error of the check, of
/// `body`, or of an exception that `body` throws.
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

/// Copies the fields that the caller knew, the struct_size bytes at `options`, to `known`, a struct of zeros.
/// InvalidArgument if the struct is smaller than `least`, or has a byte that is not zero behind the known fields.
Status CopyOptions(const char* function, const void* options, size_t least, size_t known_size, void* known);

/// Like CopyOptions, but returns the struct. Null reads as all zeros. `least`: the first size of a struct that has
/// grown since.
template <typename Options>
Result<Options> ReadOptions(const char* function, const Options* options, size_t least = sizeof(Options)) {
  Options known = {};
  if (options != nullptr) CALLOUT_RETURN_IF_ERROR(CopyOptions(function, options, least, sizeof(known), &known));
  return known;
}

/// Returns -1 (no limit) for a time that a clock cannot count.
double ClampTimeout(double seconds);

}  // namespace callout::internal
