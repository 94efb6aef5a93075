// SPDX-License-Identifier: Apache-2.0
//
// Maps for the tensor memory accelerator (Driver API, Tensor Map Object Management). Kernels of PTX cannot use them
// here.
#include <algorithm>
#include <array>
#include <cstring>

#include "driver/enqueue.h"
#include "driver/state.h"
#include "driver/tensor_map_layout.h"

namespace callout::software_gpu {
namespace {

struct Asked {
  CUtensorMapDataType type;
  cuuint32_t rank;
  uint64_t address;
  const cuuint64_t* dims;
  const cuuint64_t* strides;
  const cuuint32_t* box;
  const cuuint32_t* element_strides;
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
  CUtensorMapFloatOOBfill fill;
};

// The bytes of an element by CUtensorMapDataType. Packed types are not supported.
constexpr std::array<uint64_t, 13> kElementBytes = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

bool IsFloat(CUtensorMapDataType type) { return type >= CU_TENSOR_MAP_DATA_TYPE_FLOAT16; }

uint64_t SpanOf(CUtensorMapSwizzle swizzle) {
  return swizzle == CU_TENSOR_MAP_SWIZZLE_32B ? 32 : swizzle == CU_TENSOR_MAP_SWIZZLE_64B ? 64 : 128;
}

bool ChoicesFit(const Asked& asked) {
  if (asked.interleave > CU_TENSOR_MAP_INTERLEAVE_32B || asked.swizzle > CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B ||
      asked.promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B ||
      asked.fill > CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA) {
    return false;
  }
  if (asked.fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE && !IsFloat(asked.type)) return false;
  if (asked.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE && asked.rank < 3) return false;
  if (asked.interleave == CU_TENSOR_MAP_INTERLEAVE_32B && asked.swizzle != CU_TENSOR_MAP_SWIZZLE_32B) return false;
  const uint64_t inner = asked.box[0] * kElementBytes[static_cast<size_t>(asked.type)];
  if (asked.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) return true;
  return inner % 16 == 0 && (asked.swizzle == CU_TENSOR_MAP_SWIZZLE_NONE || inner <= SpanOf(asked.swizzle));
}

// Checks the rules of cuTensorMapEncodeTiled, in the order of its parameters.
bool Fits(const Asked& asked) {
  if (asked.rank < 1 || asked.rank > 5) return false;
  const uint64_t alignment = asked.interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? 32 : 16;
  if (asked.address % alignment != 0) return false;
  for (cuuint32_t i = 0; i < asked.rank; ++i) {
    if (asked.dims[i] == 0 || asked.dims[i] > uint64_t{1} << 32) return false;
    if (asked.box[i] == 0 || asked.box[i] > 256) return false;
    const bool steps = i > 0 || asked.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE;
    if (steps && (asked.element_strides[i] == 0 || asked.element_strides[i] > 8)) return false;
    if (i + 1 < asked.rank && (asked.strides[i] % alignment != 0 || asked.strides[i] >= uint64_t{1} << 40))
      return false;
  }
  return ChoicesFit(asked);
}

}  // namespace

extern "C" CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                                           const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                                           const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                                           CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion,
                                           CUtensorMapFloatOOBfill fill) {
  Call call("cuTensorMapEncodeTiled", kContext);
  if (call.refused()) return call.result();
  if (map == nullptr || reinterpret_cast<uintptr_t>(map) % 64 != 0) return CUDA_ERROR_INVALID_VALUE;
  if (dims == nullptr || box == nullptr || element_strides == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (rank > 1 && strides == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (static_cast<size_t>(type) >= kElementBytes.size()) return call.state().Refuse("a tensor map of packed numbers");
  const Asked asked = {
      type,      rank, reinterpret_cast<uint64_t>(address), dims, strides, box, element_strides, interleave, swizzle,
      promotion, fill};
  if (!Fits(asked)) return CUDA_ERROR_INVALID_VALUE;
  TensorMapLayout layout = {.address = asked.address,
                            .type = static_cast<uint8_t>(type),
                            .rank = static_cast<uint8_t>(rank),
                            .interleave = static_cast<uint8_t>(interleave),
                            .swizzle = static_cast<uint8_t>(swizzle),
                            .promotion = static_cast<uint8_t>(promotion),
                            .fill = static_cast<uint8_t>(fill),
                            .dims = {},
                            .strides = {},
                            .box = {},
                            .element_strides = {}};
  std::copy_n(dims, rank, layout.dims);
  std::copy_n(strides, rank - 1, layout.strides);
  for (cuuint32_t i = 0; i < rank; ++i) {
    layout.box[i] = static_cast<uint16_t>(box[i]);
    const bool steps = i > 0 || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE;  // otherwise the step is ignored
    layout.element_strides[i] = steps ? static_cast<uint8_t>(element_strides[i]) : 1;
  }
  *map = {};
  std::memcpy(map, &layout, sizeof(layout));
  return CUDA_SUCCESS;
}

}  // namespace callout::software_gpu
