// SPDX-License-Identifier: Apache-2.0
#include "sinks/sink_handle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/delivery/delivery.h"
#include "testing/fake_callbacks.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"
#include "testing/test_buffer.h"
#include "testing/test_site.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kForever = std::chrono::steady_clock::time_point::max();

// A sink that records what it receives, and has a handle.
class HandledSink {
 public:
  explicit HandledSink(const std::string& label) : sink_(std::make_shared<FakeCallback>(label)) {
    sink_->on_deliver = [this](const Record& record) {
      values_.push_back(*static_cast<const float*>(record.buffers[0].data));
      leaves_ = record.site->leaf_names;
      offsets_.assign(record.offsets.begin(), record.offsets.end());
      return OkStatus();
    };
    sink_->on_flush = [this] { return ++flushes_, OkStatus(); };
    handle_ = HandleTable::Get().Add(std::make_shared<SinkObject>(sink_)).value();
  }
  ~HandledSink() {
    HandleTable::Get().Retire(handle_);
    HandleTable::Get().Free(HandleTable::Get().retired().ever);
  }

  TestBuffer handle() const {
    std::vector<uint32_t> words(4);
    std::memcpy(words.data(), &handle_, sizeof(handle_));
    return TestBuffer::Of<uint32_t>({4}, words);
  }
  CallbackStats& stats() const { return sink_->stats(); }
  const std::vector<float>& values() const { return values_; }
  const std::vector<std::string>& leaves() const { return leaves_; }
  const std::vector<int64_t>& offsets() const { return offsets_; }
  int flushes() const { return flushes_; }

 private:
  const std::shared_ptr<FakeCallback> sink_;
  Handle handle_;
  std::vector<float> values_;
  std::vector<std::string> leaves_;
  std::vector<int64_t> offsets_;
  int flushes_ = 0;
};

class SinkByHandleTest : public LiveCountTest {
 protected:
  Status Push(TapSite& site, std::vector<TestBuffer> buffers) {
    std::vector<callout_buffer> views;
    for (TestBuffer& buffer : buffers) views.push_back(buffer.view());
    return delivery_.Push(site, {.buffers = views});
  }
  void Drain() { ASSERT_THAT(delivery_.Drain(kForever), IsEmpty()); }

  static std::unique_ptr<TapSite> Site(std::vector<std::string> leaves = {"", "loss"}) {
    return MakeSite(MakeSinkByHandle("sink:log", "log").value(), {.leaf_names = std::move(leaves)});
  }

  Delivery delivery_;
};

TEST_F(SinkByHandleTest, EachRecordGoesToTheSinkOfItsHandle) {
  HandledSink one("one"), other("other");
  const auto site = Site();
  for (const float value : {1.F, 2.F, 3.F}) {
    EXPECT_THAT(Push(*site, {(value == 2 ? other : one).handle(), TestBuffer::Scalar(value)}), IsOk());
  }
  Drain();
  EXPECT_THAT(one.values(), ElementsAre(1, 3));
  EXPECT_THAT(other.values(), ElementsAre(2));
  EXPECT_THAT(one.leaves(), ElementsAre("loss"));
}

TEST_F(SinkByHandleTest, TheSinkIsFlushedAndCounted) {
  HandledSink sink("counted sink");
  const auto site = Site();
  EXPECT_THAT(Push(*site, {sink.handle(), TestBuffer::Scalar(1.F)}), IsOk());
  Drain();
  EXPECT_GE(sink.flushes(), 1);
  EXPECT_EQ(sink.stats().calls(), 1);
  EXPECT_EQ(sink.stats().bytes(), sizeof(float));
}

TEST_F(SinkByHandleTest, OffsetsAreThoseOfTheValue) {
  HandledSink sink("sink");
  TapAttributes attributes;
  attributes.leaves = "\nw";
  attributes.offsets = true;
  TapSite site(MakeSinkByHandle("sink:log", "log").value(), attributes);
  EXPECT_THAT(Push(site, {sink.handle(), TestBuffer::Of<float>({1, 1}, {5}), TestBuffer::Of<int64_t>({3}, {0, 7, 8})}),
              IsOk());
  Drain();
  EXPECT_THAT(sink.values(), ElementsAre(5));
  EXPECT_THAT(sink.offsets(), ElementsAre(7, 8));
}

