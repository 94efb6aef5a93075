// SPDX-License-Identifier: Apache-2.0
//
// Tests several devices (Driver API, Peer Context Memory Access; Programming Guide, Multi-Device System).
#include "driver/driver_fixture.h"

namespace callout::software_gpu {
namespace {

class PeerTest : public DriverFixture {
 protected:
  void SetUp() override {
    DriverFixture::SetUp();
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&peer_, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxPushCurrent(peer_), CUDA_SUCCESS);
    theirs_ = Allocate();
    ASSERT_EQ(cuMemsetD32(theirs_, 8, 4), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxPopCurrent(nullptr), CUDA_SUCCESS);
  }

  CUcontext peer_ = nullptr;
  CUdeviceptr theirs_ = 0;
};

// cuDeviceCanAccessPeer; cuDeviceGetP2PAttribute: a device is no peer of itself.
TEST_F(PeerTest, DevicesMayBePeersOfOthers) {
  int can = -1;
  ASSERT_EQ(cuDeviceCanAccessPeer(&can, 0, 1), CUDA_SUCCESS);
  EXPECT_EQ(can, 1);
  ASSERT_EQ(cuDeviceCanAccessPeer(&can, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(cuDeviceCanAccessPeer(&can, 0, 2), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 1), CUDA_ERROR_INVALID_DEVICE);
}

// cuCtxEnablePeerAccess, cuCtxDisablePeerAccess: access is enabled once and disabled once.
TEST_F(PeerTest, AccessIsEnabledOnceAndDisabledOnce) {
  EXPECT_EQ(cuCtxEnablePeerAccess(context_, 0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxEnablePeerAccess(peer_, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxDisablePeerAccess(peer_), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_EQ(cuCtxEnablePeerAccess(peer_, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxEnablePeerAccess(peer_, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_EQ(cuCtxDisablePeerAccess(peer_), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDisablePeerAccess(peer_), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_EQ(cuCtxDisablePeerAccess(nullptr), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(PeerTest, KernelsReachAPeersMemory) {
  ASSERT_EQ(cuCtxEnablePeerAccess(peer_, 0), CUDA_SUCCESS);
  ASSERT_EQ(LaunchLoad(stream_, word_, theirs_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Read(word_), 8U);
}

TEST_F(PeerTest, KernelsDoNotReachOtherDevicesMemory) {
  ASSERT_EQ(LaunchLoad(stream_, word_, theirs_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

// Access is granted in one direction.
TEST_F(PeerTest, AccessIsOfOneDirection) {
  ASSERT_EQ(cuCtxPushCurrent(peer_), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxEnablePeerAccess(context_, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPopCurrent(nullptr), CUDA_SUCCESS);
  ASSERT_EQ(LaunchLoad(stream_, word_, theirs_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_ERROR_ILLEGAL_ADDRESS);
}

// cuCtxEnablePeerAccess: the access lasts until it is disabled or either context is destroyed.
TEST_F(PeerTest, AccessEndsWithEitherContext) {
  ASSERT_EQ(cuCtxEnablePeerAccess(peer_, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&peer_, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDisablePeerAccess(peer_), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

// cuMemcpyPeer: copies need no peer access.
TEST_F(PeerTest, CopiesGoBetweenDevicesWithoutAccess) {
  ASSERT_EQ(cuMemcpyPeer(word_, context_, theirs_, peer_, 16), CUDA_SUCCESS);
  EXPECT_EQ(Read(word_ + 12), 8U);
  ASSERT_EQ(cuMemsetD32(word_, 9, 4), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyPeerAsync(theirs_, peer_, word_, context_, 16, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(Read(theirs_ + 12), 9U);
  EXPECT_EQ(cuMemcpyPeer(word_, nullptr, theirs_, peer_, 16), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuMemcpyPeerAsync(word_, context_, theirs_, nullptr, 16, stream_), CUDA_ERROR_INVALID_CONTEXT);
}

// Programming Guide, Stream and Event Behavior: an event is recorded on streams of its own device, and streams of any
// device may wait for it.
TEST_F(PeerTest, EventsAreWaitedForOnOtherDevices) {
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  Close(stream_);
  ASSERT_EQ(LaunchStore(stream_, word_, 3), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent(peer_), CUDA_SUCCESS);
  CUstream const other = Stream();
  EXPECT_EQ(cuEventRecord(event, other), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(cuStreamWaitEvent(other, event, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyPeerAsync(theirs_, peer_, word_, context_, 4, other), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
  Open();
  ASSERT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
  EXPECT_EQ(Read(theirs_), 3U);
  ASSERT_EQ(cuCtxPopCurrent(nullptr), CUDA_SUCCESS);
}

}  // namespace
}  // namespace callout::software_gpu
