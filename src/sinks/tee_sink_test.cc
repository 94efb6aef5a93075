// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <utility>

#include "core/base/block_pool.h"
#include "sinks/sink.h"
#include "sinks/sinks.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"

namespace callout::internal {
namespace {

using TeeSinkTest = LiveCountTest;

// Notes what it got, takes the blocks if it is told to, and fails as it is told to.
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
  const uint64_t calls = a->stats().calls, bytes = b->stats().bytes;
  for (const float value : {1.0F, 2.0F}) {
    EXPECT_THAT(Deliver(*tee.value(), TestBuffer::Scalar(value), &no_block), IsOk());
  }
  EXPECT_THAT(tee.value()->Flush(), IsOk());
  EXPECT_EQ(a->sum, 3);
  EXPECT_EQ(b->sum, 3);
  EXPECT_EQ(a->flushes, 1);
  EXPECT_EQ(b->flushes, 1);
  EXPECT_EQ(a->stats().calls, calls + 2);
  EXPECT_EQ(b->stats().bytes, bytes + 8);
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

// The blocks that large buffers lie in may be taken; the memory must then be there for everybody else.
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
