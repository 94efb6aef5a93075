// SPDX-License-Identifier: Apache-2.0
//
// Calls and taps that gather several devices, on runtimes of four ages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "core/callbacks/rendezvous.h"
#include "core/delivery/delivery.h"
#include "testing/call_site_fixture.h"

namespace callout::internal {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> Values(const callout_buffer& buffer) {
  const auto* data = static_cast<const float*>(buffer.data);
  return {data, data + buffer.size_bytes / sizeof(float)};
}

class GatheredCallTest : public CallSiteTest {
 protected:
  void SetUp() override {
    CallSiteTest::SetUp();
    ASSERT_THAT(runtime_.QueryMetadata(&callout_v1_gathered_call_instantiate).status, IsOk());
  }

  static constexpr int64_t kRun = 77;

  std::unique_ptr<FakeSite> NewGatheredSite() {
    auto site =
        std::make_unique<FakeSite>(runtime_, &callout_v1_gathered_call_instantiate, &callout_v1_gathered_call_execute);
    site->run_id = run_++;  // the monitor remembers a run that failed
    return site;
  }
  /// Returns the frame of one device, which has its shard as the first operand.
  static FrameBuilder FrameOf(uint32_t place, TestBuffer shard, int64_t devices, std::vector<int64_t> shards) {
    FrameBuilder frame = Frame();
    frame.Int64Attr("devices", devices).Arg(std::move(shard)).Arg(TestBuffer::Scalar(place));
    if (!shards.empty()) frame.Int64ArrayAttr("shards", std::move(shards));
    return frame;
  }
  /// Executes all devices, each on its own thread.
  static std::vector<Status> ExecuteAll(FakeSite& site, std::vector<FrameBuilder>& frames) {
    std::vector<Status> outcomes(frames.size());
    std::vector<std::thread> devices;
    for (size_t i = 0; i < frames.size(); ++i) {
      devices.emplace_back([&, i] { outcomes[i] = site.Execute(frames[i]); });
    }
    for (std::thread& device : devices) device.join();
    return outcomes;
  }

