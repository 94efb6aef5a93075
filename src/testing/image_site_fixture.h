// SPDX-License-Identifier: Apache-2.0
//
// A fixture for tests of callout.v1.image on the software GPU. Its users link callout_ffi and set CALLOUT_SOFTWARE_GPU.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/file_io.h"
#include "core/ffi/handlers.h"
#include "cuda/kernels/image_kernel.h"
#include "testing/cuda_site_fixture.h"

namespace callout::internal {

class ImageSiteTest : public CudaSiteTest {
 protected:
  void SetUp() override {
    CudaSiteTest::SetUp();
    ASSERT_THAT(runtime_.QueryMetadata(&callout_v1_image_instantiate).status, IsOk());
  }

  static std::string Image() { return *ReadFile(CALLOUT_SOFTWARE_GPU_IMAGE, "image"); }

  /// Makes a call site on a device.
  std::unique_ptr<FakeSite> NewSite(int ordinal = 0, XLA_FFI_Handler* execute = &callout_v1_image_execute) {
    return NewSiteOf(&callout_v1_image_instantiate, execute, ordinal);
  }

  /// Returns the attributes of a launch of one block with `threads` threads.
  static FrameBuilder Frame(const std::string& symbol, int64_t threads = 1) {
    FrameBuilder frame;
    frame.StringAttr("callback", symbol)
        .DictionaryAttr("image", {{"bytes", Image()}, {"symbol", symbol}})
        .Int64ArrayAttr("grid", {1, 1, 1})
        .Int64ArrayAttr("block", {threads, 1, 1});
    return frame;
  }

  /// Returns the attributes of scale(float* data, float by, uint32_t count) with the operand number `data`.
  static FrameBuilder ScaleFrame(float by, uint32_t count, int64_t data) {
    std::string block(16, '\0');
    std::memcpy(block.data() + 8, &by, sizeof(by));
    std::memcpy(block.data() + 12, &count, sizeof(count));
    return std::move(Frame("scale", count)
                         .Int64ArrayAttr("parameter_bytes", {8, 4, 4})
                         .StringAttr("parameter_block", block)
                         .Int64ArrayAttr("pointers", {0, data}));
  }
};

}  // namespace callout::internal
