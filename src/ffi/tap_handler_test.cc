// SPDX-License-Identifier: Apache-2.0
//
// callout.v1.tap from registration to the end of the executable, on runtimes of four ages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "callbacks/failures.h"
#include "callbacks/registry.h"
#include "callbacks/stats_table.h"
#include "delivery/delivery.h"
#include "ffi/handlers.h"
#include "testing/fake_callbacks.h"
#include "testing/fake_runtime.h"
#include "testing/live_counts.h"
#include "testing/log_capture.h"
#include "testing/spin.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

TEST_P(TapHandlerTest, RecordHasTheSitesNamesAndTheCallsData) {
  const auto callback = Bind();
  std::vector<std::string> seen;
  callback->on_deliver = [&](const Record& record) {
    seen = {record.site->label, std::to_string(record.device_ordinal), std::to_string(record.run_id)};
    seen.insert(seen.end(), record.site->leaf_names.begin(), record.site->leaf_names.end());
    for (const callout_buffer& buffer : record.buffers) {
      seen.push_back(std::to_string(*static_cast<const int32_t*>(buffer.data)));
    }
    return OkStatus();
  };
  const auto site = NewSite();
  site->device_ordinal = 1;
  site->run_id = 44;
  FrameBuilder frame = Frame();
  frame.StringAttr("label", "step").StringAttr("leaves", "loss\ngrads");
  frame.TokenArg().Arg(TestBuffer::Scalar(int32_t{5})).Arg(TestBuffer::Of<int32_t>({2}, {6, 7})).TokenRet();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  Barrier();
  EXPECT_THAT(seen, ElementsAre("step", "1", "44", "loss", "grads", "5", "6"));
}

TEST_P(TapHandlerTest, LabelIsTheCallbacksByDefault) {
  const auto callback = Bind();
  std::string label;
  callback->on_deliver = [&](const Record& record) { return label = record.site->label, OkStatus(); };
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.Arg(TestBuffer::Scalar(1));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  Barrier();
  EXPECT_EQ(label, "test.tap");
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
    return steps.emplace_back(record.step, record.unsent), OkStatus();
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

TEST_P(TapHandlerTest, StepThatIsNoIntegerFailsTheProgram) {
  const auto callback = Bind();
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.Int64Attr("step", 1).Arg(TestBuffer::Scalar(1)).Arg(TestBuffer::Scalar(2.0F));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInvalidArgument, "expected its step, an integer"));
  FrameBuilder without = Frame();
  without.Int64Attr("step", 1).Arg(TestBuffer::Scalar(1));
  EXPECT_THAT(site->Execute(without), StatusIs(StatusCode::kInvalidArgument, "got no operand"));
}

TEST_P(TapHandlerTest, OnlyTheDeviceAndTheProcessThatWereNamedSend) {
  const auto callback = Bind();
  const auto send = [&](const char* attribute, int64_t number) {
    const auto site = NewSite();
    FrameBuilder frame = Frame();
    frame.Int64Attr(attribute, number).Arg(TestBuffer::Scalar(1));
    ASSERT_THAT(site->Instantiate(frame), IsOk());
    ASSERT_THAT(site->Execute(frame), IsOk());
    Barrier();
  };
  send("only_device", 77);
  send("only_process", 1);
  EXPECT_EQ(callback->stats().calls.load(), 0U);
  EXPECT_EQ(callback->stats().skips.load(), 0U) << "it was not its turn to send";
  SetProcessIndex(1);
  send("only_process", 1);
  SetProcessIndex(0);
  EXPECT_EQ(callback->stats().calls.load(), 1U);
}

TEST_P(TapHandlerTest, IntervalLetsTheFirstThrough) {
  const auto callback = Bind();
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.Int64Attr("min_interval_ns", int64_t{1} << 50).Arg(TestBuffer::Scalar(1));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  for (int i = 0; i < 3; ++i) ASSERT_THAT(site->Execute(frame), IsOk());
  Barrier();
  EXPECT_EQ(callback->stats().calls.load(), 1U);
  EXPECT_EQ(callback->stats().skips.load(), 2U);
}

