// SPDX-License-Identifier: Apache-2.0
//
// Tests modules of PTX (Driver API, Module Management, Library Management; Programming Guide, Lazy Loading).
#include <array>
#include <tuple>

#include "driver/driver_fixture.h"

namespace callout::software_gpu {
namespace {

using testing::HasSubstr;

// Variables with values, without values, and with addresses of other variables. read_table(uint32_t* to) reads through
// such an address.
const std::string kVariables = kPtxHead + R"(
.visible .global .align 4 .u32 counter = 5;
.visible .global .align 8 .b8 zeros[24];
.visible .const .align 4 .u32 weights[3] = {7, 8, 9};
.visible .global .align 8 .u64 table[2] = {counter, counter};
.visible .entry read_table(.param .u64 to) {
  .reg .b64 %rd<4>;
  .reg .b32 %r<4>;
  ld.param.u64 %rd1, [to];
  ld.global.u64 %rd2, [table+8];
  ld.global.u32 %r1, [%rd2];
  ld.const.u32 %r2, [weights+8];
  add.u32 %r3, %r1, %r2;
  st.global.u32 [%rd1], %r3;
  ret;
}
.visible .entry bump() {
  .reg .b32 %r<2>;
  ld.global.u32 %r1, [counter];
  add.u32 %r1, %r1, 1;
  st.global.u32 [counter], %r1;
  ret;
}
)";

const std::string kUnknown = kPtxHead + ".visible .entry f() { frobnicate.u32 %r1; ret; }\n";

class ModuleTest : public DriverFixture {
 protected:
  static CUmodule Load(const std::string& text) {
    CUmodule module = nullptr;
    EXPECT_EQ(cuModuleLoadData(&module, text.c_str()), CUDA_SUCCESS);
    return module;
  }

