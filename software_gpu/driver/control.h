// SPDX-License-Identifier: Apache-2.0
//
// The parts of SoftwareGpuControl that require the mutex of State.
#pragma once

#include <string>
#include <vector>

#include "driver/state.h"

namespace callout::software_gpu {

/// Makes one context for each device. `numbers`: the devices' numbers on the machine.
void SetDevices(State& state, const std::vector<int>& numbers);
void AddFailure(State& state, const std::string& function, int nth, CUresult code);

}  // namespace callout::software_gpu
