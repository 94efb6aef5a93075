// SPDX-License-Identifier: Apache-2.0
//
// A buffer of XLA's as a capsule of DLPack.
#pragma once

#include "python_api.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "callout/abi.h"
#include "core/frame/dlpack_abi.h"

namespace callout::python {

using internal::kDLCpu;
using internal::kDLCuda;
using internal::kDLIsCopied;
using internal::kDLReadOnly;

/// Counts what was made of a buffer and still refers to its memory. Consumers let go on any thread, with the GIL or
/// without.
using Leases = std::atomic<int64_t>;

struct DLPackRequest {
  DLDevice device = {kDLCpu, 0};  ///< Where the buffer is.
  bool versioned = false;         ///< The consumer knows DLPack 1.0.
  bool copy = false;              ///< On the CPU only.
  bool writeable = false;
};

/// A capsule named as the protocol wants it, which counts in `leases` until its consumer is done. Null with a Python
/// error if DLPack does not have the dtype. Requires GIL.
PyObject* ToDLPack(const callout_buffer& buffer, const DLPackRequest& request, std::shared_ptr<Leases> leases);

/// Where the tensor of a capsule "dltensor" lies, which somebody else has made. Borrowed: valid as long as the capsule.
/// Returns "", or why it is not of the buffer's shape and dtype and dense, or has a Python error set and returns "".
/// Requires GIL.
std::string DataOfDLPack(PyObject* capsule, const callout_buffer& like, const void** data);

}  // namespace callout::python