TEST_P(TapHandlerTest, SettingsOutOfRangeFailTheLoad) {
  const auto callback = Bind();
  EXPECT_THAT(InstantiateWith("on_full", 3),
              StatusIs(StatusCode::kInvalidArgument,
                       "attribute 'on_full' must be 0 (block), 1 (drop_newest), 2 (fail), got 3"));
  EXPECT_THAT(InstantiateWith("sample_ppb", 0),
              StatusIs(StatusCode::kInvalidArgument, "'sample_ppb' must be 1 to 1000000000, got 0"));
  EXPECT_THAT(InstantiateWith("on_full", -1), StatusIs(StatusCode::kInvalidArgument, "got -1"));
  EXPECT_THAT(InstantiateWith("every", 0), StatusIs(StatusCode::kInvalidArgument, "'every' must be at least 1, got 0"));
  EXPECT_THAT(InstantiateWith("min_interval_ns", -1),
              StatusIs(StatusCode::kInvalidArgument, "'min_interval_ns' must be at least 0, got -1"));
  for (int64_t on_full = 0; on_full <= 2; ++on_full) EXPECT_THAT(InstantiateWith("on_full", on_full), IsOk());
}

TEST_P(TapHandlerTest, UnknownNameFailsTheLoad) {
  FrameBuilder frame;
  frame.StringAttr("callback", "nobody");
  EXPECT_THAT(NewSite()->Instantiate(frame), StatusIs(StatusCode::kNotFound, "'nobody'"));
}

TEST_P(TapHandlerTest, OperandsMustMatchTheLeaves) {
  const auto callback = Bind();
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.StringAttr("leaves", "a\nb").StringAttr("label", "step").Arg(TestBuffer::Scalar(1));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  EXPECT_THAT(site->Execute(frame),
              StatusIs(StatusCode::kInvalidArgument,
                       "callout: tap 'step': expected 2 operands (attributes `leaves`, `offsets`), got 1"));
}

TEST_P(TapHandlerTest, OffsetsAreNotPartOfTheValue) {
  const auto callback = Bind();
  std::vector<int64_t> offsets;
  size_t num_buffers = 0;
  callback->on_deliver = [&](const Record& record) {
    offsets.assign(record.offsets.begin(), record.offsets.end());
    return num_buffers = record.buffers.size(), OkStatus();
  };
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.Int64Attr("offsets", 1).Arg(TestBuffer::Of<float>({1, 2}, {1, 2}));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInvalidArgument, "expected 2 operands"));
  frame.Arg(TestBuffer::Of<int64_t>({2}, {6, 4}));
  ASSERT_THAT(site->Execute(frame), IsOk());
  Barrier();
  EXPECT_THAT(offsets, ElementsAre(6, 4));
  EXPECT_EQ(num_buffers, 1U);
}

TEST_P(TapHandlerTest, DeferredTapGivesItsFailureAsANumber) {
  const auto callback = Bind();
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.StringAttr("leaves", "a\nb").Int64Attr("deferred", 1).Arg(TestBuffer::Scalar(1)).Ret(DType::kInt32, {});
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  const std::optional<Status> failure = FindFailure(frame.ret(0).values<int32_t>()[0]);
  ASSERT_TRUE(failure.has_value());
  EXPECT_THAT(*failure, StatusIs(StatusCode::kInvalidArgument, "expected 2 operands"));
  frame.Arg(TestBuffer::Scalar(2));
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(frame.ret(0).values<int32_t>()[0], 0);
  Barrier();
  EXPECT_EQ(callback->stats().calls.load(), 1U);
}

