// SPDX-License-Identifier: Apache-2.0
//
// Tests which arguments cuTensorMapEncodeTiled accepts (Driver API, Tensor Map Object Management).
#include <cstring>
#include <functional>

#include "driver/driver_fixture.h"
#include "driver/tensor_map_layout.h"

namespace callout::software_gpu {
namespace {

// The arguments for an array of 8 rows of 32 floats, with boxes of 4 x 16.
struct Arguments {
  alignas(64) CUtensorMap map = {};
  CUtensorMap* to = &map;
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  cuuint32_t rank = 2;
  CUdeviceptr address = 0;
  cuuint64_t dims[5] = {32, 8, 1, 1, 1};
  cuuint64_t strides[5] = {128, 1024, 1024, 1024, 0};
  cuuint32_t box[5] = {16, 4, 1, 1, 1};
  cuuint32_t steps[5] = {1, 1, 1, 1, 1};
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_NONE;
  CUtensorMapFloatOOBfill fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
};

class TensorMapTest : public DriverFixture {
 protected:
  CUresult Encode(const std::function<void(Arguments&)>& change) {
    Arguments asked;
    return Encode(asked, change);
  }
  CUresult Encode(Arguments& asked, const std::function<void(Arguments&)>& change) {
    asked.address = word_ & ~CUdeviceptr{63};
    change(asked);
    return cuTensorMapEncodeTiled(asked.to, asked.type, asked.rank, reinterpret_cast<void*>(asked.address), asked.dims,
                                  asked.strides, asked.box, asked.steps, asked.interleave, asked.swizzle,
                                  asked.promotion, asked.fill);
  }
};

TEST_F(TensorMapTest, WhatTheGuideAllowsIsTaken) {
  const std::function<void(Arguments&)> right[] = {
      [](Arguments&) {},
      [](Arguments& asked) { asked.rank = 1; },
      [](Arguments& asked) { asked.rank = 5; },
      [](Arguments& asked) { asked.address += 16; },
      [](Arguments& asked) { asked.dims[0] = cuuint64_t{1} << 32; },
      [](Arguments& asked) { asked.box[0] = asked.box[1] = 256; },
      [](Arguments& asked) { asked.steps[0] = 0; },  // ignored without interleaving
      [](Arguments& asked) { asked.swizzle = CU_TENSOR_MAP_SWIZZLE_64B; },
      [](Arguments& asked) { asked.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA; },
  };
  for (size_t i = 0; i < std::size(right); ++i) EXPECT_EQ(Encode(right[i]), CUDA_SUCCESS) << i;
}

TEST_F(TensorMapTest, EachRuleIsHeld) {
  const std::function<void(Arguments&)> wrong[] = {
      [](Arguments& asked) { asked.to = reinterpret_cast<CUtensorMap*>(reinterpret_cast<char*>(asked.to) + 16); },
      [](Arguments& asked) { asked.rank = 0; },
      [](Arguments& asked) { asked.rank = 6; },
      [](Arguments& asked) { asked.address += 4; },
      [](Arguments& asked) { asked.dims[1] = 0; },
      [](Arguments& asked) { asked.dims[0] = (cuuint64_t{1} << 32) + 1; },
      [](Arguments& asked) { asked.strides[0] = 132; },
      [](Arguments& asked) { asked.strides[0] = cuuint64_t{1} << 40; },
      [](Arguments& asked) { asked.box[1] = 0; },
      [](Arguments& asked) { asked.box[0] = 257; },
      [](Arguments& asked) { asked.box[0] = 3; },  // 12 bytes
      [](Arguments& asked) { asked.steps[1] = 0; },
      [](Arguments& asked) { asked.steps[1] = 9; },
      [](Arguments& asked) { asked.swizzle = CU_TENSOR_MAP_SWIZZLE_32B; },        // the box has 64 bytes
      [](Arguments& asked) { asked.interleave = CU_TENSOR_MAP_INTERLEAVE_16B; },  // the array has two axes
      [](Arguments& asked) {
        asked.type = CU_TENSOR_MAP_DATA_TYPE_INT32;
        asked.fill = CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
      },
  };
  for (size_t i = 0; i < std::size(wrong); ++i) EXPECT_EQ(Encode(wrong[i]), CUDA_ERROR_INVALID_VALUE) << i;
}

// Without interleaving, the step of the fastest axis is ignored.
TEST_F(TensorMapTest, ElementsOfTheFastestAxisAreNotSkipped) {
  Arguments asked;
  ASSERT_EQ(Encode(asked, [](Arguments& one) { one.steps[0] = 2, one.steps[1] = 3; }), CUDA_SUCCESS);
  TensorMapLayout layout;
  std::memcpy(&layout, &asked.map, sizeof(layout));
  EXPECT_EQ(layout.element_strides[0], 1);
  EXPECT_EQ(layout.element_strides[1], 3);
}

TEST_F(TensorMapTest, PackedNumbersAreRefusedByName) {
  EXPECT_EQ(Encode([](Arguments& asked) { asked.type = CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B; }),
            CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_THAT(software_gpu_control()->log(), testing::HasSubstr("a tensor map of packed numbers"));
}

}  // namespace
}  // namespace callout::software_gpu
