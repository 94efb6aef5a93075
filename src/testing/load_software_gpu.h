// SPDX-License-Identifier: Apache-2.0
//
// Finds the software GPU's controls, for tests.
#pragma once

#include <string>

#include "core/base/dynamic_library.h"
#include "software_gpu/driver/software_gpu.h"

namespace callout::internal {

/// Returns the controls of the software GPU at `path`, or null if that is a real driver. The library stays loaded.
inline const SoftwareGpuControl* FindSoftwareGpu(const std::string& path) {
  const Result<DynamicLibrary> library = DynamicLibrary::Open(path);
  if (!library.ok()) return nullptr;
  void* control = library.value().Find("software_gpu_control");
  return control != nullptr ? reinterpret_cast<SoftwareGpuControlFn>(control)() : nullptr;
}

}  // namespace callout::internal