  static CUdeviceptr Global(CUmodule module, const char* name, size_t expected) {
    CUdeviceptr memory = 0;
    size_t bytes = 0;
    EXPECT_EQ(cuModuleGetGlobal(&memory, &bytes, module, name), CUDA_SUCCESS) << name;
    EXPECT_EQ(bytes, expected) << name;
    return memory;
  }
};

// cuModuleGetGlobal: it returns the address and the size of a variable. PTX ISA, Initializers: bytes without a value
// are zero.
TEST_F(ModuleTest, VariablesHaveTheirSizesAndValues) {
  CUmodule const module = Load(kVariables);
  EXPECT_EQ(Read(Global(module, "counter", 4)), 5U);
  EXPECT_EQ(Read(Global(module, "weights", 12) + 4), 8U);
  const CUdeviceptr zeros = Global(module, "zeros", 24);
  for (size_t i = 0; i < 24; i += 4) EXPECT_EQ(Read(zeros + i), 0U);
  CUdeviceptr memory = 0;
  size_t bytes = 0;
  EXPECT_EQ(cuModuleGetGlobal(&memory, &bytes, module, "absent"), CUDA_ERROR_NOT_FOUND);
  // Either output may be null.
  EXPECT_EQ(cuModuleGetGlobal(nullptr, &bytes, module, "zeros"), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleGetGlobal(&memory, nullptr, module, "zeros"), CUDA_SUCCESS);
  EXPECT_EQ(memory, zeros);
}

// PTX ISA, Initializers: a variable's name stands for its address.
TEST_F(ModuleTest, AddressesInVariablesAreThoseOfThisLoad) {
  CUmodule const module = Load(kVariables);
  const CUdeviceptr counter = Global(module, "counter", 4);
  std::array<CUdeviceptr, 2> table = {};
  ASSERT_EQ(cuMemcpyDtoH(table.data(), Global(module, "table", 16), 16), CUDA_SUCCESS);
  EXPECT_EQ(table, (std::array<CUdeviceptr, 2>{counter, counter}));
  ASSERT_EQ(LaunchFunction(Function(module, "read_table"), stream_, word_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Read(word_), 14U);
}

// cuModuleLoadData: each load has variables of its own; a library has one set of variables for each context.
TEST_F(ModuleTest, EachLoadHasItsOwnVariables) {
  CUmodule const first = Load(kVariables);
  CUmodule const second = Load(kVariables);
  ASSERT_EQ(LaunchFunction(Function(first, "bump"), stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Read(Global(first, "counter", 4)), 6U);
  EXPECT_EQ(Read(Global(second, "counter", 4)), 5U);
}

// cuModuleUnload: the module's variables are freed, after a wait for the work that uses them.
TEST_F(ModuleTest, UnloadingWaitsForKernels) {
  CUmodule const module = Load(kVariables);
  Close(stream_);
  ASSERT_EQ(LaunchFunction(Function(module, "read_table"), stream_, word_), CUDA_SUCCESS);
  CUresult unloaded = CUDA_ERROR_UNKNOWN;
  std::thread thread = Begin("cuModuleUnload", &unloaded, [=] { return cuModuleUnload(module); });
  Open();
  thread.join();
  EXPECT_EQ(unloaded, CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Read(word_), 14U);
  CUfunction function = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&function, module, "bump"), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
}

TEST_F(ModuleTest, UnloadingALibraryWaitsForKernels) {
  CUlibrary library = nullptr;
  CUkernel kernel = nullptr;
  ASSERT_EQ(cuLibraryLoadData(&library, kVariables.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuLibraryGetKernel(&kernel, library, "read_table"), CUDA_SUCCESS);
  Close(stream_);
  ASSERT_EQ(LaunchFunction(reinterpret_cast<CUfunction>(kernel), stream_, word_), CUDA_SUCCESS);
  CUresult unloaded = CUDA_ERROR_UNKNOWN;
  std::thread thread = Begin("cuLibraryUnload", &unloaded, [=] { return cuLibraryUnload(library); });
  Open();
  thread.join();
  EXPECT_EQ(unloaded, CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(Read(word_), 14U);
  EXPECT_EQ(cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
}

// Driver API, cuDevicePrimaryCtxRelease: the context's modules are unloaded with it.
TEST_F(ModuleTest, ModulesEndWithTheirContext) {
  ASSERT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
  CUfunction function = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&function, module_, "store"), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(software_gpu_control()->live(kSoftwareGpuLibrary), 0);
  // The gate's memory was freed with the context, too.
  ASSERT_EQ(cuMemHostAlloc(reinterpret_cast<void**>(&gate_), sizeof(*gate_), 0), CUDA_SUCCESS);
}

TEST_F(ModuleTest, KernelsAreFoundByNameAndCounted) {
  CUfunction function = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&function, module_, "absent"), CUDA_ERROR_NOT_FOUND);
  unsigned int count = 0;
  ASSERT_EQ(cuModuleGetFunctionCount(&count, module_), CUDA_SUCCESS);
  EXPECT_EQ(count, 3U);
  const char* name = nullptr;
  ASSERT_EQ(cuFuncGetName(&name, Function(module_, "load")), CUDA_SUCCESS);
  EXPECT_STREQ(name, "load");
  CUmodule module = nullptr;
  ASSERT_EQ(cuFuncGetModule(&module, Function(module_, "load")), CUDA_SUCCESS);
  EXPECT_EQ(module, module_);
}

// cuModuleLoadData: an unknown instruction is CUDA_ERROR_INVALID_PTX, and the text names it.
TEST_F(ModuleTest, UnknownInstructionsAreRefusedByName) {
  testing::internal::CaptureStderr();
  CUmodule module = nullptr;
  EXPECT_EQ(cuModuleLoadData(&module, kUnknown.c_str()), CUDA_ERROR_INVALID_PTX);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("frobnicate"));
}

// The options of a load with an error log: its buffer (CU_JIT_ERROR_LOG_BUFFER) and CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES.
struct JitLog {
  explicit JitLog(size_t bytes) : buffer(2048, '#') { values = {buffer.data(), reinterpret_cast<void*>(bytes)}; }

  std::string buffer;
  std::array<CUjit_option, 2> options = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void*, 2> values = {};

