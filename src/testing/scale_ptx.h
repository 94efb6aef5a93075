// SPDX-License-Identifier: Apache-2.0
//
// The kernel `scale` of the software GPU's image (software_gpu/driver/testdata/kernels.cc), for a real GPU.
#pragma once

#include <cstdint>

namespace callout::internal {

inline constexpr char kScalePtx[] = R"(.version 7.8
.target sm_70
.address_size 64

// scale(float* data, float by, uint32_t count)
.visible .entry scale(.param .u64 data, .param .f32 by, .param .u32 count)
{
  .reg .pred %past;
  .reg .f32 %value, %factor;
  .reg .b32 %index, %block, %blocks, %end;
  .reg .b64 %at, %offset;

  mov.u32 %block, %ctaid.x;
  mov.u32 %blocks, %ntid.x;
  mov.u32 %index, %tid.x;
  mad.lo.s32 %index, %block, %blocks, %index;
  ld.param.u32 %end, [count];
  setp.ge.u32 %past, %index, %end;
  @%past ret;
  ld.param.u64 %at, [data];
  ld.param.f32 %factor, [by];
  cvta.to.global.u64 %at, %at;
  mul.wide.u32 %offset, %index, 4;
  add.s64 %at, %at, %offset;
  ld.global.f32 %value, [%at];
  mul.f32 %value, %value, %factor;
  st.global.f32 [%at], %value;
  ret;
}
)";

}  // namespace callout::internal
