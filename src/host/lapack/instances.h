// SPDX-License-Identifier: Apache-2.0
//
// The four types that LAPACK has.
#pragma once

#include <complex>

/// Makes `function` for each of them.
#define CALLOUT_LAPACK_INSTANCES(function)                     \
  template Status function<float>(const Frame&);               \
  template Status function<double>(const Frame&);              \
  template Status function<std::complex<float>>(const Frame&); \
  template Status function<std::complex<double>>(const Frame&);
