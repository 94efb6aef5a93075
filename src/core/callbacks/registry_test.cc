// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <latch>
#include <thread>

#include "testing/fake_callbacks.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::shared_ptr<FakeCallback> Make(const std::string& label) { return std::make_shared<FakeCallback>(label); }

class RegistryTest : public LiveCountTest {
 protected:
  Callback* FindOrNull(std::string_view name) {
    const auto found = registry_.Find(name);
    return found.ok() ? found.value().get() : nullptr;
  }

  void TearDown() override {
    for (const std::string& name : registry_.RegisteredNames()) EXPECT_THAT(registry_.Unregister(name), IsOk());
    LiveCountTest::TearDown();
  }

  Registry registry_;
};

TEST_F(RegistryTest, RegisteredNameHoldsItsCallback) {
  auto callback = Make("scale");
  Callback* const raw = callback.get();
  EXPECT_THAT(registry_.Register("scale", std::move(callback), false), IsOk());
  EXPECT_EQ(FindOrNull("scale"), raw);
  EXPECT_THAT(registry_.RegisteredNames(), ElementsAre("scale"));
  EXPECT_THAT(registry_.Unregister("scale"), IsOk());
  EXPECT_EQ(FindOrNull("scale"), nullptr);
}

TEST_F(RegistryTest, UnboundNameIsToldWithWhatTheProgramNeeds) {
  EXPECT_THAT(registry_.Register("b", Make("b"), false), IsOk());
  EXPECT_THAT(registry_.Find("a", "a\nb\nc"),
              StatusIs(StatusCode::kNotFound,
                       "callout: no callback is bound to the name 'a'; the program needs: 'a' (not bound) 'b' 'c' (not "
                       "bound); registered names: 'b'"));
}

TEST_F(RegistryTest, TakenNameIsRefusedUnlessReplaced) {
  const auto first = Make("a");
  const auto second = Make("a");
  EXPECT_THAT(registry_.Register("a", first, false), IsOk());
  EXPECT_THAT(registry_.Register("a", second, false),
              StatusIs(StatusCode::kAlreadyExists, "a callback is already registered as 'a'; pass replace=True"));
  EXPECT_EQ(FindOrNull("a"), first.get());
  EXPECT_THAT(registry_.Register("a", second, true), IsOk());
  EXPECT_EQ(FindOrNull("a"), second.get());
  EXPECT_EQ(first.use_count(), 1);
}

TEST_F(RegistryTest, ReplaceNeedsNothingToReplace) {
  EXPECT_THAT(registry_.Register("new", Make("new"), true), IsOk());
  EXPECT_NE(FindOrNull("new"), nullptr);
}

TEST_F(RegistryTest, NamesThatCannotBeRegistered) {
  EXPECT_THAT(registry_.Register("", Make("a"), false), StatusIs(StatusCode::kInvalidArgument, "must not be empty"));
  EXPECT_THAT(registry_.Register("py:f", Make("a"), false), StatusIs(StatusCode::kInvalidArgument, "'py:f'"));
  EXPECT_THAT(registry_.Register("native:f", Make("a"), true),
              StatusIs(StatusCode::kInvalidArgument,
                       "cannot register a callback as 'native:f': a name must not be empty and must not begin with "
                       "'py:', 'native:' or 'id_print:'"));
  EXPECT_THAT(registry_.RegisteredNames(), IsEmpty());
}

TEST_F(RegistryTest, NamesAreOneLine) {
  for (const std::string& name : {std::string("a\nb"), std::string("a\0b", 3), std::string(2 << 20, 'x')}) {
    EXPECT_THAT(registry_.Register(name, Make("a"), false),
                StatusIs(StatusCode::kInvalidArgument, "a name must be one line, of at most 1048576 bytes"));
  }
}

