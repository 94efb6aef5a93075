// SPDX-License-Identifier: Apache-2.0
//
// Life of callout.v1.tap on CPUs, to the end of the executable, on runtimes of four ages. tap_conformance_test.cc tests
// the behaviour on every platform.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/callbacks/call_statistics.h"
#include "core/callbacks/registry.h"
#include "core/delivery/delivery.h"
#include "core/ffi/handlers.h"
#include "testing/fake_callbacks.h"
#include "testing/fake_runtime.h"
#include "testing/live_counts.h"
#include "testing/spin.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class TapHandlerTest : public WithLiveCounts<::testing::TestWithParam<int>> {
 protected:
  void SetUp() override {
    ResetStats();
    WithLiveCounts::SetUp();
    ASSERT_THAT(runtime_.QueryMetadata(&callout_v1_tap_instantiate).status, IsOk());
    ASSERT_THAT(runtime_.QueryMetadata(&callout_v1_tap_execute).status, IsOk());
  }
  void TearDown() override {
    Barrier();
    EXPECT_EQ(FakeRuntime::live_errors(), 0);
    WithLiveCounts::TearDown();
  }

  static void Barrier() { ASSERT_THAT(Delivery::Get().Drain(kForever), IsEmpty()); }
  static std::shared_ptr<FakeCallback> Bind() {
    auto callback = std::make_shared<FakeCallback>("test.tap");
    EXPECT_EQ(Registry::Get().Bind("test.tap", callback), "py:test.tap");
    return callback;
  }
  std::unique_ptr<FakeSite> NewSite() {
    return std::make_unique<FakeSite>(runtime_, &callout_v1_tap_instantiate, &callout_v1_tap_execute);
  }
  static FrameBuilder Frame() {
    FrameBuilder frame;
    frame.StringAttr("callback", "py:test.tap");
    return frame;
  }
  Status InstantiateWith(const std::string& attribute, int64_t value) {
    FrameBuilder frame = Frame();
    frame.Int64Attr(attribute, value);
    return NewSite()->Instantiate(frame);
  }

  FakeRuntime& runtime_ = FakeRuntime::ForMinor(GetParam());
};

/// Lets the value 0 pass, and notes the device and run of each other value.
class PassingCallback final : public FakeCallback, public Inspector {
 public:
  PassingCallback() : FakeCallback("test.tap") {}
  Inspector* inspector() override { return this; }
  bool Passes(std::span<const callout_buffer> buffers) override { return Number(buffers) == 0; }
  Result<Send> Inspect(const Record& record) override {
    if (Number(record.buffers) != 0) inspected.emplace_back(record.device_ordinal, record.run_id);
    return Send::kNothing;
  }

  std::vector<std::pair<int32_t, int64_t>> inspected;

 private:
  static float Number(std::span<const callout_buffer> buffers) { return *static_cast<const float*>(buffers[0].data); }
};

TEST_P(TapHandlerTest, WhatPassesIsCountedAndTheRestIsInspected) {
  const auto callback = std::make_shared<PassingCallback>();
  ASSERT_EQ(Registry::Get().Bind("test.tap", callback), "py:test.tap");
  const auto site = NewSite();
  site->device_ordinal = 3;
  site->run_id = 70;
  FrameBuilder good = Frame(), bad = Frame();
  good.Arg(TestBuffer::Scalar<float>(0));
  bad.Arg(TestBuffer::Scalar<float>(1));
  ASSERT_THAT(site->Instantiate(good), IsOk());
  constexpr uint64_t kTimes = 1000;
  for (uint64_t i = 0; i < kTimes; ++i) {
    ASSERT_THAT(site->Execute(i % 100 == 99 ? bad : good), IsOk());
    ASSERT_EQ(callback->stats().calls(), i + 1);
    ASSERT_EQ(callback->stats().bytes(), (i + 1) * sizeof(float));
  }
  EXPECT_THAT(callback->inspected, AllOf(SizeIs(kTimes / 100), Each(std::pair(3, int64_t{70}))));
#ifdef CALLOUT_ADDRESS_SANITIZER
  constexpr uint64_t kLeast = 0;  // sanitizers make inspections long, and long ones are always timed
#else
  constexpr uint64_t kLeast = kTimes / 2;
#endif
  EXPECT_GT(callback->stats().passes.load(), kLeast);
  EXPECT_GT(callback->stats().host_ticks.load(), 0U) << "some are timed";
}

// A throttle or a filter counts left-out records by device, so Passes must not bypass it.
TEST_P(TapHandlerTest, NothingPassesWhereRecordsAreLeftOut) {
  const auto callback = std::make_shared<PassingCallback>();
  ASSERT_EQ(Registry::Get().Bind("test.tap", callback), "py:test.tap");
  for (const char* attribute : {"every", "only_device"}) {
    ResetStats();
    const auto site = NewSite();
    FrameBuilder frame = Frame();
    frame.Int64Attr(attribute, 2).Arg(TestBuffer::Scalar<float>(0));
    ASSERT_THAT(site->Instantiate(frame), IsOk());
    for (int i = 0; i < 400; ++i) ASSERT_THAT(site->Execute(frame), IsOk());
    const bool every = std::string(attribute) == "every";
    EXPECT_EQ(callback->stats().calls(), every ? 200U : 0U);
    EXPECT_EQ(callback->stats().skips.load(), every ? 200U : 0U);
  }
}

