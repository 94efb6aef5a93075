// SPDX-License-Identifier: Apache-2.0
//
// Constants of cuBLAS and cuBLASLt, from their documentation.
#pragma once

#include <cstdint>

namespace callout::software_gpu {

enum CublasStatus : int {
  kCublasSuccess = 0,
  kCublasNotInitialized = 1,
  kCublasInvalidValue = 7,
  kCublasExecutionFailed = 13,
  kCublasNotSupported = 15,
};

enum CublasCompute : int {
  kCompute16F = 64,
  kCompute16FPedantic = 65,
  kCompute32F = 68,
  kCompute32FPedantic = 69,
  kCompute64F = 70,
  kCompute64FPedantic = 71,
  kCompute32I = 72,
  kCompute32IPedantic = 73,
  kCompute32FFast16F = 74,
  kCompute32FFast16BF = 75,
  kCompute32FFastTF32 = 77,
  kCompute32FEmulated = 78,
  kCompute64FEmulated = 79,
};

enum CublasPointerMode : int { kPointerHost = 0, kPointerDevice = 1 };

enum MatmulAttribute : int {
  kMatmulComputeType = 0,
  kMatmulScaleType = 1,
  kMatmulPointerMode = 2,
  kMatmulTransposeA = 3,
  kMatmulTransposeB = 4,
  kMatmulTransposeC = 5,
  kMatmulFillMode = 6,
  kMatmulEpilogue = 7,
  kMatmulBiasPointer = 8,
  kMatmulBiasStride = 10,
  kMatmulAuxPointer = 11,
  kMatmulAuxLeading = 12,
  kMatmulAuxStride = 13,
  kMatmulMultiprocessors = 15,
  kMatmulScaleA = 17,
  kMatmulScaleB = 18,
  kMatmulScaleC = 19,
  kMatmulScaleD = 20,
  kMatmulLargestD = 21,
  kMatmulAuxType = 22,
  kMatmulFastAccumulation = 25,
  kMatmulBiasType = 26,
};

enum LayoutAttribute : int {
  kLayoutType = 0,
  kLayoutOrder = 1,
  kLayoutRows = 2,
  kLayoutColumns = 3,
  kLayoutLeading = 4,
  kLayoutBatch = 5,
  kLayoutStride = 6,
};

enum LayoutOrder : int { kOrderColumns = 0, kOrderRows = 1 };

constexpr int kFillFull = 2;
constexpr int kUnset = -1;

}  // namespace callout::software_gpu
