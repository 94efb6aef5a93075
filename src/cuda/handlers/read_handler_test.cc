// SPDX-License-Identifier: Apache-2.0
//
// Tests of reading objects of the host, with handles and results in a device's memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/ffi/handlers.h"
#include "core/handles/handle_table.h"
#include "core/handles/host_value.h"
#include "core/handles/stop_flag.h"
#include "testing/cuda_site_fixture.h"
#include "testing/frame_builder.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

class CudaReadTest : public CudaSiteTest {
 protected:
  void SetUp() override {
    CudaSiteTest::SetUp();
    for (XLA_FFI_Handler* handler : {&callout_v1_cuda_read_instantiate, &callout_v1_cuda_read_execute}) {
      ASSERT_THAT(runtime_.QueryMetadata(handler).status, IsOk());
    }
  }
  void TearDown() override {
    HandleTable::Get().Free(HandleTable::Get().retired().ever);
    CudaSiteTest::TearDown();
  }

  TestBuffer Words(std::vector<int64_t> dims, const std::vector<Handle>& handles, int ordinal = 0) {
    std::vector<uint32_t> words(handles.size() * 4);
    std::memcpy(words.data(), handles.data(), words.size() * sizeof(uint32_t));
    return OnDevice<uint32_t>(std::move(dims), words, ordinal);
  }
  /// Returns a frame that reads a flag into a byte of the device's memory.
  FrameBuilder FlagFrame(const Handle& handle, int64_t devices, int ordinal = 0) {
    FrameBuilder frame;
    frame.Int64Attr("kind", static_cast<int64_t>(HandleKind::kStopFlag)).Int64Attr("devices", devices);
    void* const result = OnDevice<uint32_t>({}, {7}, ordinal).view().data;
    frame.Arg(Words({4}, {handle}, ordinal)).Ret(TestBuffer::At(DType::kBool, {}, result));
    return frame;
  }
  std::unique_ptr<FakeSite> NewSite() {
    return NewSiteOf(&callout_v1_cuda_read_instantiate, &callout_v1_cuda_read_execute, 0);
  }
};

TEST_F(CudaReadTest, FlagIsReadAsItIsNow) {
  const auto flag = std::make_shared<StopFlag>();
  const Handle handle = *HandleTable::Get().Add(flag);
  FrameBuilder frame = FlagFrame(handle, 1);
  const auto site = NewSite();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read<uint8_t>(frame.ret(0)), ElementsAre(0));
  flag->Set();
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read<uint8_t>(frame.ret(0)), ElementsAre(1));
  HandleTable::Get().Retire(handle);
}

TEST_F(CudaReadTest, EachHandleOfABatchIsRead) {
  std::vector<Handle> handles;
  for (const float first : {1.F, 3.F}) {
    TestBuffer array = TestBuffer::Of<float>({2}, {first, first + 1});
    handles.push_back(
        *HandleTable::Get().Add(std::make_shared<HostValue>(std::vector<HostArray>{HostArray::CopyOf(array.view())})));
  }
  FrameBuilder frame;
  frame.Int64Attr("kind", static_cast<int64_t>(HandleKind::kHostValue));
  frame.Arg(Words({2, 4}, handles)).Ret(OnDevice({2, 2}, {0, 0, 0, 0}));
  const auto site = NewSite();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read(frame.ret(0)), ElementsAre(1, 2, 3, 4));
  for (const Handle& handle : handles) HandleTable::Get().Retire(handle);
}

TEST_F(CudaReadTest, DevicesOfARunReadTheSame) {
  const auto flag = std::make_shared<StopFlag>();
  const Handle handle = *HandleTable::Get().Add(flag);
  FrameBuilder frames[] = {FlagFrame(handle, 2, 0), FlagFrame(handle, 2, 1)};
  const auto site = NewSite();
  ASSERT_THAT(site->Instantiate(frames[0]), IsOk());
  const auto read = [&](int ordinal) {
    site->device_ordinal = ordinal;
    site->stream = stream(ordinal);
    EXPECT_THAT(site->Execute(frames[ordinal]), IsOk());
    return Read<uint8_t>(frames[ordinal].ret(0), ordinal)[0];
  };
  EXPECT_EQ(read(0), 0);
  flag->Set();
  EXPECT_EQ(read(1), 0) << "the first question was answered before";
  EXPECT_EQ(read(1), 1);
  EXPECT_EQ(read(0), 1);
  HandleTable::Get().Retire(handle);
}

TEST_F(CudaReadTest, WhatIsNoHandleFailsTheReading) {
  FrameBuilder frame = FlagFrame(Handle(), 1);
  const auto site = NewSite();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kFailedPrecondition, "its leaf is no handle of this process"));
}

}  // namespace
}  // namespace callout::internal
