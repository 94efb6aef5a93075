// SPDX-License-Identifier: Apache-2.0
//
// The double from a test's side.
#pragma once

#include <string>

#include "base/dynamic_library.h"
#include "testing/fake_cuda/fake_cuda.h"

namespace callout::internal {

/// The control of the double that `path` is, or null: then it is a real driver. It stays loaded.
inline const FakeCudaControl* FindFakeCuda(const std::string& path) {
  const Result<DynamicLibrary> library = DynamicLibrary::Open(path);
  if (!library.ok()) return nullptr;
  void* control = library.value().Find("fake_cuda_control");
  return control != nullptr ? reinterpret_cast<FakeCudaControlFn>(control)() : nullptr;
}

}  // namespace callout::internal
