// SPDX-License-Identifier: Apache-2.0
//
// The behaviour of callout.v1.tap on every platform.
#include <algorithm>
#include <string>

#include "testing/handler_conformance.h"
#include "testing/log_capture.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename Platform>
class TapConformance : public HandlerConformance<Platform> {
 protected:
  /// Adds the first number of each record to `values_`.
  void SetUp() override {
    HandlerConformance<Platform>::SetUp();
    this->callback_->on_deliver = [this](const Record& record) {
      values_.push_back(*static_cast<const float*>(record.buffers[0].data));
      return OkStatus();
    };
  }

  std::vector<float> values_;
};
TYPED_TEST_SUITE(TapConformance, HandlerPlatforms, PlatformNames);

TYPED_TEST(TapConformance, RecordHasTheSitesNamesAndTheCallsData) {
  std::vector<std::string> seen;
  this->callback_->on_deliver = [&](const Record& record) {
    seen = {record.site->label, std::to_string(record.device_ordinal), std::to_string(record.run_id)};
    seen.insert(seen.end(), record.site->leaf_names.begin(), record.site->leaf_names.end());
    for (const callout_buffer& buffer : record.buffers.first(2)) {
      seen.push_back(std::to_string(buffer.rank) + ":" + std::to_string(*static_cast<const int32_t*>(buffer.data)));
    }
    EXPECT_EQ(record.buffers[2].size_bytes, 0U);
    return OkStatus();
  };
  const auto site = this->NewTap(1);
  site->run_id = 44;
  FrameBuilder frame = this->Frame();
  frame.StringAttr("label", "step").StringAttr("leaves", "loss\ngrads\nempty").TokenArg().TokenRet();
  frame.Arg(this->template OnDevice<int32_t>({}, {5}, 1)).Arg(this->template OnDevice<int32_t>({2}, {6, 7}, 1));
  frame.Arg(TestBuffer::At(DType::kFloat32, {0}, nullptr));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  this->Barrier();
  EXPECT_THAT(seen, ElementsAre("step", "1", "44", "loss", "grads", "empty", "0:5", "1:6"));
}

TYPED_TEST(TapConformance, LabelIsTheCallbacksByDefault) {
  std::string label;
  this->callback_->on_deliver = [&](const Record& record) { return label = record.site->label, OkStatus(); };
  FrameBuilder frame = this->Frame();
  frame.Arg(this->OnDevice({}, {1}));
  ASSERT_THAT(this->RunTap(frame), IsOk());
  this->Barrier();
  EXPECT_EQ(label, "test.f");
}

TYPED_TEST(TapConformance, TapWithoutArraysSaysThatItWasReached) {
  this->callback_->on_deliver = [](const Record&) { return OkStatus(); };
  FrameBuilder frame = this->Frame();
  ASSERT_THAT(this->RunTap(frame), IsOk());
  this->Barrier();
  EXPECT_EQ(this->callback_->stats().calls(), 1U);
}

TYPED_TEST(TapConformance, EveryThirdIsTakenAndTheRestIsCounted) {
  const auto site = this->NewTap();
  FrameBuilder frame = this->Frame();
  frame.Int64Attr("every", 3).Arg(this->OnDevice({}, {1}));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  for (int i = 0; i < 8; ++i) ASSERT_THAT(site->Execute(frame), IsOk());
  this->Barrier();
  EXPECT_EQ(this->callback_->stats().calls(), 3U);
  EXPECT_EQ(this->callback_->stats().skips.load(), 5U);
}

TYPED_TEST(TapConformance, IntervalLetsTheFirstThrough) {
  const auto site = this->NewTap();
  FrameBuilder frame = this->Frame();
  frame.Int64Attr("min_interval_ns", int64_t{1} << 50).Arg(this->OnDevice({}, {1}));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  for (int i = 0; i < 3; ++i) ASSERT_THAT(site->Execute(frame), IsOk());
  this->Barrier();
  EXPECT_EQ(this->callback_->stats().calls(), 1U);
  EXPECT_EQ(this->callback_->stats().skips.load(), 2U);
}

