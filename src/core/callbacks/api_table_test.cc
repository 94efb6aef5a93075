// SPDX-License-Identifier: Apache-2.0
//
// The table through which a C library registers callbacks, used in the way of such a library.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "callout/abi.h"
#include "core/callbacks/registry.h"
#include "testing/live_counts.h"
#include "testing/status_matchers.h"

namespace callout::internal {
namespace {

constexpr int32_t kInvalidArgument = 3;
constexpr int32_t kNotFound = 5;
constexpr int32_t kAlreadyExists = 6;

int32_t Nothing(const callout_call* /*call*/) { return 0; }

class ApiTableTest : public LiveCountTest {
 protected:
  int32_t Register(const char* name) { return api_->register_function(name, &function_, error_, sizeof(error_)); }
  int32_t Unregister(const char* name) { return api_->unregister(name, error_, sizeof(error_)); }

  const callout_api* const api_ = callout_get_api(CALLOUT_ABI_VERSION);
  callout_function function_ = {sizeof(callout_function),
                                CALLOUT_ABI_VERSION,
                                CALLOUT_FUNCTION_CALL,
                                reinterpret_cast<void (*)(void)>(&Nothing),
                                nullptr,
                                0,
                                0};
  char error_[256] = "untouched";
};

TEST_F(ApiTableTest, IsThereForItsOwnVersionOnly) {
  ASSERT_NE(api_, nullptr);
  EXPECT_EQ(api_->struct_size, sizeof(callout_api));
  EXPECT_EQ(api_->abi_version, 1U);
  EXPECT_EQ(callout_get_api(0), nullptr);
  EXPECT_EQ(callout_get_api(2), nullptr);
}

TEST_F(ApiTableTest, RegistersAndUnregisters) {
  EXPECT_EQ(Register("api.f"), 0);
  EXPECT_STREQ(error_, "untouched");
  EXPECT_THAT(Registry::Get().Find("api.f"), IsOk());
  EXPECT_EQ(Unregister("api.f"), 0);
  EXPECT_THAT(Registry::Get().Find("api.f"), StatusIs(StatusCode::kNotFound, "'api.f'"));
}

TEST_F(ApiTableTest, NameThatIsTakenIsRefused) {
  EXPECT_EQ(Register("api.twice"), 0);
  EXPECT_EQ(Register("api.twice"), kAlreadyExists);
  EXPECT_NE(std::string(error_).find("'api.twice'"), std::string::npos) << error_;
  EXPECT_EQ(Unregister("api.twice"), 0);
  EXPECT_EQ(Register("api.twice"), 0);
  EXPECT_EQ(Unregister("api.twice"), 0);
}

TEST_F(ApiTableTest, RecordOfAnotherVersionIsRefused) {
  function_.abi_version = 9;
  EXPECT_EQ(Register("api.old"), kInvalidArgument);
  EXPECT_STREQ(error_, "native callback 'api.old' was built for Callout ABI version 9; this core has version 1");
}

TEST_F(ApiTableTest, NullsAreRefused) {
  EXPECT_EQ(Register(nullptr), kInvalidArgument);
  EXPECT_EQ(api_->register_function("api.null", nullptr, error_, sizeof(error_)), kInvalidArgument);
  EXPECT_STREQ(error_, "register_function: null name or function");
  EXPECT_EQ(Unregister(nullptr), kInvalidArgument);
  EXPECT_STREQ(error_, "unregister: null name");
}

TEST_F(ApiTableTest, UnregisteringWhatIsNotThereIsAnError) {
  EXPECT_EQ(Unregister("api.absent"), kNotFound);
  EXPECT_STREQ(error_, "no callback is registered as 'api.absent'");
}

TEST_F(ApiTableTest, ErrorTextIsCutToItsBuffer) {
  char small[8];
  std::memset(small, 'x', sizeof(small));
  EXPECT_EQ(api_->unregister("api.absent", small, 5), kNotFound);
  EXPECT_STREQ(small, "no c");
  EXPECT_EQ(small[5], 'x');
  EXPECT_EQ(api_->unregister("api.absent", nullptr, 0), kNotFound);
  EXPECT_EQ(api_->unregister("api.absent", small, 0), kNotFound);
}

}  // namespace
}  // namespace callout::internal
