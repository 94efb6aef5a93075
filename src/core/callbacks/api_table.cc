// SPDX-License-Identifier: Apache-2.0
//
// The C table of callout/abi.h.
#include <algorithm>
#include <cstring>

#include "callout/abi.h"
#include "core/base/caught.h"
#include "core/base/core_identity.h"
#include "core/callbacks/native_function.h"
#include "core/callbacks/registry.h"

namespace callout::internal {
namespace {

int32_t Report(const Status& status, char* error, size_t error_size) {
  if (status.ok()) return 0;
  if (error != nullptr && error_size > 0) {
    const size_t n = std::min(status.message().size(), error_size - 1);
    std::memcpy(error, status.message().data(), n);
    error[n] = '\0';
  }
  return static_cast<int32_t>(status.code());
}

Status RegisterStatus(const char* name, const callout_function* function) {
  if (name == nullptr || function == nullptr) return InvalidArgument("register_function: null name or function");
  CALLOUT_RETURN_IF_ERROR(CheckOnlyCore());
  CALLOUT_ASSIGN_OR_RETURN(auto callback, MakeNativeFunction(name, *function));
  return Registry::Get().Register(name, std::move(callback), /*replace=*/false);
}

Status UnregisterStatus(const char* name) {
  if (name == nullptr) return InvalidArgument("unregister: null name");
  return Registry::Get().Unregister(name);
}

int32_t RegisterFunction(const char* name, const callout_function* function, char* error, size_t error_size) noexcept {
  return Report(Guarded(&RegisterStatus, name, function), error, error_size);
}

int32_t Unregister(const char* name, char* error, size_t error_size) noexcept {
  return Report(Guarded(&UnregisterStatus, name), error, error_size);
}

constexpr callout_api kApi = {sizeof(callout_api), CALLOUT_ABI_VERSION, &RegisterFunction, &Unregister};

}  // namespace
}  // namespace callout::internal

const callout_api* callout_get_api(uint32_t abi_version) {
  return abi_version == CALLOUT_ABI_VERSION ? &callout::internal::kApi : nullptr;
}