TEST_P(TapHandlerTest, ThreadedTapPassesItsTokenOnAndTheRestIsTheValue) {
  const auto callback = Bind();
  std::vector<int32_t> values;
  callback->on_deliver = [&](const Record& record) {
    for (const callout_buffer& buffer : record.buffers) values.push_back(*static_cast<const int32_t*>(buffer.data));
    return OkStatus();
  };
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.Int64Attr("threaded", 1).StringAttr("leaves", "a\nb");
  frame.Arg(TestBuffer::Scalar(uint32_t{7})).Arg(TestBuffer::Scalar(int32_t{5})).Arg(TestBuffer::Scalar(int32_t{6}));
  frame.Ret(DType::kUint32, {});
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  Barrier();
  EXPECT_THAT(values, ElementsAre(5, 6));
  EXPECT_EQ(frame.ret(0).values<uint32_t>()[0], 7U);
}

TEST_P(TapHandlerTest, ReturnedOperandsAreResultsBetweenTheTokenAndTheStatus) {
  const auto callback = Bind();
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.Int64Attr("threaded", 1)
      .Int64Attr("deferred", 1)
      .Int64ArrayAttr("returned", {1, 0})
      .StringAttr("leaves", "a\nb");
  frame.Arg(TestBuffer::Scalar(uint32_t{7}))
      .Arg(TestBuffer::Of<int32_t>({2}, {5, 6}))
      .Arg(TestBuffer::Scalar(int16_t{8}));
  frame.Ret(DType::kUint32, {}).Ret(DType::kInt16, {}).Ret(DType::kInt32, {2}).Ret(DType::kInt32, {});
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(frame.ret(0).values<uint32_t>()[0], 7U);
  EXPECT_EQ(frame.ret(1).values<int16_t>()[0], 8);
  EXPECT_THAT(frame.ret(2).values<int32_t>(), ElementsAre(5, 6));
  EXPECT_EQ(frame.ret(3).values<int32_t>()[0], 0);
  Barrier();
  EXPECT_EQ(callback->stats().calls.load(), 1U);
}

TEST_P(TapHandlerTest, ReturnedOperandsThatAreNotWhatTheResultsAreFailTheProgram) {
  const auto callback = Bind();
  const auto fails = [&](std::vector<int64_t> returned, size_t results, const char* text) {
    const auto site = NewSite();
    FrameBuilder frame = Frame();
    frame.Int64ArrayAttr("returned", std::move(returned)).Arg(TestBuffer::Scalar(1));
    for (size_t i = 0; i < results; ++i) frame.Ret(DType::kInt64, {});
    ASSERT_THAT(site->Instantiate(frame), IsOk());
    EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInvalidArgument, text));
  };
  fails({0}, 0, "operand 0 and result 0");
  fails({0}, 1, "operand 0 and result 0");  // of another size
  fails({1}, 1, "operand 1 and result 0");
  fails({0}, 2, "expected 1 results (attributes `threaded`, `returned`, `deferred`), got 2");
  EXPECT_EQ(callback->stats().calls.load(), 0U);
}

TEST_P(TapHandlerTest, ThreadedTapWithoutATokenIsAnError) {
  const auto callback = Bind();
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.Int64Attr("threaded", 1).Arg(TestBuffer::Scalar(int32_t{5}));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInvalidArgument,
                                             "callout: a threaded call's first operand and first result must be u32[], "
                                             "got s32[] and nothing"));
}

TEST_P(TapHandlerTest, FailingCallbackDoesNotFailTheProgram) {
  const LogCapture log;
  const auto callback = Bind();
  callback->on_deliver = [](const Record&) -> Status { throw 42; };
  const auto site = NewSite();
  FrameBuilder frame = Frame();
  frame.Arg(TestBuffer::Scalar(1));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  Barrier();
  const DeliveryErrorReport report = Delivery::Get().TakeErrors();
  EXPECT_EQ(report.count, 2U);
  EXPECT_EQ(report.last,
            "callout: callback 'test.tap' failed on device 0: it threw something that is not a std::exception");
  EXPECT_THAT(log.messages(), ElementsAre(HasSubstr("'test.tap'")));
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
