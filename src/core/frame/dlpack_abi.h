// SPDX-License-Identifier: Apache-2.0
//
// The structs of DLPack 1.x (https://dmlc.github.io/dlpack/latest/c_api.html). They have DLPack's names, so that public
// headers can declare them without dlpack.h.
#pragma once

#include <cstdint>

struct DLDevice {
  int32_t type;
  int32_t id;
};

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
  int64_t* strides;  // in elements; null: row-major
  uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};

struct DLManagedTensorVersioned {
  uint32_t major;
  uint32_t minor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned*);
  uint64_t flags;
  DLTensor tensor;
};

namespace callout::internal {

inline constexpr int32_t kDLCpu = 1;
inline constexpr int32_t kDLCuda = 2;
inline constexpr int32_t kDLCudaHost = 3;

inline constexpr uint64_t kDLReadOnly = 1;
inline constexpr uint64_t kDLIsCopied = 2;

}  // namespace callout::internal
