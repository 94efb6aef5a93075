// SPDX-License-Identifier: Apache-2.0
//
// The double from a test's side.
#pragma once

#include <string>

#include "core/base/dynamic_library.h"
#include "software_gpu/driver/software_gpu.h"

namespace callout::internal {

/// The control of the double that `path` is, or null: then it is a real driver. It stays loaded.
inline const SoftwareGpuControl* FindSoftwareGpu(const std::string& path) {
  const Result<DynamicLibrary> library = DynamicLibrary::Open(path);
  if (!library.ok()) return nullptr;
  void* control = library.value().Find("software_gpu_control");
  return control != nullptr ? reinterpret_cast<SoftwareGpuControlFn>(control)() : nullptr;
}

}  // namespace callout::internal
