// SPDX-License-Identifier: Apache-2.0
//
// Kernels of PTX: reads a module's text, places its variables in a context's memory, and launches its kernels there.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "driver/cuda_types.h"
#include "ptx/program.h"

namespace callout::software_gpu {

struct State;

/// A module's code in one context. Immutable.
struct LoadedProgram {
  std::unique_ptr<ptx::Program> program;
  std::map<std::string, CUdeviceptr> variables;
};

/// Loads the code into the context, with fresh variables. Requires the mutex of State. Returns CUDA_ERROR_INVALID_PTX,
/// with the reason on stderr and in `problem`.
CUresult LoadProgram(State& state, CUcontext context, const std::string& text, std::shared_ptr<LoadedProgram>* loaded,
                     std::string* problem);

/// Writes `problem` to the buffer that a load's options give, and its length to the size option (Driver API,
/// CUjit_option).
void WriteErrorLog(std::string_view problem, unsigned int count, const CUjit_option* options, void** values);

/// Runs the kernel in this thread, without the mutex. Reports the failure of a kernel on stderr.
CUresult RunProgram(const LoadedProgram& loaded, const ptx::Kernel& kernel, const ptx::Shape& shape,
                    std::span<const std::byte> parameters, CUcontext context);

}  // namespace callout::software_gpu