TEST_F(RegistryTest, WhatAProgramAsksForIsBoundedInErrors) {
  EXPECT_THAT(registry_.Find(std::string(2 << 20, 'x')).status(),
              StatusIs(StatusCode::kInvalidArgument, "a name of 2097152 bytes"));
  std::string needed;
  for (int i = 0; i < 100'000; ++i) needed += std::string(100, 'n') + "\n";
  const Status status = registry_.Find(std::string(1 << 20, 'x'), needed).status();
  EXPECT_THAT(status, StatusIs(StatusCode::kNotFound, "..."));
  EXPECT_LT(status.message().size(), 50'000U);
}

TEST_F(RegistryTest, UnregisteringWhatIsNotRegisteredIsAnError) {
  EXPECT_THAT(registry_.Unregister("a"), StatusIs(StatusCode::kNotFound, "no callback is registered as 'a'"));
  const auto bound = Make("f");
  const std::string name = registry_.Bind("f", bound);
  EXPECT_THAT(registry_.Unregister(name), StatusIs(StatusCode::kNotFound, "'py:f'"));
  EXPECT_EQ(FindOrNull(name), bound.get());
}

TEST_F(RegistryTest, BoundNameHoldsItsCallbackWeakly) {
  auto callback = Make("f");
  EXPECT_EQ(registry_.Bind("mod.f", callback), "py:mod.f");
  EXPECT_EQ(FindOrNull("py:mod.f"), callback.get());
  EXPECT_THAT(registry_.RegisteredNames(), IsEmpty());
  callback.reset();
  EXPECT_THAT(registry_.Find("py:mod.f"),
              StatusIs(StatusCode::kNotFound,
                       "'py:mod.f'; it is a Python function of the process that traced the program: give it a name"));
}

TEST_F(RegistryTest, OtherLiveCallbacksOfANameAreNumbered) {
  const auto a = Make("f");
  const auto b = Make("f");
  const auto c = Make("f");
  EXPECT_EQ(registry_.Bind("f", a), "py:f");
  EXPECT_EQ(registry_.Bind("f", b), "py:f#1");
  EXPECT_EQ(registry_.Bind("f", c), "py:f#2");
  EXPECT_EQ(FindOrNull("py:f"), a.get());
  EXPECT_EQ(FindOrNull("py:f#1"), b.get());
  EXPECT_EQ(FindOrNull("py:f#2"), c.get());
}

TEST_F(RegistryTest, BindingAgainGivesTheSameName) {
  const auto a = Make("f");
  const auto b = Make("f");
  (void)registry_.Bind("f", a);
  (void)registry_.Bind("f", b);
  EXPECT_EQ(registry_.Bind("f", b), "py:f#1");
  EXPECT_EQ(registry_.Bind("f", a), "py:f");
  EXPECT_EQ(registry_.Bind("g", a), "py:g");
}

TEST_F(RegistryTest, NameOfAnExpiredCallbackIsUsedAgain) {
  auto a = Make("f");
  const auto b = Make("f");
  (void)registry_.Bind("f", a);
  (void)registry_.Bind("f", b);
  a.reset();
  const auto c = Make("f");
  EXPECT_EQ(registry_.Bind("f", c), "py:f");
  EXPECT_EQ(FindOrNull("py:f"), c.get());
  EXPECT_EQ(FindOrNull("py:f#1"), b.get());
}

TEST_F(RegistryTest, UnboundNameIsFreeWhileAnExecutableStillHoldsTheCallback) {
  const auto a = Make("f");
  const auto b = Make("f");
  EXPECT_EQ(registry_.Bind("f", a), "py:f");
  EXPECT_EQ(registry_.Bind("f", a), "py:f");
  registry_.Unbind("py:f", a);
  EXPECT_EQ(registry_.Bind("f", b), "py:f#1") << "a is bound once more";
  registry_.Unbind("py:f", b);
  registry_.Unbind("py:f#1", b);
  registry_.Unbind("py:f", a);
  EXPECT_EQ(internal::LabelOf(a->id()), "f");
  EXPECT_EQ(registry_.Bind("f", b), "py:f");
  EXPECT_EQ(FindOrNull("py:f"), b.get());
  registry_.Unbind("py:f", a);
  registry_.Unbind("py:f", a);
  EXPECT_EQ(registry_.Bind("f", a), "py:f#1");
}

TEST_F(RegistryTest, ManyShortLivedBindingsLeaveLiveOnesAlone) {
  const auto kept = Make("kept");
  const std::string name = registry_.Bind("kept", kept);
  for (int i = 0; i < 1000; ++i) (void)registry_.Bind("f" + std::to_string(i), Make("f"));
  EXPECT_EQ(FindOrNull(name), kept.get());
  EXPECT_EQ(FindOrNull("py:f7"), nullptr);
}

TEST_F(RegistryTest, NotFoundListsTheRegisteredNames) {
  EXPECT_THAT(registry_.Find("x"),
              StatusIs(StatusCode::kNotFound, "no callback is bound to the name 'x'; registered names: (none)"));
  EXPECT_THAT(registry_.Register("zoom", Make("zoom"), false), IsOk());
  EXPECT_THAT(registry_.Register("blur", Make("blur"), false), IsOk());
  const auto bound = Make("f");
  (void)registry_.Bind("f", bound);
  const auto missing = registry_.Find("x");
  EXPECT_EQ(missing.status().message(),
            "callout: no callback is bound to the name 'x'; registered names: 'blur' 'zoom'");
}

TEST_F(RegistryTest, NotFoundSuggestsTheNearestRegisteredName) {
  for (const char* name : {"halve", "half_of_it", "double"}) {
    EXPECT_THAT(registry_.Register(name, Make(name), false), IsOk());
  }
  EXPECT_THAT(registry_.Find("halv"), StatusIs(StatusCode::kNotFound, "'halve'; did you mean 'halve'?"));
  EXPECT_THAT(registry_.Find("halv_of_ti"), StatusIs(StatusCode::kNotFound, "'halve'; did you mean 'half_of_it'?"));
  EXPECT_EQ(registry_.Find("triple").status().message(),
            "callout: no callback is bound to the name 'triple'; registered names: 'double' 'half_of_it' 'halve'");
}

TEST_F(RegistryTest, NativeCodeIsBoundUnderItsOwnName) {
  const auto a = Make("scale");
  const auto b = Make("scale");
  EXPECT_EQ(registry_.Bind("native:scale/0a1b", a), "native:scale/0a1b");
  EXPECT_EQ(registry_.Bind("native:scale/0a1b", b), "native:scale/0a1b#1");
  EXPECT_EQ(registry_.Bind("native", a), "py:native");
  EXPECT_EQ(FindOrNull("native:scale/0a1b"), a.get());
}

TEST_F(RegistryTest, NativeCodeThatIsNotFoundMayBeBuiltOrCarried) {
  EXPECT_EQ(
      registry_.Find("native:scale/0a1b", "native:scale/0a1b").status().message(),
      "callout: no callback is bound to the name 'native:scale/0a1b'; the program needs: 'native:scale/0a1b' (not "
      "bound); it is native code: build the same from the same source in this process before (callout.cpp, "
      "callout.numba), or let the program carry it (embed=True); registered names: (none)");
  EXPECT_THAT(registry_.Find("natively"), StatusIs(StatusCode::kNotFound, "'natively'; registered names:"));
}

TEST_F(RegistryTest, LabelIsFoundByIdWhileTheCallbackLives) {
  auto callback = Make("loss");
  const uint64_t id = callback->id();
  EXPECT_EQ(internal::LabelOf(id), "loss") << "bound or not";
  EXPECT_EQ(internal::LabelOf(id + 1000), "");
  callback.reset();
  EXPECT_EQ(internal::LabelOf(id), "");
}

TEST_F(RegistryTest, DestructorOfAReplacedCallbackMayUseTheRegistry) {
  std::vector<std::string> seen;
  auto first = Make("first");
  first->on_destroy = [&] { seen = registry_.RegisteredNames(); };
  EXPECT_THAT(registry_.Register("a", std::move(first), false), IsOk());
  EXPECT_THAT(registry_.Register("a", Make("second"), true), IsOk());
  EXPECT_THAT(seen, ElementsAre("a"));
}

TEST_F(RegistryTest, DestructorOfAnUnregisteredCallbackMayUseTheRegistry) {
  bool found = true;
  auto callback = Make("a");
  callback->on_destroy = [&] { found = registry_.Find("a").ok(); };
  EXPECT_THAT(registry_.Register("a", std::move(callback), false), IsOk());
  EXPECT_THAT(registry_.Unregister("a"), IsOk());
  EXPECT_FALSE(found);
}

TEST_F(RegistryTest, DestructorOfARefusedCallbackMayUseTheRegistry) {
  EXPECT_THAT(registry_.Register("a", Make("a"), false), IsOk());
  std::vector<std::string> seen;
  auto refused = Make("a");
  refused->on_destroy = [&] { seen = registry_.RegisteredNames(); };
  EXPECT_THAT(registry_.Register("a", std::move(refused), false), StatusIs(StatusCode::kAlreadyExists, "'a'"));
  EXPECT_THAT(seen, ElementsAre("a"));
}

TEST_F(RegistryTest, ThreadsBindDistinctNames) {
  constexpr int kThreads = 4;
  constexpr int kEach = 50;
  std::vector<std::vector<std::shared_ptr<FakeCallback>>> callbacks(kThreads);
  std::vector<std::vector<std::string>> names(kThreads);
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      for (int i = 0; i < kEach; ++i) {
        callbacks[t].push_back(Make("f"));
        names[t].push_back(registry_.Bind("f", callbacks[t].back()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < kThreads; ++t) {
    for (size_t i = 0; i < kEach; ++i) EXPECT_EQ(FindOrNull(names[t][i]), callbacks[t][i].get());
  }
}

TEST(RegistrySingletonTest, IsAlwaysTheSame) { EXPECT_EQ(&Registry::Get(), &Registry::Get()); }

}  // namespace
}  // namespace callout::internal
