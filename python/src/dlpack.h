// SPDX-License-Identifier: Apache-2.0
//
// Exports one of XLA's buffers as a DLPack capsule.
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

/// Counts the objects that were made of a buffer and still refer to its memory. Consumers drop them on any thread, with
/// the GIL or without.
using Leases = std::atomic<int64_t>;

struct DLPackRequest {
  DLDevice device = {kDLCpu, 0};  ///< The device of the buffer.
  bool versioned = false;         ///< The consumer knows DLPack 1.0.
  bool copy = false;              ///< On the CPU only.
  bool writeable = false;
};

/// Returns a capsule with the name that the protocol wants, which counts in `leases` until its consumer is done. Null
/// with a Python error if DLPack does not have the dtype. Requires GIL.
PyObject* ToDLPack(const callout_buffer& buffer, const DLPackRequest& request, std::shared_ptr<Leases> leases);

/// Sets `data` to the memory of a tensor in a capsule "dltensor" that another library made. Borrowed: valid as long as
/// the capsule. Returns "", or why the tensor is not dense or not of the shape and dtype of `like`, or "" with a Python
/// error set. Requires GIL.
std::string DataOfDLPack(PyObject* capsule, const callout_buffer& like, const void** data);

}  // namespace callout::python
