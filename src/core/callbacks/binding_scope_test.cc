// SPDX-License-Identifier: Apache-2.0
#include "core/callbacks/binding_scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "core/callbacks/registry.h"
#include "testing/fake_callbacks.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

using ::testing::ElementsAre;

std::shared_ptr<Callback> Named(const std::string& label) { return std::make_shared<FakeCallback>(label); }

class BindingScopeTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_THAT(Registry::Get().Register("scope.shared", registered_, false), IsOk()); }
  void TearDown() override { ASSERT_THAT(Registry::Get().Unregister("scope.shared"), IsOk()); }

  const std::shared_ptr<Callback> registered_ = Named("registered");
};

TEST_F(BindingScopeTest, ItsNamesComeBeforeRegisteredOnes) {
  const Bindings bindings = {{"scope.shared", Named("own")}};
  {
    const BindingScope scope(bindings);
    EXPECT_EQ(Registry::Get().Find("scope.shared").value()->label(), "own");
  }
  EXPECT_EQ(Registry::Get().Find("scope.shared").value(), registered_);
}

TEST_F(BindingScopeTest, OtherNamesAreThoseOfTheRegistry) {
  const Bindings bindings = {{"scope.own", Named("own")}};
  const BindingScope scope(bindings);
  EXPECT_EQ(Registry::Get().Find("scope.shared").value(), registered_);
  EXPECT_EQ(Registry::Get().Find("scope.none").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Registry::Get().Find("scope.own").value()->label(), "own");
  EXPECT_EQ(Registry::Get().Find("scope.own").value()->label(), "own");
  EXPECT_THAT(scope.asked(), ElementsAre("scope.shared", "scope.none", "scope.own"));
}

TEST_F(BindingScopeTest, TheInnermostCounts) {
  const Bindings outer = {{"scope.a", Named("outer")}};
  const Bindings inner = {{"scope.a", Named("inner")}};
  const BindingScope outer_scope(outer);
  {
    const BindingScope inner_scope(inner);
    EXPECT_EQ(BindingScope::Find("scope.a")->label(), "inner");
  }
  EXPECT_EQ(BindingScope::Find("scope.a")->label(), "outer");
  EXPECT_THAT(outer_scope.asked(), ElementsAre("scope.a"));
}

TEST_F(BindingScopeTest, AFallbackIsForNamesThatNothingHas) {
  const Bindings bindings = {{"scope.own", Named("own")}};
  const BindingScope scope(bindings, [](std::string_view name) { return Named("made " + std::string(name)); });
  EXPECT_EQ(Registry::Get().Find("scope.own").value()->label(), "own");
  EXPECT_EQ(Registry::Get().Find("scope.shared").value(), registered_);
  EXPECT_EQ(Registry::Get().Find("scope.none").value()->label(), "made scope.none");
  const BindingScope without(bindings);
  EXPECT_EQ(Registry::Get().Find("scope.none").status().code(), StatusCode::kNotFound);
}

TEST_F(BindingScopeTest, OtherThreadsDoNotSeeIt) {
  const Bindings bindings = {{"scope.own", Named("own")}};
  const BindingScope scope(bindings);
  bool found = true;
  std::thread([&found] { found = BindingScope::Find("scope.own") != nullptr; }).join();
  EXPECT_FALSE(found);
}

TEST_F(BindingScopeTest, AMissingNameListsWhatTheProgramNeedsAndWhatItHas) {
  const Bindings bindings = {{"scope.own", Named("own")}};
  const BindingScope scope(bindings);
  const auto missing = Registry::Get().Find("scope.none", "scope.own\nscope.none");
  EXPECT_THAT(missing.status(),
              StatusIs(StatusCode::kNotFound, "the program needs: 'scope.own' 'scope.none' (not bound);"));
}

}  // namespace
}  // namespace callout::internal
