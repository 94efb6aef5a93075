// SPDX-License-Identifier: Apache-2.0
//
// What SoftwareGpuControl does, for those who hold the mutex.
#pragma once

#include <string>
#include <vector>

#include "driver/state.h"

namespace callout::software_gpu {

/// One context a device; `numbers` are those that the machine has for them.
void SetDevices(State& state, const std::vector<int>& numbers);
void AddFailure(State& state, const std::string& function, int nth, CUresult code);

}  // namespace callout::software_gpu
