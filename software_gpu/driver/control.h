// SPDX-License-Identifier: Apache-2.0
//
// What SoftwareGpuControl does, for those who hold the mutex.
#pragma once

#include <string>

#include "driver/state.h"

namespace callout::software_gpu {

void SetDevices(State& state, int count);
void AddFailure(State& state, const std::string& function, int nth, CUresult code);

}  // namespace callout::software_gpu
