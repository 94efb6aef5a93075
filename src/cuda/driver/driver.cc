// SPDX-License-Identifier: Apache-2.0
#include "cuda/driver/driver.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <utility>

#include "core/base/process_state.h"
#include "core/base/thread_annotations.h"

namespace callout::internal::cuda {
namespace {

constexpr int kOldestVersion = 12000;  // the first with cuLibraryLoadData and cuGetProcAddress_v2
constexpr uint64_t kDefaultSearch = 0;

using GetProcAddressFn = CUresult (*)(const char* symbol, void** function, int version, uint64_t flags, int* found);
using DriverGetVersionFn = CUresult (*)(int* version);

std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

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

// Leaked: programs run until the process ends, and their handles point at a driver.
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
  // By its plain symbol, which drivers of every version have.
  const auto get_version = reinterpret_cast<DriverGetVersionFn>(library_.Find("cuDriverGetVersion"));
  if (get_version == nullptr) return FailedPrecondition(at + " is none: it has no cuDriverGetVersion");
  const CUresult result = get_version(&version_);
  if (result != CUDA_SUCCESS) {
    return Unavailable(at + ": cuDriverGetVersion failed with CUDA error " + std::to_string(result));
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

}  // namespace callout::internal::cuda
