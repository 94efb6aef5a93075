// SPDX-License-Identifier: Apache-2.0
//
// Reads cubins and fat binaries. A cubin has a section `.nv.info.<kernel>` for each kernel, with records of a format
// byte, an attribute byte and two bytes that are a value or the length of the data that follows.
#include "driver/gpu_images.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string_view>

namespace callout::software_gpu {
namespace {

constexpr int kCudaMachine = 190;  // EM_CUDA
constexpr std::string_view kInfo = ".nv.info.";
constexpr uint8_t kWithLength = 4;
constexpr uint8_t kParameter = 0x17;
constexpr uint8_t kLargeParameter = 0x45;  // the attribute in kernels with more than about 4 KB of parameters

struct InfoRecord {
  uint8_t format;
  uint8_t attribute;
  uint16_t value;
};

struct Parameter {
  uint32_t index;
  uint16_t place;
  uint16_t offset;
  uint32_t packed;  // the size is above bit 18; for large parameters, below bit 24
};

template <typename T>
T Read(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

std::vector<size_t> ParametersIn(const char* section, size_t bytes) {
  std::map<uint16_t, size_t> sizes;
  for (size_t at = 0; at + sizeof(InfoRecord) <= bytes;) {
    const auto record = Read<InfoRecord>(section + at);
    at += sizeof(record);
    if (record.format != kWithLength) continue;
    if (record.attribute == kParameter || record.attribute == kLargeParameter) {
      const auto parameter = Read<Parameter>(section + at);
      sizes[parameter.place] = record.attribute == kParameter ? parameter.packed >> 18 : parameter.packed & 0xFFFFFF;
    }
    at += record.value;
  }
  std::vector<size_t> ordered;
  for (const auto& [place, size] : sizes) ordered.push_back(size);
  return ordered;
}

// A fat binary has a head, and entries with heads of their own.
constexpr uint32_t kFatWrapper = 0x466243b1;
constexpr uint32_t kFatBinary = 0xba55ed50;
constexpr uint16_t kFatPtx = 1;
constexpr uint64_t kFatCompressed = 0xa000;  // LZ4, or Zstandard

struct FatHead {
  uint32_t magic;
  uint16_t version;
  uint16_t head_bytes;
  uint64_t bytes;  // of all entries
};

struct FatEntry {
  uint16_t kind;
  uint16_t version;
  uint32_t head_bytes;
  uint64_t bytes;
  uint32_t compressed_bytes;
  uint32_t options;
  uint16_t minor;
  uint16_t major;
  uint32_t arch;
  uint32_t name_offset;
  uint32_t name_bytes;
  uint64_t flags;
};

CUresult FindInFatBinary(const char* image, std::string* text, std::string* problem) {
  const auto head = Read<FatHead>(image);
  const char* const end = image + head.head_bytes + head.bytes;
  uint32_t newest = 0;
  for (const char* at = image + head.head_bytes; at + sizeof(FatEntry) <= end;) {
    const auto entry = Read<FatEntry>(at);
    const char* const content = at + entry.head_bytes;
    at = content + entry.bytes;
    if (entry.kind != kFatPtx || entry.arch > 90 || entry.arch < newest) continue;
    if ((entry.flags & kFatCompressed) != 0) {
      *problem = "the PTX of a fat binary is compressed (nvcc --no-compress)";
      continue;
    }
    newest = entry.arch;
    text->assign(content, strnlen(content, entry.bytes));
  }
  if (!text->empty()) return CUDA_SUCCESS;
  if (problem->empty()) *problem = "the fat binary has no PTX for sm_90";
  return CUDA_ERROR_NO_BINARY_FOR_GPU;
}

bool IsCubin(const char* image) {
  return std::memcmp(image, ELFMAG, SELFMAG) == 0 && Read<Elf64_Ehdr>(image).e_machine == kCudaMachine;
}

}  // namespace

CUresult FindPtx(const void* image, std::string* text, std::string* problem) {
  const auto* bytes = static_cast<const char*>(image);
  if (Read<uint32_t>(bytes) == kFatWrapper) bytes = Read<const char*>(bytes + sizeof(uint64_t));
  if (Read<uint32_t>(bytes) == kFatBinary) return FindInFatBinary(bytes, text, problem);
  if (std::memchr("./\n\r\t ", *bytes, 6) != nullptr) *text = bytes;
  return CUDA_SUCCESS;
}

bool IsGpuImage(const void* image) {
  const auto* text = static_cast<const char*>(image);
  return IsCubin(text) || std::strncmp(text, "//", 2) == 0 || std::strncmp(text, ".version", 8) == 0;
}

std::vector<GpuKernel> KernelsOf(const void* image) {
  const auto* bytes = static_cast<const char*>(image);
  if (!IsCubin(bytes)) return {};
  const auto header = Read<Elf64_Ehdr>(bytes);
  const auto section = [&](size_t i) { return Read<Elf64_Shdr>(bytes + header.e_shoff + i * header.e_shentsize); };
  const char* names = bytes + section(header.e_shstrndx).sh_offset;
  std::vector<GpuKernel> kernels;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const Elf64_Shdr found = section(i);
    const std::string_view name = names + found.sh_name;
    if (!name.starts_with(kInfo)) continue;
    kernels.push_back({std::string(name.substr(kInfo.size())), ParametersIn(bytes + found.sh_offset, found.sh_size)});
  }
  return kernels;
}

}  // namespace callout::software_gpu
