// SPDX-License-Identifier: Apache-2.0
//
// Tests what Event::OnReady calls, when and how often.
#include "callout/pjrt/event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "callout/pjrt/executable.h"
#include "testing/cpu_client_fixture.h"
#include "testing/host_programs.h"
#include "testing/status_matchers.h"

namespace callout::pjrt {
namespace {

using internal::IsOk;
using ::testing::HasSubstr;

constexpr int kEventExtent = 128;  // XLA:CPU runs such a product on a thread of its own

// Records the calls of a listener.
struct Notification {
  std::promise<void> done;
  std::atomic<int> times{0};
  Status status;
  std::thread::id thread;

  std::function<void(Status)> listener() {
    return [this](Status notification) {
      status = std::move(notification);
      thread = std::this_thread::get_id();
      if (times++ == 0) done.set_value();
    };
  }
};

class EventTest : public internal::OneCpuClientTest {
 protected:
  // Starts a program with a product, which then calls "f".
  Execution Start(std::function<Status(const Call&)> function) {
    const Compiler compiler(client_);
    const auto executable =
        compiler.Compile({testdata::ProductThenCall("f", kEventExtent)},
                         {.loaded_host_callbacks = {FunctionCallback("f", std::move(function)).Make().value()}});
    EXPECT_THAT(executable, IsOk());
    const std::vector<int64_t> dims = {kEventExtent, kEventExtent};
    const Buffer x = Buffer::FromHost(client_, client_->devices()[0], dims,
                                      std::vector<float>(size_t{kEventExtent} * kEventExtent, 1))
                         .value();
    const std::vector<const Buffer*> arguments = {&x};
    return executable->Execute({&arguments, 1}).value();
  }
};

TEST_F(EventTest, AListenerIsToldOnceWhenItHappens) {
  std::promise<void> gate;
  std::shared_future<void> opened = gate.get_future();
  Notification notification;
  {
    Execution execution = Start([opened](const Call&) {
      opened.wait();
      return OkStatus();
    });
    ASSERT_THAT(execution.done[0].OnReady(notification.listener()), IsOk());
    EXPECT_THAT(execution.done[0].IsReady(), internal::IsOkAndHolds(false));
    EXPECT_EQ(notification.times, 0);
    gate.set_value();
    notification.done.get_future().wait();
    EXPECT_THAT(execution.done[0].Wait(), IsOk());
  }
  client_.reset();  // no thread of the client's runs any more
  EXPECT_EQ(notification.times, 1);
  EXPECT_THAT(notification.status, IsOk());
  EXPECT_NE(notification.thread, std::this_thread::get_id());
}

TEST_F(EventTest, AListenerIsToldOnceOfWhatHasHappened) {
  const float value = 1;
  Notification notification, of_none;
  {
    const Buffer buffer = Buffer::FromHost(client_, client_->devices()[0], DType::kFloat32, {}, &value).value();
    Event ready = buffer.Ready().value();
    ASSERT_THAT(ready.Wait(), IsOk());
    ASSERT_THAT(ready.OnReady(notification.listener()), IsOk());
    notification.done.get_future().wait();
    Event none(client_, nullptr);
    ASSERT_THAT(none.OnReady(of_none.listener()), IsOk());
  }
  client_.reset();
  EXPECT_EQ(notification.times, 1);
  EXPECT_THAT(notification.status, IsOk());
  EXPECT_EQ(of_none.times, 1);
  EXPECT_EQ(of_none.thread, std::this_thread::get_id());
}

TEST_F(EventTest, AListenerIsToldOfTheError) {
  Notification notification;
  {
    Execution execution = Start([](const Call&) { return Status(StatusCode::kDataLoss, "it is gone"); });
    ASSERT_THAT(execution.done[0].OnReady(notification.listener()), IsOk());
    notification.done.get_future().wait();
    EXPECT_THAT(execution.Wait(), internal::StatusIs(StatusCode::kDataLoss, "it is gone"));
  }
  client_.reset();
  EXPECT_EQ(notification.times, 1);
  EXPECT_FALSE(notification.status.ok());
  EXPECT_THAT(notification.status.message(), HasSubstr("it is gone"));
}

}  // namespace
}  // namespace callout::pjrt
