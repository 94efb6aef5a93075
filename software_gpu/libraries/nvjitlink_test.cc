// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

extern "C" {
int nvJitLinkCreate(void** handle, unsigned int count, const char** options);
int nvJitLinkDestroy(void** handle);
int nvJitLinkAddData(void* handle, int kind, const void* data, size_t bytes, const char* name);
int nvJitLinkComplete(void* handle);
int nvJitLinkGetLinkedCubinSize(void* handle, size_t* bytes);
int nvJitLinkGetLinkedCubin(void* handle, void* to);
int nvJitLinkGetErrorLogSize(void* handle, size_t* bytes);
int nvJitLinkGetErrorLog(void* handle, char* to);
}

namespace callout::software_gpu {
namespace {

const std::string kPtx = ".version 8.0\n.target sm_90\n.address_size 64\n";

class NvJitLinkTest : public testing::Test {
 protected:
  NvJitLinkTest() { nvJitLinkCreate(&linker_, 0, nullptr); }
  ~NvJitLinkTest() override { nvJitLinkDestroy(&linker_); }

  int Add(const std::string& text, const char* name) {
    return nvJitLinkAddData(linker_, 2, text.data(), text.size(), name);
  }
  std::string Errors() {
    size_t bytes = 0;
    nvJitLinkGetErrorLogSize(linker_, &bytes);
    std::string text(bytes, '?');
    nvJitLinkGetErrorLog(linker_, text.data());
    return text.c_str();
  }

  void* linker_ = nullptr;
};

TEST_F(NvJitLinkTest, TheCubinOfOnePtxIsThePtx) {
  ASSERT_EQ(Add(kPtx, "one"), 0);
  ASSERT_EQ(nvJitLinkComplete(linker_), 0);
  size_t bytes = 0;
  nvJitLinkGetLinkedCubinSize(linker_, &bytes);
  std::string cubin(bytes, '?');
  nvJitLinkGetLinkedCubin(linker_, cubin.data());
  EXPECT_EQ(cubin, kPtx + '\0');
}

TEST_F(NvJitLinkTest, ASecondInputIsRefusedByName) {
  ASSERT_EQ(Add(kPtx, "one"), 0);
  EXPECT_NE(Add(kPtx, "other"), 0);
  EXPECT_NE(nvJitLinkComplete(linker_), 0);
  EXPECT_THAT(Errors(), testing::HasSubstr("other is a second input"));
}

TEST_F(NvJitLinkTest, WhatIsNoPtxIsRefusedByName) {
  EXPECT_NE(Add("\x7f"
                "ELF",
                "machine code"),
            0);
  EXPECT_THAT(Errors(), testing::HasSubstr("machine code is not PTX"));
}

}  // namespace
}  // namespace callout::software_gpu
