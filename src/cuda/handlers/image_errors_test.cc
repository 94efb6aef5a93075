// SPDX-License-Identifier: Apache-2.0
//
// Tests of errors of callout.v1.image: in the program, in its image, in the driver.
#include <gtest/gtest.h>

#include "core/callbacks/binding_scope.h"
#include "core/callbacks/embedded_library.h"
#include "cuda/driver/stream_work.h"
#include "testing/image_site_fixture.h"

namespace callout::internal {
namespace {

class ImageErrorsTest : public ImageSiteTest {
 protected:
  Status Instantiate(FrameBuilder frame) { return NewSite()->Instantiate(frame); }

  /// Executes a kernel that scales one number by 2, after `change` has modified its frame.
  template <typename Change>
  Status Execute(Change&& change) {
    const auto site = NewSite();
    FrameBuilder frame = ScaleFrame(2, 1, 0);
    frame.Arg(OnDevice({1}, {1}));
    change(frame);
    CALLOUT_RETURN_IF_ERROR(site->Instantiate(frame));
    return site->Execute(frame);
  }
  Status Execute() {
    return Execute([](FrameBuilder&) {});
  }
};

TEST_F(ImageErrorsTest, AttributesThatDoNotFitAreRefusedWhenTheProgramIsLoaded) {
  constexpr StatusCode kInvalid = StatusCode::kInvalidArgument;
  EXPECT_THAT(Instantiate(FrameBuilder()), StatusIs(kInvalid, "attribute 'callback' is missing"));
  EXPECT_THAT(Instantiate(std::move(FrameBuilder().StringAttr("callback", "f"))),
              StatusIs(kInvalid, "callout: callback 'f': attribute 'image' is missing; it must be a dictionary"));
  EXPECT_THAT(Instantiate(std::move(Frame("f").DictionaryAttr("image", {{"symbol", "f"}}))),
              StatusIs(kInvalid, "in attribute 'image': attribute 'bytes' is missing"));
  EXPECT_THAT(Instantiate(std::move(Frame("f").DictionaryAttr("image", {{"bytes", ""}, {"symbol", "f"}}))),
              StatusIs(kInvalid, "carries no image"));
  EXPECT_THAT(Instantiate(std::move(Frame("f").DictionaryAttr("image", {{"bytes", "x"}, {"symbol", ""}}))),
              StatusIs(kInvalid, "what it is called in its image"));
  EXPECT_THAT(Instantiate(std::move(Frame("f").Int64ArrayAttr("grid", {1, 1}))),
              StatusIs(kInvalid, "'grid' must have 3 numbers, got 2"));
  EXPECT_THAT(Instantiate(std::move(Frame("f").Int64ArrayAttr("block", {1, 0, 1}))),
              StatusIs(kInvalid, "kernel 'f': block.y is 0"));
  EXPECT_THAT(Instantiate(std::move(Frame("f").Int64ArrayAttr("grid", {int64_t{1} << 40, 1, 1}))),
              StatusIs(kInvalid, "'grid' must be 0 to 2147483647, got 1099511627776"));
  EXPECT_THAT(Instantiate(std::move(Frame("f").Int64ArrayAttr("parameter_bytes", {8}))),
              StatusIs(kInvalid, "its parameters have 8 bytes, attribute 'parameter_block' has 0"));
  EXPECT_THAT(Instantiate(std::move(Frame("f").Int64ArrayAttr("pointers", {0, 0}))),
              StatusIs(kInvalid, "to byte 0 of 0"));
  EXPECT_THAT(Instantiate(std::move(Frame("f").Int64ArrayAttr("pointers", {0}))), StatusIs(kInvalid, "must be pairs"));
  EXPECT_THAT(Instantiate(std::move(Frame("f").DictionaryAttr("faults", {{"3", "x"}}))),
              StatusIs(kInvalid, "in attribute 'faults': attribute 'symbol' is missing"));
}

TEST_F(ImageErrorsTest, ParametersOfAnotherConventionAreNotLaunched) {
  EXPECT_THAT(Execute([](FrameBuilder& frame) { frame.Int64ArrayAttr("parameter_bytes", {8, 8}); }),
              StatusIs(StatusCode::kFailedPrecondition,
                       "kernel 'scale' on device 0: its image takes parameters of [8, 4, 4] bytes, the program passes "
                       "[8, 8]"));
  EXPECT_EQ(fake()->calls("cuLaunchKernel"), 0);
}

TEST_F(ImageErrorsTest, BlockThatIsTooBigForTheKernelIsToldWithItsLimit) {
  EXPECT_THAT(Execute([](FrameBuilder& frame) {
                frame = Frame("small_blocks", 128);
                frame.Int64ArrayAttr("parameter_bytes", {8}).StringAttr("parameter_block", std::string(8, '\0'));
              }),
              StatusIs(StatusCode::kInvalidArgument, "blocks of 128 threads, but with its registers it can have 64"));
}

// 2^22 * 2^21 * 2^21 overflows to 0 in 64 bits.
TEST_F(ImageErrorsTest, BlocksOfMoreThreadsThanCanBeCountedAreTooBig) {
  const std::vector<int64_t> extents = {int64_t{1} << 22, int64_t{1} << 21, int64_t{1} << 21};
  EXPECT_THAT(Execute([&](FrameBuilder& frame) { frame.Int64ArrayAttr("block", extents); }),
              StatusIs(StatusCode::kInvalidArgument, "but with its registers it can have"));
  EXPECT_THAT(Execute([&](FrameBuilder& frame) { frame.Int64Attr("cooperative", 1).Int64ArrayAttr("grid", extents); }),
              StatusIs(StatusCode::kInvalidArgument, "a cooperative launch of 18446744073709551615 blocks"));
  EXPECT_EQ(fake()->calls("cuLaunchKernel"), 0);
  EXPECT_EQ(fake()->calls("cuLaunchCooperativeKernel"), 0);
}

// The driver does not report how many blocks of clusters run at the same time, and a grid must be a multiple of its
// clusters.
TEST_F(ImageErrorsTest, AGridThatFillsTheDeviceHasNoCompiledClusters) {
  EXPECT_THAT(Execute([](FrameBuilder& frame) {
                frame = Frame("of_two");
                frame.Int64Attr("fills_device", 1).Int64Attr("cooperative", 1).Int64ArrayAttr("parameter_bytes", {8});
                frame.StringAttr("parameter_block", std::string(8, '\0'));
              }),
              StatusIs(StatusCode::kInvalidArgument,
                       "kernel 'of_two' on device 0: a grid that fills the device has no clusters, and the kernel was "
                       "compiled for clusters of 2 blocks"));
  EXPECT_EQ(fake()->calls("cuLaunchCooperativeKernel"), 0);
}

TEST_F(ImageErrorsTest, ClustersThatDoNotFitTheGridAreTold) {
  constexpr StatusCode kInvalid = StatusCode::kInvalidArgument;
  EXPECT_THAT(Instantiate(std::move(Frame("f").Int64ArrayAttr("grid", {4, 3, 1}).Int64ArrayAttr("cluster", {2, 2, 1}))),
              StatusIs(kInvalid, "kernel 'f': grid.y is 3, and no multiple of the cluster's 2"));
  EXPECT_THAT(Instantiate(std::move(Frame("f").Int64Attr("fills_device", 1).Int64ArrayAttr("cluster", {1, 1, 1}))),
              StatusIs(kInvalid, "a grid that fills the device has no clusters"));
  EXPECT_THAT(Instantiate(std::move(Frame("f").Int64ArrayAttr("cluster", {1, 0, 1}))), StatusIs(kInvalid, "'cluster'"));
  EXPECT_THAT(
      Execute(
          [](FrameBuilder& frame) { frame.Int64ArrayAttr("grid", {32, 1, 1}).Int64ArrayAttr("cluster", {32, 1, 1}); }),
      StatusIs(kInvalid, "cuLaunchKernelEx of 'scale' on device 0 failed: CUDA_ERROR_INVALID_CLUSTER_SIZE (912)"));
}

TEST_F(ImageErrorsTest, TensorMapsThatDoNotFitAreTold) {
  constexpr StatusCode kInvalid = StatusCode::kInvalidArgument;
  const auto map_at = [](int64_t position, int64_t rank, int64_t operand = 0) {
    return std::vector<int64_t>{position, operand, 7, rank, 4, 3, 1, 1, 1, 20, 0, 0, 0, 0,
                                4,        2,       1, 1,    1, 1, 1, 1, 1, 1,  0, 0, 0, 0};
  };
  const auto with = [&](std::vector<int64_t> map) {
    FrameBuilder frame = Frame("copy_box");
    frame.Int64ArrayAttr("parameter_bytes", {8, 128})
        .StringAttr("parameter_block", std::string(136, '\0'))
        .Int64ArrayAttr("tensor_maps", std::move(map));
    return frame;
  };
  EXPECT_THAT(Instantiate(with(map_at(9, 2))), StatusIs(kInvalid, "to byte 9 of 136"));
  EXPECT_THAT(Instantiate(with(map_at(8, 6))), StatusIs(kInvalid, "a tensor map has 1 to 5 axes, got 6"));
  EXPECT_THAT(Instantiate(with(map_at(8, (int64_t{1} << 32) + 2))),
              StatusIs(kInvalid, "number 3 of a tensor map must be at most 2147483647, got 4294967298"));
  EXPECT_THAT(Execute([&](FrameBuilder& frame) { frame = with(map_at(8, 2, 3)); }),
              StatusIs(kInvalid, "the address of operand 3, the call has 0"));
  EXPECT_THAT(
      Execute([&](FrameBuilder& frame) {
        frame = with(map_at(8, 2));
        frame.Arg(OnDevice({3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
      }),
      StatusIs(kInvalid, "cuTensorMapEncodeTiled of 'copy_box' on device 0 failed: CUDA_ERROR_INVALID_VALUE (1)"));
}

TEST_F(ImageErrorsTest, MissingKernelIsTold) {
  EXPECT_THAT(
      Execute([](FrameBuilder& frame) { frame.DictionaryAttr("image", {{"bytes", Image()}, {"symbol", "none"}}); }),
      StatusIs(StatusCode::kNotFound, "'none'"));
}

TEST_F(ImageErrorsTest, BytesThatAreNoImageAreTold) {
  EXPECT_THAT(
      Execute([](FrameBuilder& frame) { frame.DictionaryAttr("image", {{"bytes", "no image"}, {"symbol", "scale"}}); }),
      StatusIs(StatusCode::kInvalidArgument, "CUDA_ERROR_INVALID_IMAGE (200)"));
}

TEST_F(ImageErrorsTest, WrongPtxIsToldInTheWordsOfTheCompiler) {
  const char* wrong = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry scale() { frobnicate; ret; }\n";
  EXPECT_THAT(
      Execute([&](FrameBuilder& frame) { frame.DictionaryAttr("image", {{"bytes", wrong}, {"symbol", "scale"}}); }),
      StatusIs(StatusCode::kInvalidArgument, "'frobnicate'"));
}

TEST_F(ImageErrorsTest, OperandThatThereIsNotIsTold) {
  EXPECT_THAT(Execute([](FrameBuilder& frame) { frame.Int64ArrayAttr("pointers", {0, 7}); }),
              StatusIs(StatusCode::kInvalidArgument, "the address of operand 7, the call has 1"));
}

TEST_F(ImageErrorsTest, CallWithoutAStreamIsTold) {
  const auto site = NewSite();
  site->stream.reset();
  FrameBuilder frame = ScaleFrame(2, 1, 0);
  frame.Arg(OnDevice({1}, {1}));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kUnimplemented, "no stream for the call"));
}

TEST_F(ImageErrorsTest, ImageThatIsNotLoadedWhenACaptureBeginsIsAnErrorOfTheCapture) {
  const auto site = NewSite();
  FrameBuilder frame = ScaleFrame(2, 1, 0);
  frame.Arg(OnDevice({1}, {1}));
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  const cuda::ContextScope current(device());
  auto capture = cuda::StreamCapture::Begin(device(), stream());
  ASSERT_THAT(capture, IsOk());
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kFailedPrecondition, "STREAM_CAPTURE_UNSUPPORTED (900)"));
  EXPECT_FALSE(capture->End().ok());
}

TEST_F(ImageErrorsTest, EachCallOfTheDriverThatFailsIsTheErrorOfTheProgram) {
  struct Case {
    const char* function;
    int code;
    const char* text;
  };
  for (const auto& [function, code, text] : {
           Case{"cuDevicePrimaryCtxRetain", 2, "CUDA_ERROR_OUT_OF_MEMORY (2)"},
           Case{"cuLibraryLoadData", 209, "CUDA_ERROR_NO_BINARY_FOR_GPU (209)"},
           Case{"cuLibraryGetKernel", 209, "CUDA_ERROR_NO_BINARY_FOR_GPU (209)"},
           Case{"cuLibraryGetKernel", 500, "CUDA_ERROR_NOT_FOUND (500)"},
           Case{"cuKernelGetFunction", 2, "CUDA_ERROR_OUT_OF_MEMORY (2)"},
           Case{"cuFuncLoad", 2, "CUDA_ERROR_OUT_OF_MEMORY (2)"},
           Case{"cuFuncGetParamInfo", 400, "CUDA_ERROR_INVALID_HANDLE (400)"},
           Case{"cuFuncGetAttribute", 400, "CUDA_ERROR_INVALID_HANDLE (400)"},
           Case{"cuCtxPushCurrent", 201, "CUDA_ERROR_INVALID_CONTEXT (201)"},
           Case{"cuLaunchKernel", 701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)"},
       }) {
    FrameBuilder frame = ScaleFrame(2, 1, 0);
    TestBuffer data = OnDevice({1}, {1});
    frame.Arg(data);
    const auto site = NewSite();
    ASSERT_THAT(site->Instantiate(frame), IsOk());
    fake()->fail(function, 1, code);
    Status failed = site->Execute(frame);
    EXPECT_FALSE(failed.ok()) << function;
    EXPECT_NE(std::string(failed.message()).find(text), std::string::npos) << function << ": " << failed.message();
    EXPECT_NE(std::string(failed.message()).find(function), std::string::npos) << failed.message();
    // The site still works.
    EXPECT_THAT(site->Execute(frame), IsOk()) << "after " << function;
  }
}

TEST_F(ImageErrorsTest, FaultOfTheDeviceArrivesWhereItIsWaitedFor) {
  const auto site = NewSite(0, &callout_v1_image_sync_execute);
  FrameBuilder frame = Frame("fault");
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInternal, "CUDA_ERROR_ILLEGAL_ADDRESS (700)"));
}

