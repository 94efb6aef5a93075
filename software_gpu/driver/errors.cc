// SPDX-License-Identifier: Apache-2.0
//
// Names and texts of errors. Where NVIDIA's text is not known, the text is the name from cuda.h in words.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <map>
#include <string>

#include "driver/cuda_types.h"

namespace callout::software_gpu {
namespace {

struct Text {
  std::string name;
  std::string words;
};

std::string WordsOf(std::string name) {
  name.erase(0, std::string("CUDA_ERROR_").size());
  std::replace(name.begin(), name.end(), '_', ' ');
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return name;
}

std::map<int, Text> MakeTexts() {
  std::map<int, Text> texts;
#define X(error) texts[error] = {#error, WordsOf(#error)};
#include "error_table.inc"
#undef X
  // The texts of NVIDIA's driver.
  texts[CUDA_SUCCESS].words = "no error";
  texts[CUDA_ERROR_INVALID_VALUE].words = "invalid argument";
  texts[CUDA_ERROR_NOT_INITIALIZED].words = "initialization error";
  texts[CUDA_ERROR_DEINITIALIZED].words = "driver shutting down";
  texts[CUDA_ERROR_NO_DEVICE].words = "no CUDA-capable device is detected";
  texts[CUDA_ERROR_INVALID_DEVICE].words = "invalid device ordinal";
  texts[CUDA_ERROR_INVALID_IMAGE].words = "device kernel image is invalid";
  texts[CUDA_ERROR_INVALID_CONTEXT].words = "invalid device context";
  texts[CUDA_ERROR_NO_BINARY_FOR_GPU].words = "no kernel image is available for execution on the device";
  texts[CUDA_ERROR_INVALID_PTX].words = "a PTX JIT compilation failed";
  texts[CUDA_ERROR_INVALID_HANDLE].words = "invalid resource handle";
  texts[CUDA_ERROR_NOT_FOUND].words = "named symbol not found";
  texts[CUDA_ERROR_NOT_READY].words = "device not ready";
  texts[CUDA_ERROR_ILLEGAL_ADDRESS].words = "an illegal memory access was encountered";
  texts[CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES].words = "too many resources requested for launch";
  texts[CUDA_ERROR_LAUNCH_TIMEOUT].words = "the launch timed out and was terminated";
  texts[CUDA_ERROR_ASSERT].words = "device-side assert triggered";
  texts[CUDA_ERROR_ILLEGAL_INSTRUCTION].words = "an illegal instruction was encountered";
  texts[CUDA_ERROR_LAUNCH_FAILED].words = "unspecified launch failure";
  texts[CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE].words = "too many blocks in cooperative launch";
  texts[CUDA_ERROR_NOT_PERMITTED].words = "operation not permitted";
  texts[CUDA_ERROR_NOT_SUPPORTED].words = "operation not supported";
  texts[CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED].words = "operation not permitted when stream is capturing";
  texts[CUDA_ERROR_STREAM_CAPTURE_INVALIDATED].words = "operation failed due to a previous error during capture";
  texts[CUDA_ERROR_UNKNOWN].words = "unknown error";
  return texts;
}

// Finds an error's texts. The number is copied, because callers may pass numbers that the enumeration cannot hold.
const Text* FindText(const CUresult& error) {
  int number;
  std::memcpy(&number, &error, sizeof(number));
  static const auto* const texts = new std::map<int, Text>(MakeTexts());
  const auto found = texts->find(number);
  return found != texts->end() ? &found->second : nullptr;
}

}  // namespace

extern "C" CUresult cuGetErrorName(CUresult error, const char** name) {
  const Text* text = FindText(error);
  *name = text != nullptr ? text->name.c_str() : nullptr;
  return text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

extern "C" CUresult cuGetErrorString(CUresult error, const char** words) {
  const Text* text = FindText(error);
  *words = text != nullptr ? text->words.c_str() : nullptr;
  return text != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace callout::software_gpu
