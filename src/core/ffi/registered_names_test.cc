// SPDX-License-Identifier: Apache-2.0
//
// Programs look up registered names when they run, so rebinding a name redirects them.
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "testing/handler_conformance.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

constexpr char kName[] = "test.named";

template <typename Platform>
class RegisteredNames : public HandlerConformance<Platform> {
 protected:
  void TearDown() override {
    (void)Registry::Get().Unregister(kName);
    HandlerConformance<Platform>::TearDown();
  }

  static FrameBuilder Frame() {
    FrameBuilder frame;
    frame.StringAttr("callback", kName);
    return frame;
  }

  /// Returns a callback that adds `letter` to `heard_` for each call and each record.
  std::shared_ptr<FakeCallback> Hearing(char letter) {
    auto callback = std::make_shared<FakeCallback>(kName);
    callback->on_call = [this, letter](const callout_call& call) {
      heard_ += letter;
      return AddOne(call);
    };
    callback->on_deliver = [this, letter](const Record&) {
      heard_ += letter;
      return OkStatus();
    };
    return callback;
  }
  void Register(char letter) { EXPECT_THAT(Registry::Get().Register(kName, Hearing(letter), true), IsOk()); }

  std::string heard_;
};
TYPED_TEST_SUITE(RegisteredNames, HandlerPlatforms, PlatformNames);

TYPED_TEST(RegisteredNames, CallGoesToWhoeverHasTheNameNow) {
  this->Register('a');
  FrameBuilder frame = this->Frame();
  frame.Arg(this->OnDevice({}, {1})).Ret(this->OnDevice({}, {0}));
  const auto site = this->NewCall();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk());
  this->Register('b');
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_THAT(Registry::Get().Unregister(kName), IsOk());
  ASSERT_THAT(site->Execute(frame), IsOk()) << "what nobody has now, the last one keeps";
  this->Register('c');
  ASSERT_THAT(site->Execute(frame), IsOk());
  EXPECT_EQ(this->heard_, "abbc");
}

TYPED_TEST(RegisteredNames, TapGoesToWhoeverHadTheNameWhenTheProgramSentIt) {
  this->Register('a');
  FrameBuilder frame = this->Frame();
  frame.Int64Attr("every", 2).Arg(this->OnDevice({}, {1}));
  const auto site = this->NewTap();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  for (int i = 0; i < 3; ++i) ASSERT_THAT(site->Execute(frame), IsOk());
  this->Register('b');
  for (int i = 0; i < 3; ++i) ASSERT_THAT(site->Execute(frame), IsOk());
  this->Barrier();
  EXPECT_EQ(this->heard_, "aabb") << "each begins with its own first one of two";
}

TYPED_TEST(RegisteredNames, ReplacedCallbackEndsWithItsLastRecord) {
  auto destroyed = std::make_shared<std::atomic<int>>(0);
  const auto with_end = [&](char letter) {
    auto callback = this->Hearing(letter);
    callback->on_destroy = [destroyed] { destroyed->fetch_add(1); };
    EXPECT_THAT(Registry::Get().Register(kName, std::move(callback), true), IsOk());
  };
  with_end('a');
  FrameBuilder frame = this->Frame();
  frame.Arg(this->OnDevice({}, {1}));
  const auto site = this->NewTap();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  for (char letter = 'b'; letter < 'e'; ++letter) {
    with_end(letter);
    ASSERT_THAT(site->Execute(frame), IsOk());
  }
  this->Barrier();
  EXPECT_EQ(destroyed->load(), 3);
  EXPECT_EQ(this->heard_, "bcd");
}

TYPED_TEST(RegisteredNames, CallbackThatDoesNotTakeTheTapFailsTheRun) {
  this->Register('a');
  FrameBuilder frame = this->Frame();
  frame.Arg(this->OnDevice({}, {1}));
  const auto site = this->NewTap();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  struct Refusing final : FakeCallback {
    Refusing() : FakeCallback(kName) {}
    Status CheckTap(size_t) const override { return InvalidArgument("expected nothing"); }
  };
  EXPECT_THAT(Registry::Get().Register(kName, std::make_shared<Refusing>(), true), IsOk());
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInvalidArgument, "tap 'test.named': expected nothing"));
  this->Register('b');
  EXPECT_THAT(site->Execute(frame), IsOk());
}

TYPED_TEST(RegisteredNames, SinkCannotBeCalled) {
  this->Register('a');
  FrameBuilder frame = this->Frame();
  frame.Arg(this->OnDevice({}, {1})).Ret(this->OnDevice({}, {0}));
  const auto site = this->NewCall();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  struct Sink final : FakeCallback {
    Sink() : FakeCallback(kName) {}
    bool takes_taps_only() const override { return true; }
  };
  EXPECT_THAT(Registry::Get().Register(kName, std::make_shared<Sink>(), true), IsOk());
  EXPECT_THAT(site->Execute(frame),
              StatusIs(StatusCode::kFailedPrecondition, "callout: 'test.named' is bound to a sink, which takes taps"));
}

TYPED_TEST(RegisteredNames, NameIsBoundAnewWhileThreadsRun) {
  std::atomic<int> calls{0}, records{0};
  const auto bind = [&] {
    auto callback = std::make_shared<FakeCallback>(kName);
    callback->on_call = [&calls](const callout_call& call) {
      calls.fetch_add(1);
      return AddOne(call);
    };
    callback->on_deliver = [&records](const Record&) {
      records.fetch_add(1);
      return OkStatus();
    };
    EXPECT_THAT(Registry::Get().Register(kName, std::move(callback), true), IsOk());
  };
  bind();
  const auto tap = this->NewTap(), call = this->NewCall();
  FrameBuilder first_tap = this->Frame(), first_call = this->Frame();
  first_tap.Arg(this->OnDevice({}, {1}));
  first_call.Arg(this->OnDevice({}, {1})).Ret(this->OnDevice({}, {0}));
  ASSERT_THAT(tap->Instantiate(first_tap), IsOk());
  ASSERT_THAT(call->Instantiate(first_call), IsOk());
  constexpr int kThreads = 2, kRuns = 200;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      FrameBuilder tapped = this->Frame(), called = this->Frame();
      tapped.Arg(this->OnDevice({}, {1}));
      called.Arg(this->OnDevice({}, {1})).Ret(this->OnDevice({}, {0}));
      for (int run = 0; run < kRuns; ++run) {
        EXPECT_THAT(tap->Execute(tapped), IsOk());
        EXPECT_THAT(call->Execute(called), IsOk());
      }
    });
  }
  for (int i = 0; i < 100; ++i) bind();
  for (std::thread& thread : threads) thread.join();
  this->Barrier();
  EXPECT_EQ(calls.load(), kThreads * kRuns);
  EXPECT_EQ(records.load(), kThreads * kRuns);
}

}  // namespace
}  // namespace callout::internal