  std::string text() const { return buffer.c_str(); }
  size_t bytes() const { return reinterpret_cast<size_t>(values[1]); }
};

// CUjit_option: the log is truncated to its size, which is set to the number of bytes written.
TEST_F(ModuleTest, TheErrorLogSaysWhatWasWrong) {
  CUmodule module = nullptr;
  JitLog log(1000);
  EXPECT_EQ(cuModuleLoadDataEx(&module, kUnknown.c_str(), 2, log.options.data(), log.values.data()),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_THAT(log.text(), HasSubstr("frobnicate"));
  EXPECT_GT(log.bytes(), 10U);
  EXPECT_LE(log.bytes(), 1000U);
  JitLog small(6);
  EXPECT_EQ(cuModuleLoadDataEx(&module, kUnknown.c_str(), 2, small.options.data(), small.values.data()),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(small.buffer.substr(5, 2), std::string("\0#", 2));
  JitLog good(1000);
  EXPECT_EQ(cuModuleLoadDataEx(&module, kKernels.c_str(), 2, good.options.data(), good.values.data()), CUDA_SUCCESS);
  EXPECT_EQ(good.bytes(), 0U);
}

// cuLibraryLoadData takes the options of cuModuleLoadDataEx. The first use of an invalid image is refused (driver 580).
TEST_F(ModuleTest, LibrariesHaveAnErrorLogTooAndRefuseTheirFirstUse) {
  const std::string newer = ".version 8.7\n.target sm_100\n.address_size 64\n.visible .entry load() { ret; }\n";
  const std::string garbage(256, 'x');
  for (const auto& [image, error, words] :
       {std::tuple(&kUnknown, CUDA_ERROR_INVALID_PTX, "frobnicate"),
        std::tuple(&newer, CUDA_ERROR_INVALID_PTX, "SM version"), std::tuple(&garbage, CUDA_ERROR_INVALID_IMAGE, "")}) {
    CUlibrary library = nullptr;
    JitLog log(1000);
    ASSERT_EQ(
        cuLibraryLoadData(&library, image->c_str(), log.options.data(), log.values.data(), 2, nullptr, nullptr, 0),
        CUDA_SUCCESS);
    EXPECT_THAT(log.text(), HasSubstr(words));
    CUkernel kernel = nullptr;
    CUmodule module = nullptr;
    CUdeviceptr memory = 0;
    unsigned int count = 0;
    EXPECT_EQ(cuLibraryGetKernel(&kernel, library, "load"), error);
    EXPECT_EQ(cuLibraryGetModule(&module, library), error);
    EXPECT_EQ(cuLibraryGetGlobal(&memory, nullptr, library, "load"), error);
    EXPECT_EQ(cuLibraryGetKernelCount(&count, library), error);
    EXPECT_EQ(cuLibraryUnload(library), CUDA_SUCCESS);
  }
}

// cuModuleLoadData: images other than PTX, cubins and fat binaries are invalid.
TEST_F(ModuleTest, OtherImagesAreInvalid) {
  const std::array<char, 256> zeros = {};
  CUmodule module = nullptr;
  EXPECT_EQ(cuModuleLoadData(&module, zeros.data()), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(cuModuleLoadData(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
}

// Lazy Loading: a kernel's first launch, or cuFuncLoad, loads the kernel.
TEST_F(ModuleTest, KernelsAreLoadedWhenTheyAreFirstUsed) {
  CUmoduleLoadingMode mode = CU_MODULE_EAGER_LOADING;
  ASSERT_EQ(cuModuleGetLoadingMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(mode, CU_MODULE_LAZY_LOADING);
  CUfunction const launched = Function(module_, "store");
  CUfunction const loaded = Function(module_, "load");
  CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_LOADED;
  ASSERT_EQ(cuFuncIsLoaded(&state, launched), CUDA_SUCCESS);
  EXPECT_EQ(state, CU_FUNCTION_LOADING_STATE_UNLOADED);
  ASSERT_EQ(LaunchStore(stream_, word_, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuFuncIsLoaded(&state, launched), CUDA_SUCCESS);
  EXPECT_EQ(state, CU_FUNCTION_LOADING_STATE_LOADED);
  ASSERT_EQ(cuFuncLoad(loaded), CUDA_SUCCESS);
  ASSERT_EQ(cuFuncIsLoaded(&state, loaded), CUDA_SUCCESS);
  EXPECT_EQ(state, CU_FUNCTION_LOADING_STATE_LOADED);
}

// Lazy Loading, issues with stream capture: a launch that loads its kernel ends the recording; a launch of a loaded
// kernel does not.
TEST_F(ModuleTest, AKernelIsNotLoadedIntoARecording) {
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_NE(LaunchStore(stream_, word_, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ASSERT_EQ(cuFuncLoad(Function(module_, "store")), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(LaunchStore(stream_, word_, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
}

// cuLinkAddData, cuLinkComplete: the linker owns the image until cuLinkDestroy, and the image can be loaded.
TEST_F(ModuleTest, WhatWasLinkedIsLoaded) {
  CUlinkState link = nullptr;
  ASSERT_EQ(cuLinkCreate(0, nullptr, nullptr, &link), CUDA_SUCCESS);
  void* image = nullptr;
  size_t bytes = 0;
  EXPECT_EQ(cuLinkComplete(link, &image, &bytes), CUDA_ERROR_INVALID_VALUE);
  std::string text = kKernels;
  ASSERT_EQ(cuLinkAddData(link, CU_JIT_INPUT_PTX, text.data(), text.size() + 1, "k", 0, nullptr, nullptr),
            CUDA_SUCCESS);
  ASSERT_EQ(cuLinkComplete(link, &image, &bytes), CUDA_SUCCESS);
  CUmodule module = nullptr;
  ASSERT_EQ(cuModuleLoadData(&module, image), CUDA_SUCCESS);
  ASSERT_EQ(cuLinkDestroy(link), CUDA_SUCCESS);
  EXPECT_NE(Function(module, "store"), nullptr);
}

}  // namespace
}  // namespace callout::software_gpu
