// SPDX-License-Identifier: Apache-2.0
//
// The behaviour of callout.v1.tap on every platform.
#include <algorithm>
#include <string>

#include "core/frame/buffer.h"
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

template <typename Platform>
class TapRowsConformance : public HandlerConformance<Platform> {
 protected:
  /// Adds a line for each record to `lines_`: its step, how many were left out before it, the first numbers of its
  /// arrays, and its offsets.
  void SetUp() override {
    HandlerConformance<Platform>::SetUp();
    this->callback_->on_deliver = [this](const Record& record) {
      std::string line = record.step ? std::to_string(*record.step) : "no step";
      line += ", " + std::to_string(record.skipped) + " left out";
      for (const callout_buffer& buffer : record.buffers) {
        line += ", " + ShapeString(buffer);
        if (buffer.size_bytes > 0) line += " " + std::to_string(*static_cast<const int32_t*>(buffer.data));
      }
      for (const int64_t offset : record.offsets) line += ", at " + std::to_string(offset);
      lines_.push_back(line);
      sequences_.push_back(record.sequence);
      return OkStatus();
    };
  }

  static FrameBuilder Frame() {
    FrameBuilder frame = HandlerConformance<Platform>::Frame();
    frame.Int64Attr("rows", 1);
    return frame;
  }
  TestBuffer Integers(const std::vector<int32_t>& values) {
    return this->template OnDevice<int32_t>({static_cast<int64_t>(values.size())}, values);
  }
  TestBuffer Count(uint32_t count) { return this->template OnDevice<uint32_t>({}, {count}); }

  /// Runs a program. Returns its error, or the first one that comes up after it: on a GPU, the number of rows arrives
  /// later.
  Status FailureOf(FrameBuilder& frame) {
    const Status status = this->RunTap(frame);
    this->Barrier();
    const DeliveryErrorReport report = Delivery::Get().TakeErrors();
    return status.ok() && report.count > 0 ? report.first.front() : status;
  }

  std::vector<std::string> lines_;
  std::vector<uint64_t> sequences_;
};
TYPED_TEST_SUITE(TapRowsConformance, HandlerPlatforms, PlatformNames);

TYPED_TEST(TapRowsConformance, EachFilledRowIsARecord) {
  const auto site = this->NewTap();
  const auto send = [&](uint32_t count) {
    FrameBuilder frame = this->Frame();
    frame.StringAttr("leaves", "loss\nnorms\nempty").Arg(this->Integers({1, 2, 3, 4}));
    frame.Arg(this->template OnDevice<int32_t>({4, 2}, {10, 11, 20, 21, 30, 31, 40, 41}));
    frame.Arg(TestBuffer::At(DType::kFloat32, {4, 0}, nullptr)).Arg(this->Count(count));
    if (count == 3) {
      ASSERT_THAT(site->Instantiate(frame), IsOk());
    }
    ASSERT_THAT(site->Execute(frame), IsOk());
  };
  for (const uint32_t count : {3, 0, 1}) send(count);
  this->Barrier();
  EXPECT_THAT(this->lines_, ElementsAre("no step, 0 left out, s32[] 1, s32[2] 10, f32[0]",
                                        "no step, 0 left out, s32[] 2, s32[2] 20, f32[0]",
                                        "no step, 0 left out, s32[] 3, s32[2] 30, f32[0]",
                                        "no step, 0 left out, s32[] 1, s32[2] 10, f32[0]"));
  for (size_t i = 1; i < this->sequences_.size(); ++i) EXPECT_EQ(this->sequences_[i], this->sequences_[i - 1] + 1);
  EXPECT_EQ(this->callback_->stats().calls(), 4U);
}

TYPED_TEST(TapRowsConformance, EveryMeansTheStepsOfRowsThatItDivides) {
  const auto site = this->NewTap();
  const auto send = [&](const std::vector<int32_t>& steps) {
    FrameBuilder frame = this->Frame();
    frame.Int64Attr("step", 1).Int64Attr("every", 4).Arg(this->Integers({1, 2, 3, 4, 5}));
    frame.Arg(this->Integers(steps)).Arg(this->Count(4));
    if (steps[0] == 3) {
      ASSERT_THAT(site->Instantiate(frame), IsOk());
    }
    ASSERT_THAT(site->Execute(frame), IsOk());
  };
  send({3, 4, 8, 9, 12});
  send({13, 14, 15, 17, 20});
  send({18, 20, 21, 22, 24});
  this->Barrier();
  EXPECT_THAT(this->lines_, ElementsAre("4, 1 left out, s32[] 2", "8, 0 left out, s32[] 3", "20, 6 left out, s32[] 2"));
  EXPECT_EQ(this->callback_->stats().skips.load(), 9U);
  EXPECT_EQ(this->callback_->stats().drops.load(), 0U);
}

