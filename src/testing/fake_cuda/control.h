// SPDX-License-Identifier: Apache-2.0
//
// What FakeCudaControl does, for those who hold the mutex.
#pragma once

#include <string>

#include "testing/fake_cuda/state.h"

namespace callout::fake_cuda {

void SetDevices(State& state, int count);
void AddFailure(State& state, const std::string& function, int nth, CUresult code);

}  // namespace callout::fake_cuda
