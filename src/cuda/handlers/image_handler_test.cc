// SPDX-License-Identifier: Apache-2.0
//
// Tests of callout.v1.image, from registration to the end of the executable. image_errors_test.cc tests errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/driver/stream_work.h"
#include "testing/image_site_fixture.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using ImageHandlerTest = ImageSiteTest;

TEST_F(ImageHandlerTest, OnlyTheAsynchronousOneMayBeCaptured) {
  constexpr uint32_t kCapturable = XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE;
  EXPECT_EQ(runtime_.QueryMetadata(&callout_v1_image_execute).traits, kCapturable);
  EXPECT_EQ(runtime_.QueryMetadata(&callout_v1_image_sync_execute).traits, 0U);
  EXPECT_EQ(runtime_.QueryMetadata(&callout_v1_image_initialize).traits, 0U);
  EXPECT_GT(runtime_.QueryMetadata(&callout_v1_image_instantiate).state_type_id, 0);
}

TEST_F(ImageHandlerTest, LaunchIsQueuedAndNotAwaited) {
  const auto site = NewSite();
  FrameBuilder frame = ScaleFrame(3, 4, 0);
  TestBuffer data = OnDevice({4}, {1, 2, 3, 4});
  frame.Arg(data);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  fake()->hold();
  ASSERT_THAT(site->Execute(frame), IsOk());
  fake()->release();
  EXPECT_THAT(Read(data), ElementsAre(3, 6, 9, 12));
}

TEST_F(ImageHandlerTest, ResultsFollowArguments) {
  const auto site = NewSite();
  FrameBuilder frame = ScaleFrame(2, 2, 1);
  TestBuffer out = OnDevice({2}, {5, 6});
  frame.Arg(OnDevice({2}, {1, 2})).Ret(out);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read(out), ElementsAre(10, 12));
}

TEST_F(ImageHandlerTest, ResultInAnotherPlaceThanItsArgumentBeginsWithItsValue) {
  const auto site = NewSite();
  FrameBuilder frame = ScaleFrame(2, 2, 1);
  frame.Int64ArrayAttr("aliases", {0, 0});
  TestBuffer in = OnDevice({2}, {1, 2});
  TestBuffer out = OnDevice({2}, {0, 0});
  frame.Arg(in).Ret(out);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read(out), ElementsAre(2, 4));
  EXPECT_THAT(Read(in), ElementsAre(1, 2));
}

TEST_F(ImageHandlerTest, EachLaneIsALaunchOnItsPart) {
  const auto site = NewSite();
  FrameBuilder frame = ScaleFrame(10, 2, 1);
  frame.Int64ArrayAttr("lane_dims", {3}).Int64ArrayAttr("lane_masks", {0}).Int64ArrayAttr("aliases", {0, 0});
  TestBuffer out = OnDevice({3, 2}, {0, 0, 0, 0, 0, 0});
  frame.Arg(OnDevice({2}, {1, 2})).Ret(out);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read(out), ElementsAre(10, 20, 10, 20, 10, 20));
  EXPECT_EQ(fake()->calls("cuLaunchKernel"), 3);
}

TEST_F(ImageHandlerTest, CaptureHoldsTheLaunchAloneAndReplaysWithoutUs) {
  const auto site = NewSite();
  FrameBuilder frame = ScaleFrame(2, 1, 0);
  TestBuffer data = OnDevice({1}, {1});
  frame.Arg(data);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Initialize(frame, &callout_v1_image_initialize), IsOk());
  const cuda::ContextScope current(device());
  const int64_t launches = ImageLaunches();
  const auto executable = RecordCall(*site, frame);
  ASSERT_THAT(executable, IsOk());
  for (int i = 0; i < 3; ++i) ASSERT_THAT(Launch(device(), *executable, stream()), IsOk());
  EXPECT_THAT(Read(data), ElementsAre(8));
  EXPECT_EQ(ImageLaunches() - launches, 1);
}

