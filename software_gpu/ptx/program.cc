// SPDX-License-Identifier: Apache-2.0
//
// Finds the contents of a module by name.
#include "ptx/program.h"

#include <algorithm>

namespace callout::software_gpu::ptx {

const Kernel* Program::FindKernel(std::string_view name) const {
  auto found =
      std::find_if(kernels_.begin(), kernels_.end(), [&](const Kernel& kernel) { return kernel.name == name; });
  return found == kernels_.end() ? nullptr : &*found;
}

const Global* Program::FindGlobal(std::string_view name) const {
  auto found =
      std::find_if(globals_.begin(), globals_.end(), [&](const Global& global) { return global.name == name; });
  return found == globals_.end() ? nullptr : &*found;
}

}  // namespace callout::software_gpu::ptx
