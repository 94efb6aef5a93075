// SPDX-License-Identifier: Apache-2.0
//
// Element types as PJRT numbers them.
#pragma once

#include "callout/dtype.h"
#include "callout/status.h"
#include "host/pjrt/pjrt_abi.h"

namespace callout::internal {

/// InvalidArgument for one that PJRT does not have.
Result<PJRT_Buffer_Type> ToPjrtType(DType dtype);

/// `type`: a PJRT_Buffer_Type. Unimplemented for one that this library does not have.
Result<DType> FromPjrtType(int type);

}  // namespace callout::internal