// Returns the handles of several sinks as rows of one array.
TestBuffer HandleRows(const std::vector<TestBuffer>& handles) {
  std::vector<uint32_t> words;
  for (const TestBuffer& handle : handles) {
    for (const uint32_t word : handle.values<uint32_t>()) words.push_back(word);
  }
  return TestBuffer::Of<uint32_t>({static_cast<int64_t>(handles.size()), 4}, words);
}

TEST_F(SinkByHandleTest, EachRowGoesToTheSinkOfItsHandle) {
  HandledSink one("one"), other("other");
  const TestBuffer gone = HandledSink("gone").handle();
  TapAttributes attributes;
  attributes.leaves = "\nw";
  attributes.rows = attributes.offsets = true;
  TapSite site(MakeSinkByHandle("sink:log", "log").value(), attributes);
  EXPECT_THAT(Push(site, {HandleRows({one.handle(), other.handle(), gone, other.handle(), one.handle()}),
                          TestBuffer::Of<float>({5, 1, 1}, {1, 2, 3, 4, 5}), TestBuffer::Scalar(uint32_t{5}),
                          TestBuffer::Of<int64_t>({5}, {0, 0, 0, 7, 8})}),
              IsOk());
  Drain();
  EXPECT_THAT(one.values(), ElementsAre(1, 5));
  EXPECT_THAT(other.values(), ElementsAre(2, 4));
  EXPECT_THAT(one.leaves(), ElementsAre("w"));
  EXPECT_THAT(one.offsets(), ElementsAre(7, 8));
  const DeliveryErrorReport report = delivery_.TakeErrors();
  EXPECT_EQ(report.count, 1U);
  EXPECT_THAT(std::string(report.last.message()), HasSubstr("the object of this handle is gone"));
}

TEST_F(SinkByHandleTest, ASinkThatIsGoneIsAnError) {
  const TestBuffer gone = HandledSink("gone").handle();
  const auto site = Site();
  EXPECT_THAT(Push(*site, {gone, TestBuffer::Scalar(1.F)}), IsOk());
  Drain();
  const DeliveryErrorReport report = delivery_.TakeErrors();
  EXPECT_EQ(report.count, 1);
  EXPECT_THAT(std::string(report.last.message()),
              HasSubstr("callback 'log' failed on device 0: callout: sink: the object of this handle is gone"));
}

TEST_F(SinkByHandleTest, OtherOperandsAreRefused) {
  const auto site = Site();
  const std::pair<TestBuffer, const char*> cases[] = {
      {TestBuffer::Scalar(1.F), "expected the handle of one sink, u32[4], before the value, got f32[]"},
      {TestBuffer::Zeros(DType::kUint32, {2, 4}), "got u32[2,4]"},
      {TestBuffer::Zeros(DType::kUint32, {4}), "its leaf is no handle of this process"},
  };
  for (const auto& [handle, text] : cases) {
    EXPECT_THAT(Push(*site, {handle, TestBuffer::Scalar(1.F)}), IsOk());
    Drain();
    EXPECT_THAT(std::string(delivery_.TakeErrors().last.message()), HasSubstr(text));
  }
  EXPECT_THAT(Push(*site, {}), IsOk());
  Drain();
  EXPECT_THAT(std::string(delivery_.TakeErrors().last.message()), HasSubstr("got nothing"));
}

TEST(SinkObjectTest, ProgramsCannotReadIt) {
  const SinkObject object(std::make_shared<FakeCallback>("sink"));
  EXPECT_THAT(object.ReadInto({}), StatusIs(StatusCode::kInvalidArgument, "has nothing that programs read"));
}

}  // namespace
}  // namespace callout::internal
