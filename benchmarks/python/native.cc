// SPDX-License-Identifier: Apache-2.0
// Defines the identity as a native callback of Callout.
#include <algorithm>

#include "callout/call.h"

namespace {

void Copy(const callout::Call& call) {
  const auto x = call.arg<float>(0);
  std::copy(x.begin(), x.end(), call.result<float>(0).begin());
}

}  // namespace

CALLOUT_DEFINE_CALLBACK(copy, Copy);
