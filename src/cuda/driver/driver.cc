// SPDX-License-Identifier: Apache-2.0
//
// Opens drivers, and converts every CUresult to a Status; no other file does.
#include "cuda/driver/driver.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/base/cat.h"
#include "core/base/process_state.h"
#include "core/base/thread_annotations.h"

namespace callout::internal::cuda {
namespace {

constexpr int kOldestVersion = 12000;  // The first version with cuLibraryLoadData and cuGetProcAddress_v2.
constexpr uint64_t kDefaultSearch = 0;

using GetProcAddressFn = CUresult (*)(const char* symbol, void** function, int version, uint64_t flags, int* found);
using DriverGetVersionFn = CUresult (*)(int* version);

std::string VersionText(int version) { return Cat(version / 1000, ".", version % 1000 / 10); }

void* FindFunction(GetProcAddressFn get, const char* symbol, int version) {
  void* function = nullptr;
  int found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const CUresult result = get(symbol, &function, version, kDefaultSearch, &found);
  return result == CUDA_SUCCESS && found == CU_GET_PROC_ADDRESS_SUCCESS ? function : nullptr;
}

struct OpenDrivers {
  Mutex mutex;
  std::map<std::string, std::unique_ptr<const Driver>> by_path CALLOUT_GUARDED_BY(mutex);
};

// Leaked: programs run until the process ends, and their handles point to a driver.
OpenDrivers& Drivers() {
  static auto* const drivers = new OpenDrivers;
  return *drivers;
}

}  // namespace

std::string Driver::DefaultPath() {
  const char* path = std::getenv("CALLOUT_CUDA_DRIVER");
  return path != nullptr && *path != '\0' ? path : "libcuda.so.1";
}

Result<const Driver*> Driver::Get() {
  static const auto* const driver = new Result<const Driver*>([]() -> Result<const Driver*> {
    CALLOUT_ASSIGN_OR_RETURN(const Driver* opened, Open(DefaultPath()));
    CALLOUT_RETURN_IF_ERROR(opened->Initialize());
    return opened;
  }());
  if (driver->ok()) return driver->value();
  return driver->status();
}

Result<const Driver*> Driver::Open(const std::string& path) {
  OpenDrivers& drivers = Drivers();
  const MutexLock lock(drivers.mutex);
  if (const auto found = drivers.by_path.find(path); found != drivers.by_path.end()) return found->second.get();
  CALLOUT_ASSIGN_OR_RETURN(const Driver* driver, Load(path));
  drivers.by_path.emplace(path, driver);
  return driver;
}

Result<const Driver*> Driver::Load(const std::string& path) {
  Result<DynamicLibrary> library = DynamicLibrary::Open(path);
  if (!library.ok()) return NotFound("there is no CUDA driver: " + std::string(library.status().message()));
  std::unique_ptr<Driver> driver(new Driver(std::move(library).value()));
  CALLOUT_RETURN_IF_ERROR(driver->Resolve());
  return driver.release();
}

Status Driver::Resolve() {
  const std::string at = "CUDA driver '" + path() + "'";
  // Uses the plain symbol, which drivers of every version have.
  const auto get_version = reinterpret_cast<DriverGetVersionFn>(library_.Find("cuDriverGetVersion"));
  if (get_version == nullptr) return FailedPrecondition(at + " is none: it has no cuDriverGetVersion");
  const CUresult result = get_version(&version_);
  if (result != CUDA_SUCCESS) {
    return Unavailable(Cat(at, ": cuDriverGetVersion failed with CUDA error ", result));
  }
  const auto get = reinterpret_cast<GetProcAddressFn>(library_.Find("cuGetProcAddress_v2"));
  if (version_ < kOldestVersion || get == nullptr) {
    return FailedPrecondition(at + " is too old: expected CUDA " + VersionText(kOldestVersion) + " or newer, got " +
                              VersionText(version_));
  }
#define CALLOUT_CUDA_FIND(name, version, parameters) \
  name = reinterpret_cast<decltype(name)>(FindFunction(get, "cu" #name, version));
  CALLOUT_CUDA_FUNCTIONS(CALLOUT_CUDA_FIND)
#undef CALLOUT_CUDA_FIND
  std::string missing;
#define CALLOUT_CUDA_REQUIRE(name, version, parameters) \
  if (name == nullptr) missing += missing.empty() ? "cu" #name : ", cu" #name;
  CALLOUT_CUDA_REQUIRED_FUNCTIONS(CALLOUT_CUDA_REQUIRE)
#undef CALLOUT_CUDA_REQUIRE
  if (missing.empty()) return OkStatus();
  return FailedPrecondition(at + " (" + VersionText(version_) + ") lacks " + missing);
}

Status Driver::Initialize() const {
  NoteProcessIsUsed();
  return Check(Init(0), {.function = "cuInit"});
}

namespace {

StatusCode LaterCode(CUresult result) {
  switch (result) {
    case CUDA_ERROR_NOT_READY:
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return StatusCode::kUnavailable;
    case CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES:
      return StatusCode::kResourceExhausted;
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_TIMEOUT:
      return StatusCode::kDeadlineExceeded;
    case CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE:
    case CUDA_ERROR_INVALID_CLUSTER_SIZE:
      return StatusCode::kInvalidArgument;
    case CUDA_ERROR_NOT_PERMITTED:
      return StatusCode::kPermissionDenied;
    case CUDA_ERROR_NOT_SUPPORTED:
      return StatusCode::kUnimplemented;
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE:
      return StatusCode::kFailedPrecondition;
    default:
      // The other codes from 900 to 908 mean that the call is illegal for a stream that is being captured.
      return result >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && result <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
                 ? StatusCode::kFailedPrecondition
                 : StatusCode::kInternal;
  }
}

StatusCode CodeOf(CUresult result) {
  switch (result) {
    case CUDA_ERROR_INVALID_VALUE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_PTX:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_INVALID_HANDLE:
      return StatusCode::kInvalidArgument;
    case CUDA_ERROR_OUT_OF_MEMORY:
      return StatusCode::kResourceExhausted;
    case CUDA_ERROR_NOT_INITIALIZED:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_INVALID_CONTEXT:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_ILLEGAL_STATE:
      return StatusCode::kFailedPrecondition;
    case CUDA_ERROR_STUB_LIBRARY:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_NO_DEVICE:
      return StatusCode::kUnavailable;
    case CUDA_ERROR_NOT_FOUND:
      return StatusCode::kNotFound;
    default:
      return LaterCode(result);
  }
}

}  // namespace

Status Driver::Check(CUresult result, const Attempt& attempt) const {
  if (result == CUDA_SUCCESS) [[likely]]
    return OkStatus();
  std::string text = attempt.function;
  if (!attempt.subject.empty()) text.append(" of ").append(attempt.subject);
  if (attempt.device >= 0) text += Cat(" on device ", attempt.device);
  // A driver cannot name errors that are newer than itself.
  const char* name = nullptr;
  const char* description = nullptr;
  if (GetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) name = "CUDA error";
  if (GetErrorString(result, &description) != CUDA_SUCCESS) description = nullptr;
  text.append(" failed: ").append(name).append(" (").append(std::to_string(result)).append(")");
  if (description != nullptr) text.append(": ").append(description);
  return {CodeOf(result), std::move(text),
          result == CUDA_ERROR_OUT_OF_MEMORY ? StatusKind::kMemory : StatusKind::kGeneral};
}

}  // namespace callout::internal::cuda