TYPED_TEST(TapRowsConformance, EverySecondRowHasItsTurnAcrossCalls) {
  const auto site = this->NewTap();
  FrameBuilder frame = this->Frame();
  frame.Int64Attr("every", 2).Arg(this->Integers({1, 2, 3})).Arg(this->Count(3));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  for (int i = 0; i < 2; ++i) ASSERT_THAT(site->Execute(frame), IsOk());
  this->Barrier();
  EXPECT_THAT(this->lines_, ElementsAre("no step, 0 left out, s32[] 1", "no step, 1 left out, s32[] 3",
                                        "no step, 1 left out, s32[] 2"));
}

TYPED_TEST(TapRowsConformance, OffsetsStepsAndTheTokenAreNotPartOfARow) {
  FrameBuilder frame = this->Frame();
  frame.Int64Attr("step", 1).Int64Attr("offsets", 1).Int64Attr("threaded", 1).Int64Attr("deferred", 1);
  frame.Arg(this->template OnDevice<uint32_t>({}, {7})).Ret(this->template OnDevice<uint32_t>({}, {0}));
  frame.Arg(this->template OnDevice<int32_t>({2, 1, 2}, {10, 11, 20, 21})).Arg(this->Integers({5, 6}));
  frame.Arg(this->Count(2)).Arg(this->template OnDevice<int64_t>({3}, {0, 3, 8}));
  frame.Ret(this->template OnDevice<int32_t>({}, {77}));
  ASSERT_THAT(this->RunTap(frame), IsOk());
  EXPECT_THAT(this->template Read<uint32_t>(frame.ret(0)), ElementsAre(7U));
  EXPECT_THAT(this->template Read<int32_t>(frame.ret(1)), ElementsAre(0));
  this->Barrier();
  EXPECT_THAT(this->lines_,
              ElementsAre("5, 0 left out, s32[1,2] 10, at 3, at 8", "6, 0 left out, s32[1,2] 20, at 3, at 8"));
}

TYPED_TEST(TapRowsConformance, OperandsThatDoNotFitAreAnError) {
  FrameBuilder more = this->Frame();
  more.StringAttr("label", "loss").Arg(this->Integers({1, 2})).Arg(this->Count(3));
  EXPECT_THAT(this->FailureOf(more),
              StatusIs(StatusCode::kInvalidArgument,
                       "callout: tap 'loss': expected arrays of at least 3 rows, as many as the program filled"));
  FrameBuilder without_count = this->Frame();
  without_count.Arg(this->Integers({1, 2}));
  EXPECT_THAT(this->FailureOf(without_count), StatusIs(StatusCode::kInvalidArgument, "expected 2 operands"));
  FrameBuilder no_integers = this->Frame();
  no_integers.Int64Attr("step", 1).Arg(this->Integers({1})).Arg(this->OnDevice({1}, {1})).Arg(this->Count(1));
  EXPECT_THAT(this->FailureOf(no_integers),
              StatusIs(StatusCode::kInvalidArgument, "expected the steps of its rows, integers"));
  EXPECT_THAT(this->lines_, ElementsAre());
  FrameBuilder fits = this->Frame();
  fits.Arg(this->Integers({1, 2})).Arg(this->Count(2));
  EXPECT_THAT(this->FailureOf(fits), IsOk());
  EXPECT_EQ(this->lines_.size(), 2U);
}

TYPED_TEST(TapRowsConformance, CallbackThatLooksAtValuesInTheProgramTakesNoRows) {
  struct Looking final : FakeCallback, Inspector {
    using FakeCallback::FakeCallback;
    Inspector* inspector() override { return this; }
    Result<Send> Inspect(const Record&) override { return Send::kRecord; }
  };
  const auto looking = std::make_shared<Looking>("test.looks");
  EXPECT_EQ(Registry::Get().Bind("test.looks", looking), "py:test.looks");
  FrameBuilder frame;
  frame.StringAttr("callback", "py:test.looks").StringAttr("label", "loss");
  EXPECT_THAT(this->NewTap()->Instantiate(frame), IsOk());
  frame.Int64Attr("rows", 1);
  EXPECT_THAT(this->NewTap()->Instantiate(frame),
              StatusIs(StatusCode::kInvalidArgument,
                       "callout: tap 'loss': its callback looks at values in the program, so it takes no rows"));
}

}  // namespace
}  // namespace callout::internal