  static inline int64_t run_ = kRun;
};

TEST_P(GatheredCallTest, TilesOfAGridAreOneArrayAndAllGetTheResults) {
  const auto callback = Bind();
  int calls = 0;
  callback->on_call = [&](const callout_call& call) {
    ++calls;
    EXPECT_EQ(call.num_args, 1U);
    EXPECT_THAT(std::vector<int64_t>(call.args[0].dims, call.args[0].dims + 2), ElementsAre(4, 4));
    EXPECT_THAT(Values(call.args[0]), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    std::memcpy(call.results[0].data, call.args[0].data, call.args[0].size_bytes);
    return OkStatus();
  };
  const std::vector<int64_t> shards = {0, 0, 0, 2, 2, 0, 2, 2};
  std::vector<FrameBuilder> frames;
  for (uint32_t i = 0; i < 4; ++i) {
    const float first = static_cast<float>(shards[2 * i] * 4 + shards[2 * i + 1]);
    frames.push_back(
        std::move(FrameOf(i, TestBuffer::Of<float>({2, 2}, {first, first + 1, first + 4, first + 5}), 4, shards)
                      .Ret(DType::kFloat32, {4, 4})));
  }
  const auto site = NewGatheredSite();
  ASSERT_THAT(site->Instantiate(frames[0]), IsOk());
  for (int run = 1; run <= 3; ++run) {
    EXPECT_THAT(ExecuteAll(*site, frames), Each(IsOk()));
    EXPECT_EQ(calls, run);
    for (FrameBuilder& frame : frames) EXPECT_EQ(frame.ret(0).values<float>()[13], 13);
  }
}

TEST_P(GatheredCallTest, ShardsThatSeveralDevicesHaveAndBlocksOfThreeDimensions) {
  const auto callback = Bind();
  std::vector<float> seen;
  callback->on_call = [&](const callout_call& call) { return seen = Values(call.args[0]), OkStatus(); };
  // f32[2,4,2] is cut into halves of the middle dimension; devices 0 and 2 have the first half.
  const std::vector<int64_t> shards = {0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 2, 0};
  std::vector<FrameBuilder> frames;
  for (uint32_t i = 0; i < 4; ++i) {
    const float of = i % 2 == 0 ? 0 : 4;
    frames.push_back(
        FrameOf(i, TestBuffer::Of<float>({2, 2, 2}, {of, of + 1, of + 2, of + 3, of + 8, of + 9, of + 10, of + 11}), 4,
                shards));
  }
  const auto site = NewGatheredSite();
  ASSERT_THAT(site->Instantiate(frames[0]), IsOk());
  EXPECT_THAT(ExecuteAll(*site, frames), Each(IsOk()));
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
}

TEST_P(GatheredCallTest, OperandThatAllHaveIsPassedWhereItLies) {
  const auto callback = Bind();
  const void* seen = nullptr;
  callback->on_call = [&](const callout_call& call) { return seen = call.args[0].data, OkStatus(); };
  std::vector<FrameBuilder> frames;
  for (uint32_t i = 0; i < 2; ++i) frames.push_back(FrameOf(i, TestBuffer::Of<float>({2}, {1, 2}), 2, {}));
  const auto site = NewGatheredSite();
  ASSERT_THAT(site->Instantiate(frames[0]), IsOk());
  EXPECT_THAT(ExecuteAll(*site, frames), Each(IsOk()));
  EXPECT_TRUE(seen == frames[0].arg(0).view().data || seen == frames[1].arg(0).view().data);
}

TEST_P(GatheredCallTest, FailureIsThatOfAllDevices) {
  const auto callback = Bind();
  callback->on_call = [](const callout_call&) { return InvalidArgument("no result"); };
  std::vector<FrameBuilder> frames;
  for (uint32_t i = 0; i < 3; ++i) frames.push_back(FrameOf(i, TestBuffer::Of<float>({2}, {1, 2}), 3, {}));
  const auto site = NewGatheredSite();
  ASSERT_THAT(site->Instantiate(frames[0]), IsOk());
  EXPECT_THAT(ExecuteAll(*site, frames),
              Each(StatusIs(StatusCode::kInvalidArgument, HasSubstr("failed on device 0: no result"))));
}

TEST_P(GatheredCallTest, DeviceThatWaitsHearsOfTheFailureOfAnotherCallOfItsRun) {
  const auto callback = Bind();
  callback->on_call = [](const callout_call&) { return InvalidArgument("on its own"); };
  FrameBuilder waiting = FrameOf(0, TestBuffer::Of<float>({2}, {1, 2}), 2, {});
  const auto site = NewGatheredSite();
  ASSERT_THAT(site->Instantiate(waiting), IsOk());
  std::thread device([&] {
    EXPECT_THAT(site->Execute(waiting), StatusIs(StatusCode::kInvalidArgument,
                                                 HasSubstr("another device of this run failed: callout: callback")));
  });
  const auto alone = NewSite();
  alone->run_id = site->run_id;
  alone->device_ordinal = 1;
  FrameBuilder frame = Frame();
  ASSERT_THAT(alone->Instantiate(frame), IsOk());
  EXPECT_THAT(alone->Execute(frame), StatusIs(StatusCode::kInvalidArgument, HasSubstr("on its own")));
  device.join();
}

TEST_P(GatheredCallTest, ShardsThatDoNotFitTheOperandsAreRefused) {
  const auto callback = Bind();
  const struct {
    std::vector<int64_t> shards;
    const char* why;
  } cases[] = {{{0, 2, 4}, "attribute `shards` has 3 numbers; the operands have 1 dimensions, on 2 devices"},
               {{0, INT64_MAX}, "attribute `shards` has a place of operand 0 that there is not"},
               {{0, INT64_MAX - 2}, "attribute `shards` makes operand 0 too large"},
               // The first size is 4 bytes less than 2^64, which rounds up to 0; the second is just too large.
               {{0, (int64_t{1} << 62) - 3}, "attribute `shards` makes operand 0 too large"},
               {{0, int64_t{1} << 60}, "attribute `shards` makes operand 0 too large"},
               {{0, 4}, "attribute `shards` leaves gaps in operand 0, or its parts overlap"},
               {{0, 3}, "attribute `shards` leaves gaps in operand 0, or its parts overlap"},
               {{0, 1}, "attribute `shards` leaves gaps in operand 0, or its parts overlap"},
               {{2, 4}, "attribute `shards` leaves gaps in operand 0, or its parts overlap"},
               {{2, 2}, "attribute `shards` leaves gaps in operand 0, or its parts overlap"}};
  for (const auto& [shards, why] : cases) {
    std::vector<FrameBuilder> frames;
    for (uint32_t i = 0; i < 2; ++i) frames.push_back(FrameOf(i, TestBuffer::Of<float>({2}, {1, 2}), 2, shards));
    const auto site = NewGatheredSite();
    ASSERT_THAT(site->Instantiate(frames[0]), IsOk());
    EXPECT_THAT(ExecuteAll(*site, frames), Each(StatusIs(StatusCode::kInvalidArgument, HasSubstr(why))));
  }
}

TEST_P(GatheredCallTest, ShardsOfAPlaneThatAreFarApartAreRefused) {
  const auto callback = Bind();
  const int64_t side = int64_t{1} << 31;  // side - 1 by side + 1 elements are 4 bytes less than 2^64
  const std::vector<int64_t> shards = {side - 2, 0, 0, side};
  std::vector<FrameBuilder> frames;
  for (uint32_t i = 0; i < 2; ++i) frames.push_back(FrameOf(i, TestBuffer::Of<float>({1, 1}, {1}), 2, shards));
  const auto site = NewGatheredSite();
  ASSERT_THAT(site->Instantiate(frames[0]), IsOk());
  EXPECT_THAT(ExecuteAll(*site, frames),
              Each(StatusIs(StatusCode::kInvalidArgument, HasSubstr("`shards` makes operand 0 too large"))));
}

TEST_P(GatheredCallTest, MoreDevicesThanThereAreAnywhereAreRefused) {
  const auto callback = Bind();
  FrameBuilder frame = Frame();
  frame.Int64Attr("devices", (1 << 16) + 1);
  EXPECT_THAT(NewGatheredSite()->Instantiate(frame), StatusIs(StatusCode::kInvalidArgument, HasSubstr("devices")));
}

TEST_P(GatheredCallTest, CallWithoutItsPlaceIsRefused) {
  const auto callback = Bind();
  FrameBuilder frame = Frame();
  frame.Int64Attr("devices", 2).Arg(TestBuffer::Of<float>({2}, {1, 2}));
  const auto site = NewGatheredSite();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  EXPECT_THAT(site->Execute(frame),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("must be its device's place, u32[], got f32[2]")));
}

TEST_P(GatheredCallTest, CallerIsOneOfTheDevices) {
  const auto callback = Bind();
  FrameBuilder frame = Frame();
  frame.Int64Attr("devices", 2).Int64Attr("caller", 2);
  EXPECT_THAT(NewGatheredSite()->Instantiate(frame),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("`caller` is 2, and there are 2 devices")));
}