TYPED_TEST(TapConformance, OnlyTheDeviceAndTheProcessThatWereNamedSend) {
  const auto send = [&](const char* attribute, int64_t number) {
    FrameBuilder frame = this->Frame();
    frame.Int64Attr(attribute, number).Arg(this->OnDevice({}, {1}));
    ASSERT_THAT(this->RunTap(frame), IsOk());
    this->Barrier();
  };
  send("only_device", 1);
  send("only_process", 1);
  EXPECT_EQ(this->callback_->stats().calls(), 0U);
  EXPECT_EQ(this->callback_->stats().skips.load(), 0U) << "it was not its turn to send";
  SetProcessIndex(1);
  send("only_process", 1);
  SetProcessIndex(0);
  EXPECT_EQ(this->callback_->stats().calls(), 1U);
}

TYPED_TEST(TapConformance, StepThatIsNoIntegerFailsTheProgram) {
  FrameBuilder frame = this->Frame();
  frame.Int64Attr("step", 1).Arg(this->OnDevice({}, {1})).Arg(this->OnDevice({}, {1}));
  EXPECT_THAT(this->RunTap(frame), StatusIs(StatusCode::kInvalidArgument, "expected its step, an integer"));
  FrameBuilder without = this->Frame();
  without.Int64Attr("step", 1).Arg(this->OnDevice({}, {1}));
  EXPECT_THAT(this->RunTap(without), StatusIs(StatusCode::kInvalidArgument, "got no operand"));
}

TYPED_TEST(TapConformance, OperandsMustMatchTheLeaves) {
  FrameBuilder frame = this->Frame();
  frame.StringAttr("leaves", "a\nb").StringAttr("label", "step").Arg(this->OnDevice({}, {1}));
  EXPECT_THAT(this->RunTap(frame),
              StatusIs(StatusCode::kInvalidArgument,
                       "callout: tap 'step': expected 2 operands (attributes `leaves`, `offsets`), got 1"));
}

TYPED_TEST(TapConformance, OffsetsAreNotPartOfTheValue) {
  std::vector<int64_t> offsets;
  this->callback_->on_deliver = [&](const Record& record) {
    EXPECT_EQ(record.buffers.size(), 1U);
    return offsets.assign(record.offsets.begin(), record.offsets.end()), OkStatus();
  };
  FrameBuilder frame = this->Frame();
  frame.Int64Attr("offsets", 1).Arg(this->OnDevice({1, 2}, {1, 2}));
  EXPECT_THAT(this->RunTap(frame), StatusIs(StatusCode::kInvalidArgument, "expected 2 operands"));
  frame.Arg(this->template OnDevice<int64_t>({2}, {6, 4}));
  ASSERT_THAT(this->RunTap(frame), IsOk());
  this->Barrier();
  EXPECT_THAT(offsets, ElementsAre(6, 4));
}

TYPED_TEST(TapConformance, DeferredTapGivesItsFailureAsANumber) {
  FrameBuilder frame = this->Frame();
  frame.StringAttr("leaves", "a\nb").Int64Attr("deferred", 1).Arg(this->OnDevice({}, {1}));
  frame.Ret(this->template OnDevice<int32_t>({}, {77}));
  ASSERT_THAT(this->RunTap(frame), IsOk());
  EXPECT_THAT(this->Failure(this->template Read<int32_t>(frame.ret(0))[0]),
              StatusIs(StatusCode::kInvalidArgument, "expected 2 operands"));
  frame.Arg(this->OnDevice({}, {2}));
  ASSERT_THAT(this->RunTap(frame), IsOk());
  EXPECT_THAT(this->template Read<int32_t>(frame.ret(0)), ElementsAre(0));
  this->Barrier();
  EXPECT_THAT(this->values_, ElementsAre(1));
}

