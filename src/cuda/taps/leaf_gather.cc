// SPDX-License-Identifier: Apache-2.0
#include "cuda/taps/leaf_gather.h"

#include <algorithm>

namespace callout::internal {
namespace {

constexpr unsigned int kThreads = 256;
constexpr uint64_t kBytesOfABlock = 64 << 10;
constexpr unsigned int kMostBlocksOfAPiece = 16;

// Block (x, y) copies part y of piece x, in units of 16 bytes if both of its addresses are multiples of 16. Newer
// drivers compile this PTX, whose version is the oldest with the needed features.
constexpr char kPtx[] = R"(.version 7.0
.target sm_70
.address_size 64

.visible .entry callout_leaf_gather(.param .u64 pieces)
{
  .reg .pred %p;
  .reg .b16 %byte;
  .reg .b32 %x, %y, %parts, %threads, %thread, %w0, %w1, %w2, %w3;
  .reg .b64 %piece, %to, %from, %bytes, %offset, %first, %stride, %both, %i, %words, %at, %into;

  ld.param.u64 %piece, [pieces];
  cvta.to.global.u64 %piece, %piece;
  mov.u32 %x, %ctaid.x;
  mul.wide.u32 %offset, %x, 24;
  add.s64 %piece, %piece, %offset;
  ld.global.u64 %to, [%piece];
  ld.global.u64 %from, [%piece+8];
  ld.global.u64 %bytes, [%piece+16];
  cvta.to.global.u64 %to, %to;
  cvta.to.global.u64 %from, %from;

  mov.u32 %y, %ctaid.y;
  mov.u32 %parts, %nctaid.y;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  cvt.u64.u32 %first, %thread;
  mul.wide.u32 %offset, %y, %threads;
  add.s64 %first, %first, %offset;
  mul.wide.u32 %stride, %parts, %threads;

  mov.u64 %words, 0;
  or.b64 %both, %to, %from;
  and.b64 %both, %both, 15;
  setp.ne.u64 %p, %both, 0;
  @%p bra $word;
  shr.u64 %words, %bytes, 4;
$word:
  mov.u64 %i, %first;
$words:
  setp.ge.u64 %p, %i, %words;
  @%p bra $rest;
  shl.b64 %offset, %i, 4;
  add.s64 %at, %from, %offset;
  add.s64 %into, %to, %offset;
  ld.global.v4.u32 {%w0, %w1, %w2, %w3}, [%at];
  st.global.v4.u32 [%into], {%w0, %w1, %w2, %w3};
  add.s64 %i, %i, %stride;
  bra $words;
$rest:
  shl.b64 %i, %words, 4;
  add.s64 %i, %i, %first;
$bytes:
  setp.ge.u64 %p, %i, %bytes;
  @%p bra $end;
  add.s64 %at, %from, %i;
  add.s64 %into, %to, %i;
  ld.global.u8 %byte, [%at];
  st.global.u8 [%into], %byte;
  add.s64 %i, %i, %stride;
  bra $bytes;
$end:
  ret;
}
)";

}  // namespace

Result<std::unique_ptr<const LeafGather>> LeafGather::Load(const cuda::Device& device) {
  constexpr char kName[] = "callout_leaf_gather";
  std::unique_ptr<LeafGather> gather(new LeafGather(device));
  cuda::ContextScope current(device);
  CALLOUT_RETURN_IF_ERROR(current.TakeStatus());
  CALLOUT_ASSIGN_OR_RETURN(gather->library_, cuda::LoadLibrary(device.driver(), kPtx, kName));
  CALLOUT_ASSIGN_OR_RETURN(const cuda::CUkernel kernel, FindKernel(device.driver(), gather->library_, kName));
  CALLOUT_ASSIGN_OR_RETURN(gather->function_, FindFunction(device, kernel, kName));
  return std::unique_ptr<const LeafGather>(std::move(gather));
}

Status LeafGather::Queue(cuda::CUstream stream, cuda::CUdeviceptr pieces, uint32_t count, uint64_t most_bytes) const {
  const uint64_t parts = std::clamp<uint64_t>(most_bytes / kBytesOfABlock, 1, kMostBlocksOfAPiece);
  const cuda::LaunchShape shape = {.grid = {count, static_cast<unsigned int>(parts), 1}, .block = {kThreads, 1, 1}};
  void* parameters[] = {&pieces};
  return Launch(device_, function_, shape, stream, parameters, "callout_leaf_gather");
}

}  // namespace callout::internal