TEST_P(GatheredCallTest, TapSendsTheWholeValueOnce) {
  ASSERT_THAT(runtime_.QueryMetadata(&callout_v1_gathered_tap_instantiate).status, IsOk());
  const auto callback = Bind();
  std::vector<std::vector<float>> records;
  callback->on_deliver = [&](const Record& record) {
    return records.push_back(Values(record.buffers.front())), OkStatus();
  };
  std::vector<FrameBuilder> frames;
  for (uint32_t i = 0; i < 2; ++i) {
    const float first = static_cast<float>(2 * i);
    frames.push_back(FrameOf(i, TestBuffer::Of<float>({2}, {first, first + 1}), 2, {0, 2}));
  }
  {
    FakeSite site(runtime_, &callout_v1_gathered_tap_instantiate, &callout_v1_gathered_tap_execute);
    site.run_id = run_++;
    ASSERT_THAT(site.Instantiate(frames[0]), IsOk());
    EXPECT_THAT(ExecuteAll(site, frames), Each(IsOk()));
    ASSERT_TRUE(Delivery::Get().Drain(kForever).empty());
  }
  EXPECT_THAT(records, ElementsAre(ElementsAre(0, 1, 2, 3)));
  ASSERT_TRUE(Delivery::Get().Drain(kForever).empty());  // after this the site is destroyed
  Delivery::Get().Park();
}

INSTANTIATE_TEST_SUITE_P(Minors, GatheredCallTest, ::testing::Values(2, 3, 4, 5));

}  // namespace
}  // namespace callout::internal