TYPED_TEST(TapConformance, ReturnedOperandsAreResultsBetweenTheTokenAndTheStatus) {
  FrameBuilder frame = this->Frame();
  frame.Int64Attr("threaded", 1).Int64Attr("deferred", 1).Int64ArrayAttr("returned", {1, 0});
  frame.StringAttr("leaves", "a\nb").Arg(this->template OnDevice<uint32_t>({}, {7}));
  frame.Arg(this->OnDevice({2}, {5, 6})).Arg(this->template OnDevice<int16_t>({}, {8}));
  frame.Ret(this->template OnDevice<uint32_t>({}, {0})).Ret(this->template OnDevice<int16_t>({}, {0}));
  frame.Ret(this->OnDevice({2}, {0, 0})).Ret(this->template OnDevice<int32_t>({}, {77}));
  ASSERT_THAT(this->RunTap(frame), IsOk());
  EXPECT_THAT(this->template Read<uint32_t>(frame.ret(0)), ElementsAre(7U));
  EXPECT_THAT(this->template Read<int16_t>(frame.ret(1)), ElementsAre(8));
  EXPECT_THAT(this->Read(frame.ret(2)), ElementsAre(5, 6));
  EXPECT_THAT(this->template Read<int32_t>(frame.ret(3)), ElementsAre(0));
  this->Barrier();
  EXPECT_THAT(this->values_, ElementsAre(5));
}

TYPED_TEST(TapConformance, ReturnedOperandsThatAreNotWhatTheResultsAreFailTheProgram) {
  const auto fails = [&](std::vector<int64_t> returned, size_t results, const char* text) {
    FrameBuilder frame = this->Frame();
    frame.Int64ArrayAttr("returned", std::move(returned)).Arg(this->OnDevice({}, {1}));
    for (size_t i = 0; i < results; ++i) frame.Ret(this->template OnDevice<int64_t>({}, {0}));
    EXPECT_THAT(this->RunTap(frame), StatusIs(StatusCode::kInvalidArgument, text));
  };
  fails({0}, 0, "operand 0 and result 0");
  fails({0}, 1, "operand 0 and result 0");  // the sizes differ
  fails({1}, 1, "operand 1 and result 0");
  fails({0}, 2, "expected 1 results (attributes `threaded`, `returned`, `deferred`), got 2");
  EXPECT_EQ(this->callback_->stats().calls(), 0U);
}

TYPED_TEST(TapConformance, ThreadedTapWithoutATokenIsAnError) {
  FrameBuilder frame = this->Frame();
  frame.Int64Attr("threaded", 1).Arg(this->template OnDevice<int32_t>({}, {5}));
  EXPECT_THAT(this->RunTap(frame), StatusIs(StatusCode::kInvalidArgument,
                                            "callout: a threaded call's first operand and first result must be u32[], "
                                            "got s32[] and nothing"));
}

TYPED_TEST(TapConformance, FailingCallbackDoesNotFailTheProgram) {
  const LogCapture log;
  this->callback_->on_deliver = [](const Record&) -> Status { throw 42; };
  const auto site = this->NewTap();
  FrameBuilder frame = this->Frame();
  frame.Arg(this->OnDevice({}, {1}));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  this->Barrier();
  const DeliveryErrorReport report = Delivery::Get().TakeErrors();
  EXPECT_EQ(report.count, 2U);
  EXPECT_EQ(report.last.message(),
            "callout: callback 'test.f' failed on device 0: it threw something that is not a std::exception");
  EXPECT_THAT(log.messages(), ElementsAre(HasSubstr("'test.f'")));
}

TYPED_TEST(TapConformance, UnknownNameFailsTheLoad) {
  FrameBuilder frame;
  frame.StringAttr("callback", "nobody");
  EXPECT_THAT(this->NewTap()->Instantiate(frame), StatusIs(StatusCode::kNotFound, "'nobody'"));
}

TYPED_TEST(TapConformance, DevicesAreIndependent) {
  std::vector<std::pair<int32_t, float>> values;
  this->callback_->on_deliver = [&](const Record& record) {
    values.emplace_back(record.device_ordinal, *static_cast<const float*>(record.buffers[0].data));
    return OkStatus();
  };
  for (int device : {0, 1}) {
    FrameBuilder frame = this->Frame();
    frame.Arg(this->OnDevice({}, {static_cast<float>(device + 1)}, device));
    ASSERT_THAT(this->RunTap(frame, device), IsOk());
  }
  this->Barrier();
  std::sort(values.begin(), values.end());
  EXPECT_THAT(values, ElementsAre(std::pair(0, 1.0F), std::pair(1, 2.0F)));
}

}  // namespace
}  // namespace callout::internal
