// SPDX-License-Identifier: Apache-2.0
//
// NVIDIA's declarations of its driver, under the names that a driver exports: cuMemAlloc_v2, not cuMemAlloc, which is a
// macro for programs in NVIDIA's header.
#pragma once

#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL
#endif
#include <cuda.h>