TEST_F(ImageErrorsTest, ProcessThatRunsNoCarriedCodeRunsItsOwn) {
  AllowEmbeddedCode(false);
  EXPECT_THAT(Execute(), StatusIs(StatusCode::kFailedPrecondition, "config.embedded_code"));
  ExpectImage(Image());
  EXPECT_THAT(Execute(), IsOk());
  AllowEmbeddedCode(true);
}

TEST_F(ImageErrorsTest, RefusedImagesMayFailWhereTheyAreLaunched) {
  const Bindings none;
  BindingScope scope(none);
  scope.SetEmbeddedCode(/*allowed=*/false, /*fails_late=*/true);
  FrameBuilder frame = ScaleFrame(2, 1, 0);
  frame.DictionaryAttr("image", {{"bytes", "an image that nobody expects"}, {"symbol", "scale"}});
  frame.Arg(OnDevice({1}, {1}));
  const auto site = NewSite();
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kFailedPrecondition, "the program carries the kernel"));
  EXPECT_EQ(fake()->calls("cuLibraryLoadData"), 0);
}

// The error comes in words when the kernel is loaded, not as error 720 of a launch.
TEST_F(ImageErrorsTest, CooperativeBlocksThatCannotRunAtOnceAreCounted) {
  const auto site = NewSite();
  TestBuffer data = OnDevice({2}, {1, 2});
  FrameBuilder frame = ScaleFrame(2, 2, 0);
  frame.Int64Attr("cooperative", 1).Int64ArrayAttr("grid", {100000, 1, 1}).Arg(data);
  ASSERT_THAT(site->Instantiate(frame), IsOk());
  EXPECT_THAT(site->Execute(frame), StatusIs(StatusCode::kInvalidArgument, "a cooperative launch of 100000 blocks"));
  EXPECT_EQ(fake()->calls("cuLaunchCooperativeKernel"), 0);
}

}  // namespace
}  // namespace callout::internal
