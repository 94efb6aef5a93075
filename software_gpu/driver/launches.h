// SPDX-License-Identifier: Apache-2.0
//
// Launches of kernels, from streams and from graphs. All functions require the mutex of State.
#pragma once

#include "driver/graph.h"
#include "driver/state.h"

namespace callout::software_gpu {

/// Checks a launch whose `params` and `attributes` are set, copies its parameters, and sets the other fields. Functions
/// are looked up in `current` where the parameters name a kernel without a context.
CUresult PrepareLaunch(State& state, CUcontext current, KernelWork* kernel);

/// False if the kernel's library was unloaded.
bool IsLaunchable(const State& state, const KernelWork& kernel);

}  // namespace callout::software_gpu
