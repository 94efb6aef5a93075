// SPDX-License-Identifier: Apache-2.0
//
// The measured function in a library of its own.
#include "host/copy.h"

CALLOUT_DEFINE_CALLBACK(bench_copy, callout::bench::CopyCall);
