// SPDX-License-Identifier: Apache-2.0
//
// A second library of callbacks. Its function has the same name as one in native_callbacks.cc.
#include "callout/call.h"

namespace {

void Scale(const callout::Call& call) {
  const auto x = call.arg<float>(0);
  const auto y = call.result<float>(0);
  for (int64_t i = 0; i < x.size(); ++i) y[i] = 3 * x[i];
}

}  // namespace

CALLOUT_DEFINE_CALLBACK(scale, Scale);
