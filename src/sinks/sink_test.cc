// SPDX-License-Identifier: Apache-2.0
#include "sinks/sink.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "core/base/block_pool.h"
#include "sinks/each_sink_kind.h"
#include "testing/live_counts.h"
#include "testing/sink_fixture.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

using SinksTest = SinkTest;

std::shared_ptr<Callback> MakePrint(const std::string& label, int fd) {
  return MakeSink(label, PrintKind(), {{"fd", std::to_string(fd)}}).value();
}

TEST_F(SinksTest, SinksTakeTapsOnly) {
  const callout_call call = {};
  EXPECT_THAT(MakePrint("print", 1)->Call(call), StatusIs(StatusCode::kFailedPrecondition, "a sink takes taps"));
  EXPECT_EQ(MakePrint("print", 1)->worker(), Worker::kNative);
}

TEST_F(SinksTest, NullSinkTakesAndForgets) {
  const auto sink = MakeSink("null", NullKind(), {}).value();
  EXPECT_EQ(sink->label(), "null");
  EXPECT_EQ(sink->worker(), Worker::kNative);
  EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Scalar(1)}), IsOk());
  EXPECT_THAT(sink->Flush(), IsOk());
}

TEST_F(SinksTest, PrintSinkWritesOneLineARecord) {
  const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ASSERT_GE(fd, 0);
  const auto sink = MakePrint("print", fd);
  EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Scalar(0.25)}), IsOk());
  EXPECT_THAT(Deliver(*sink, {"state", {"x", "y"}}, {TestBuffer::Scalar(1), TestBuffer::Of<float>({2}, {1.5F, 2})}),
              IsOk());
  EXPECT_EQ(Contents(), "");
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_EQ(Contents(), "loss: 0.25\nstate: x=1 y=[1.5 2]\n");
  close(fd);
}

TEST_F(SinksTest, PrintSinksOfOneOutputKeepTheOrderOfTheirRecords) {
  const int fd = open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ASSERT_GE(fd, 0);
  const auto first = MakePrint("first", fd), second = MakePrint("second", fd);
  const SiteInfo a{"a", {""}}, b{"b", {""}};
  for (const float value : {1.0F, 2.0F}) {
    EXPECT_THAT(Deliver(*first, a, {TestBuffer::Scalar(value)}), IsOk());
    EXPECT_THAT(Deliver(*second, b, {TestBuffer::Scalar(value)}), IsOk());
  }
  EXPECT_THAT(first->Flush(), IsOk());
  EXPECT_THAT(second->Flush(), IsOk());
  EXPECT_EQ(Contents(), "a: 1\nb: 1\na: 2\nb: 2\n");
  close(fd);
}

TEST_F(SinksTest, PrintSinkReportsAClosedOutput) {
  const int fd = open("/dev/full", O_WRONLY);
  ASSERT_GE(fd, 0);
  const auto sink = MakePrint("print", fd);
  EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Scalar(1)}), IsOk());
  EXPECT_THAT(sink->Flush(), StatusIs(StatusCode::kInternal,
                                      "cannot write to file descriptor " + std::to_string(fd) + ": No space left"));
  close(fd);
}

TEST_F(SinksTest, PrintSinkWritesToStandardOutputByDefault) {
  const auto sink = MakeSink("print", PrintKind(), {}).value();
  EXPECT_THAT(Deliver(*sink, kSingle, {TestBuffer::Scalar(3)}), IsOk());
  ::testing::internal::CaptureStdout();
  EXPECT_THAT(sink->Flush(), IsOk());
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "loss: 3\n");
}

using TeeSinkTest = LiveCountTest;

// Records what it receives; takes the blocks, and fails, if the test asks for that.
class Receiver final : public Sink {
 public:
  explicit Receiver(
      std::string label, Status (*answer)() = [] { return OkStatus(); })
      : Sink(std::move(label)), answer_(answer) {}
  ~Receiver() override { FreeBlock(taken); }
  Status Deliver(const Record& record) override {
    ++records;
    sum += static_cast<const float*>(record.buffers[0].data)[0];
    saw_block = record.blocks[0] != nullptr;
    if (takes) taken = std::exchange(record.blocks[0], nullptr);
    return answer_();
  }
  Status Flush() override { return ++flushes, answer_(); }

  int records = 0;
  int flushes = 0;
  float sum = 0;
  bool takes = false;
  bool saw_block = false;
  void* taken = nullptr;

 private:
  Status (*const answer_)();
};