TEST_F(ImageHandlerTest, ExecutableRunsOnSeveralDevicesWithOneLoadedImage) {
  const auto first = NewSite(0);
  const auto second = NewSite(1);
  const int64_t loaded = ImagesLoaded();
  FrameBuilder frames[] = {ScaleFrame(2, 1, 0), ScaleFrame(2, 1, 0)};
  TestBuffer data[] = {OnDevice({1}, {1}, 0), OnDevice({1}, {5}, 1)};
  int i = 0;
  for (const auto* site : {&first, &second}) {
    frames[i].Arg(data[i]);
    ASSERT_THAT((*site)->Instantiate(frames[i]), IsOk());
    ASSERT_THAT((*site)->Execute(frames[i]), IsOk());
    ASSERT_THAT((*site)->Execute(frames[i]), IsOk());
    ++i;
  }
  EXPECT_THAT(Read(data[0], 0), ElementsAre(4));
  EXPECT_THAT(Read(data[1], 1), ElementsAre(20));
  EXPECT_EQ(ImagesLoaded() - loaded, 1);
}

FrameBuilder SumFrame(FrameBuilder frame, int64_t shared_bytes) {
  return std::move(frame.Int64Attr("shared_bytes", shared_bytes)
                       .Int64ArrayAttr("parameter_bytes", {8})
                       .StringAttr("parameter_block", std::string(8, '\0'))
                       .Int64ArrayAttr("pointers", {0, 0}));
}

TEST_F(ImageHandlerTest, LargeSharedMemoryIsPermittedOnce) {
  const auto site = NewSite();
  FrameBuilder frame = SumFrame(Frame("sum_shared"), 100 << 10);
  TestBuffer out = OnDevice({}, {0});
  frame.Ret(out);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  for (int i = 0; i < 2; ++i) ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read(out), ElementsAre(100 << 10));
  EXPECT_EQ(fake()->calls("cuFuncSetAttribute"), 1);
}

// Equal images share a function, and so the function's limit.
TEST_F(ImageHandlerTest, SitesOfOneKernelMayHaveDifferentSharedMemory) {
  TestBuffer out = OnDevice({}, {0});
  std::vector<std::pair<std::unique_ptr<FakeSite>, FrameBuilder>> sites;
  std::vector<int> sizes = {100 << 10, 64 << 10, 0, 16, 120 << 10, 50 << 10};
  for (const int bytes : sizes) {
    sites.emplace_back(NewSite(), SumFrame(Frame("sum_shared"), bytes));
    sites.back().second.Ret(out);
    ASSERT_THAT(sites.back().first->Instantiate(sites.back().second), IsOk());
  }
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < sites.size(); ++i) {
      ASSERT_THAT(sites[i].first->Execute(sites[i].second), IsOk()) << sizes[i];
      EXPECT_THAT(Read(out), ElementsAre(sizes[i]));
    }
  }
}

TEST_F(ImageHandlerTest, SharedMemoryOfTheKernelItselfCountsToo) {
  const auto site = NewSite();
  FrameBuilder frame = SumFrame(Frame("sum_shared"), 48 << 10);  // The kernel has 1 KB of its own.
  TestBuffer out = OnDevice({}, {0});
  frame.Ret(out);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read(out), ElementsAre(48 << 10));
}

TEST_F(ImageHandlerTest, CooperativeKernelIsLaunchedSo) {
  const auto site = NewSite();
  FrameBuilder frame = ScaleFrame(2, 1, 0);
  frame.Int64Attr("cooperative", 1);
  TestBuffer data = OnDevice({1}, {4});
  frame.Arg(data);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read(data), ElementsAre(8));
  EXPECT_EQ(fake()->calls("cuLaunchCooperativeKernel"), 1);
}

TEST_F(ImageHandlerTest, ClusterOverlapAndPriorityAreSaidToTheDriver) {
  const auto site = NewSite();
  FrameBuilder frame = ScaleFrame(2, 1, 0);
  frame.Int64ArrayAttr("grid", {4, 2, 1}).Int64ArrayAttr("cluster", {2, 2, 1}).Int64Attr("dependent", 1);
  frame.Int64ArrayAttr("priority", {-3}).Int64Attr("cooperative", 1);
  TestBuffer data = OnDevice({1}, {4});
  frame.Arg(data);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(fake()->log(), HasSubstr("cuLaunchKernelEx(grid=4,2,1 block=1,1,1 shared=0 cooperative=1 cluster=2,2,1 "
                                       "programmatic=1 priority=-3)"));
}

