// SPDX-License-Identifier: Apache-2.0
//
// Kernels of PTX: a module's text read, its variables in a context's memory, and its launches there.
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

/// The code in the context, with fresh variables. With the mutex of State held. CUDA_ERROR_INVALID_PTX with the text of
/// what was wrong on stderr and in `problem`.
CUresult LoadProgram(State& state, CUcontext context, const std::string& text, std::shared_ptr<LoadedProgram>* loaded,
                     std::string* problem);

/// Puts what was wrong, or nothing, where a load's options ask for it, and how much that is (Driver API, CUjit_option).
void WriteErrorLog(std::string_view problem, unsigned int count, const CUjit_option* options, void** values);

/// Runs the kernel in this thread, without the mutex. Says on stderr what a failing one did.
CUresult RunProgram(const LoadedProgram& loaded, const ptx::Kernel& kernel, const ptx::Shape& shape,
                    std::span<const std::byte> parameters, CUcontext context);

}  // namespace callout::software_gpu