class PythonFunction final : public Callback {
 public:
  using Callback::Callback;
  Worker worker() const override { return Worker::kPython; }
  Status Call(const callout_call& /*call*/) override { return OkStatus(); }
  Status Deliver(const Record& /*record*/) override { return OkStatus(); }
};

const SiteInfo kSite = {"x", {""}};

Status Deliver(Callback& sink, TestBuffer buffer, void** block) {
  const callout_buffer view = buffer.view();
  const Record record = {.site = &kSite,
                         .buffers = {&view, 1},
                         .blocks = block,
                         .device_ordinal = 0,
                         .run_id = 0,
                         .sequence = 0,
                         .ticks = 0};
  return sink.Deliver(record);
}

TEST_F(TeeSinkTest, EveryReceiverGetsEveryRecord) {
  const auto a = std::make_shared<Receiver>("tee_a"), b = std::make_shared<Receiver>("tee_b");
  const auto tee = MakeTeeSink("tee", {a, b});
  ASSERT_THAT(tee, IsOk());
  EXPECT_EQ(tee.value()->worker(), Worker::kNative);
  void* no_block = nullptr;
  const uint64_t calls = a->stats().calls(), bytes = b->stats().bytes();
  for (const float value : {1.0F, 2.0F}) {
    EXPECT_THAT(Deliver(*tee.value(), TestBuffer::Scalar(value), &no_block), IsOk());
  }
  EXPECT_THAT(tee.value()->Flush(), IsOk());
  EXPECT_EQ(a->sum, 3);
  EXPECT_EQ(b->sum, 3);
  EXPECT_EQ(a->flushes, 1);
  EXPECT_EQ(b->flushes, 1);
  EXPECT_EQ(a->stats().calls(), calls + 2);
  EXPECT_EQ(b->stats().bytes(), bytes + 8);
}

TEST_F(TeeSinkTest, AFailingReceiverKeepsARecordFromNoOther) {
  const auto a = std::make_shared<Receiver>("tee_fails", [] { return InternalError("no room"); });
  const auto b = std::make_shared<Receiver>("tee_throws", []() -> Status { throw std::runtime_error("oops"); });
  const auto c = std::make_shared<Receiver>("tee_works");
  const auto tee = MakeTeeSink("tee", {a, b, c});
  ASSERT_THAT(tee, IsOk());
  void* no_block = nullptr;
  const uint64_t errors = b->stats().errors;
  EXPECT_THAT(Deliver(*tee.value(), TestBuffer::Scalar(1.0F), &no_block),
              StatusIs(StatusCode::kInternal, "sink 'tee_fails': no room (and 1 more of the 3 sinks failed)"));
  EXPECT_EQ(c->records, 1);
  EXPECT_EQ(b->stats().errors, errors + 1);
  EXPECT_THAT(tee.value()->Flush(), StatusIs(StatusCode::kInternal, "no room"));
  EXPECT_EQ(c->flushes, 1);
}

// A receiver may take the blocks of large buffers, whose memory must then stay valid for all others.
TEST_F(TeeSinkTest, OnlyTheLastReceiverMayTakeTheBlocks) {
  const auto a = std::make_shared<Receiver>("tee_a"), b = std::make_shared<Receiver>("tee_b");
  a->takes = b->takes = true;
  for (const auto& [first, last] : {std::pair(a, b), std::pair(b, a)}) {
    const auto tee = MakeTeeSink("tee", {first, last});
    ASSERT_THAT(tee, IsOk());
    void* block = AllocateBlock(100'000);
    EXPECT_THAT(Deliver(*tee.value(), TestBuffer::Scalar(1.0F), &block), IsOk());
    EXPECT_FALSE(first->saw_block);
    EXPECT_TRUE(last->saw_block);
    EXPECT_EQ(block, nullptr) << "it was taken";
    FreeBlock(std::exchange(last->taken, nullptr));
    EXPECT_EQ(first->taken, nullptr);
  }
}

TEST_F(TeeSinkTest, PythonFunctionsAreRefusedByName) {
  EXPECT_THAT(MakeTeeSink("tee", {}), StatusIs(StatusCode::kInvalidArgument, "'tee' has no receivers"));
  EXPECT_THAT(MakeTeeSink("tee", {std::make_shared<PythonFunction>("f")}),
              StatusIs(StatusCode::kInvalidArgument, "'f' is a Python function"));
}

}  // namespace
}  // namespace callout::internal