TEST_F(ImageHandlerTest, LaunchWithoutAnyOfThemIsAPlainOne) {
  const auto site = NewSite();
  FrameBuilder frame = ScaleFrame(2, 1, 0);
  frame.Arg(OnDevice({1}, {4}));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(fake()->calls("cuLaunchKernel"), 1);
  EXPECT_EQ(fake()->calls("cuLaunchKernelEx"), 0);
}

TEST_F(ImageHandlerTest, ClustersOfMoreThanEightBlocksArePermittedFirst) {
  const auto site = NewSite();
  FrameBuilder frame = ScaleFrame(2, 1, 0);
  frame.Int64ArrayAttr("grid", {16, 1, 1}).Int64ArrayAttr("cluster", {16, 1, 1});
  frame.Arg(OnDevice({1}, {4}));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(fake()->calls("cuFuncSetAttribute"), 1);
}

TEST_F(ImageHandlerTest, SoAreThoseThatTheKernelWasCompiledFor) {
  const auto site = NewSite();
  FrameBuilder frame = Frame("of_sixteen");
  frame.Int64ArrayAttr("grid", {16, 1, 1}).Int64ArrayAttr("parameter_bytes", {8});
  frame.StringAttr("parameter_block", std::string(8, '\0')).Int64ArrayAttr("pointers", {0, 0});
  frame.Ret(OnDevice({32}, std::vector<float>(32)));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  EXPECT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(fake()->calls("cuFuncSetAttribute"), 1);
}

TEST_F(ImageHandlerTest, GridThatFillsTheDeviceHasTheBlocksThatRunAtOnce) {
  const auto site = NewSite();
  FrameBuilder frame = SumFrame(Frame("sum_shared", 1024), 0);
  frame.Int64Attr("fills_device", 1).Int64Attr("cooperative", 1);
  frame.Ret(OnDevice({}, {0}));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  const cuda::ContextScope current(device());
  const auto multiprocessors = device().Attribute(cuda::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  ASSERT_THAT(multiprocessors, IsOk());
  // A multiprocessor of 2048 threads runs two blocks of 1024 threads.
  EXPECT_THAT(fake()->log(), HasSubstr("cuLaunchCooperativeKernel(grid=" + std::to_string(2 * *multiprocessors) +
                                       ",1,1 block=1024,1,1 shared=0)"));
}

TEST_F(ImageHandlerTest, TensorMapsAreOfTheOperandOfEachCall) {
  const auto site = NewSite();
  FrameBuilder frame = Frame("copy_box");
  frame.Int64ArrayAttr("parameter_bytes", {8, 128})
      .StringAttr("parameter_block", std::string(136, '\0'))
      .Int64ArrayAttr("pointers", {0, 1})
      // FLOAT32 (7), 2 axes of 4 and 3 elements, rows of 16 bytes, boxes of 4 x 2.
      .Int64ArrayAttr("tensor_maps",
                      {8, 0, 7, 2, 4, 3, 1, 1, 1, 16, 0, 0, 0, 0, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0});
  TestBuffer out = OnDevice({8}, {0, 0, 0, 0, 0, 0, 0, 0});
  frame.Arg(OnDevice({3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})).Ret(out);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  for (int i = 0; i < 2; ++i) ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Read(out), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(fake()->calls("cuTensorMapEncodeTiled"), 2);
}

TEST_F(ImageHandlerTest, SynchronousOneReturnsWhenTheKernelHasRun) {
  const auto site = NewSite(0, &callout_v1_image_sync_execute);
  FrameBuilder frame = ScaleFrame(2, 1, 0);
  TestBuffer data = OnDevice({1}, {4});
  frame.Arg(data);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  const cuda::ContextScope current(device());
  EXPECT_EQ(device().driver().StreamQuery(stream()), cuda::CUDA_SUCCESS);
}

TEST_F(ImageHandlerTest, WhatAThreadRaisedIsTheError) {
  const auto site = NewSite(0, &callout_v1_image_sync_execute);
  FrameBuilder frame = Frame("raise_error");
  frame.DictionaryAttr("faults", {{"symbol", "error_code"}, {"17", "ValueError: negative"}});
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  EXPECT_THAT(site->Execute(frame),
              StatusIs(StatusCode::kInternal, "'raise_error' on device 0 raised: ValueError: negative"));
  // The fault is cleared before each launch, and is no error of the device's.
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInternal, "ValueError: negative"));
}

}  // namespace
}  // namespace callout::internal
