// SPDX-License-Identifier: Apache-2.0
//
// A library of callbacks like a user's: it includes callout/call.h and links nothing.
#include <stdexcept>

#include "callout/call.h"

namespace {

void Scale(const callout::Call& call) {
  const auto x = call.arg<float>(0);
  const auto y = call.result<float>(0);
  for (int64_t i = 0; i < x.size(); ++i) y[i] = 2 * x[i];
}

void Refuse(const callout::Call& /*call*/) { throw std::runtime_error("refused from afar"); }

}  // namespace

CALLOUT_DEFINE_CALLBACK(scale, Scale);
CALLOUT_DEFINE_CALLBACK(refuse, Refuse);

extern "C" __attribute__((visibility("default"))) int32_t sum_plain(void** ptrs, const int64_t* dims) {
  const auto* x = static_cast<const double*>(ptrs[0]);
  double sum = 0;
  for (int64_t i = 0; i < dims[0]; ++i) sum += x[i];
  *static_cast<double*>(ptrs[1]) = sum;
  return 0;
}

extern "C" __attribute__((visibility("default"))) const callout_function old_callout_record;
const callout_function old_callout_record = {
    sizeof(callout_function), CALLOUT_ABI_VERSION + 1, CALLOUT_FUNCTION_CALL, nullptr, nullptr, 0, 0};