TEST_P(TapHandlerTest, EveryThirdIsTaken) {
  const auto callback = Bind();
  std::vector<int32_t> values;
  callback->on_deliver = [&](const Record& record) {
    return values.push_back(*static_cast<const int32_t*>(record.buffers[0].data)), OkStatus();
  };
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.Int64Attr("every", 3).Arg(TestBuffer::Scalar(int32_t{0}));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  for (uint8_t i = 0; i < 8; ++i) {
    frame.arg(0).bytes()[0] = i;
    ASSERT_THAT(site->Execute(frame), IsOk());
  }
  Barrier();
  EXPECT_THAT(values, ElementsAre(0, 3, 6));
  EXPECT_EQ(callback->stats().skips.load(), 5U);
}

TEST_P(TapHandlerTest, StepIsNoPartOfTheValueAndSaysWhoseTurnItIs) {
  const auto callback = Bind();
  std::vector<std::pair<std::optional<int64_t>, uint32_t>> steps;
  callback->on_deliver = [&](const Record& record) {
    EXPECT_EQ(record.buffers.size(), 1U);
    EXPECT_EQ(*static_cast<const int32_t*>(record.buffers[0].data), 5);
    return steps.emplace_back(record.step, record.skipped), OkStatus();
  };
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.Int64Attr("every", 4).Int64Attr("step", 1).Arg(TestBuffer::Scalar(int32_t{5}));
  frame.Arg(TestBuffer::Scalar(int16_t{0}));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  for (uint8_t i = 6; i < 13; ++i) {
    frame.arg(1).bytes()[0] = i;
    ASSERT_THAT(site->Execute(frame), IsOk());
  }
  Barrier();
  EXPECT_THAT(steps, ElementsAre(std::pair(8, 2U), std::pair(12, 3U)));
}

TEST_P(TapHandlerTest, StepLiesBetweenTheLeavesAndTheOffsets) {
  const auto callback = Bind();
  std::vector<int64_t> offsets;
  callback->on_deliver = [&](const Record& record) {
    EXPECT_EQ(record.buffers.size(), 1U);
    EXPECT_EQ(record.step, 7);
    return offsets.assign(record.offsets.begin(), record.offsets.end()), OkStatus();
  };
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.Int64Attr("offsets", 1).Int64Attr("step", 1).Arg(TestBuffer::Of<float>({2}, {1, 2}));
  frame.Arg(TestBuffer::Of<int64_t>({2}, {7, 8})).Arg(TestBuffer::Of<int64_t>({1}, {40}));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  Barrier();
  EXPECT_THAT(offsets, ElementsAre(40));
}

TEST_P(TapHandlerTest, SettingsOutOfRangeFailTheLoad) {
  const auto callback = Bind();
  const auto policies = static_cast<int64_t>(kOverflowPolicyNames.size());
  EXPECT_THAT(InstantiateWith("on_full", policies),
              StatusIs(StatusCode::kInvalidArgument, "attribute 'on_full' must be 0 (block), 1 (drop_newest), "));
  EXPECT_THAT(InstantiateWith("sample_ppb", 0),
              StatusIs(StatusCode::kInvalidArgument, "'sample_ppb' must be 1 to 1000000000, got 0"));
  EXPECT_THAT(InstantiateWith("on_full", -1), StatusIs(StatusCode::kInvalidArgument, "got -1"));
  EXPECT_THAT(InstantiateWith("every", 0), StatusIs(StatusCode::kInvalidArgument, "'every' must be at least 1, got 0"));
  EXPECT_THAT(InstantiateWith("min_interval_ns", -1),
              StatusIs(StatusCode::kInvalidArgument, "'min_interval_ns' must be at least 0, got -1"));
  for (int64_t on_full = 0; on_full < policies; ++on_full) EXPECT_THAT(InstantiateWith("on_full", on_full), IsOk());
}

TEST_P(TapHandlerTest, QueuedRecordsOutliveTheExecutable) {
  auto callback = std::make_shared<BlockingCallback>("test.tap");
  (void)Registry::Get().Bind("test.tap", callback);
  const int64_t sites = LiveCount(LiveKind::kSite);
  auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.Arg(TestBuffer::Scalar(1));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  for (int i = 0; i < 3; ++i) ASSERT_THAT(site->Execute(frame), IsOk());
  callback->WaitUntilEntered(1);
  site.reset();
  EXPECT_EQ(LiveCount(LiveKind::kSite), sites + 1);
  callback->Open();
  Barrier();
  EXPECT_EQ(callback->entered(), 3);
  EXPECT_EQ(LiveCount(LiveKind::kSite), sites);
}

TEST_P(TapHandlerTest, ExecutableThatNeverRanLeavesNothing) {
  const auto callback = Bind();
  const int64_t sites = LiveCount(LiveKind::kSite);
  {
    FrameBuilder frame = Frame();
    const auto site = NewSite();
    ASSERT_THAT(site->Instantiate(frame), IsOk());
    EXPECT_EQ(LiveCount(LiveKind::kSite), sites + 1);
  }
  Barrier();
  EXPECT_EQ(LiveCount(LiveKind::kSite), sites);
}

INSTANTIATE_TEST_SUITE_P(Minors, TapHandlerTest, ::testing::Values(2, 3, 4, 5));

}  // namespace
}  // namespace callout::internal
