// SPDX-License-Identifier: Apache-2.0
//
// The structs of DLPack 1.x (https://dmlc.github.io/dlpack/latest/c_api.html), and a buffer of XLA's as a capsule.
#pragma once

#include "python_api.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "callout/abi.h"

namespace callout::python {

struct DLDevice {
  int32_t type;
  int32_t id;
};
inline constexpr int32_t kDLCpu = 1;
inline constexpr int32_t kDLCuda = 2;

struct DLDataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

inline constexpr uint64_t kDLReadOnly = 1;
inline constexpr uint64_t kDLIsCopied = 2;

struct DLManagedTensorVersioned {
  uint32_t major;
  uint32_t minor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned*);
  uint64_t flags;
  DLTensor tensor;
};

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
