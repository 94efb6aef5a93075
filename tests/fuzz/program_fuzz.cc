// SPDX-License-Identifier: Apache-2.0
//
// Fuzzes program files: MLIR text and bytecode, portable artifacts, files of jax.export.
#include <string>

#include "callout/pjrt/contents.h"
#include "callout/pjrt/program.h"
#include "fuzz.h"
#include "mutation.h"

void callout::fuzz::Try(std::string_view bytes) {
  const Result<pjrt::Program> program = pjrt::Program::FromBytes(std::string(bytes));
  if (!program.ok()) return;
  CALLOUT_CHECK(!program->code.empty(), "a program without code");
  CALLOUT_CHECK(program->num_devices >= 0, "a negative number of devices");
  (void)program->StablehloVersion();
  const Result<pjrt::ProgramContents> contents = pjrt::ReadContents(*program);
  if (!contents.ok()) return;
  for (const pjrt::CallbackUse& use : contents->callbacks) CALLOUT_CHECK(!use.target.empty(), "a call of nothing");
}

namespace {

using callout::fuzz::Mutation;

constexpr const char* kPieces[] = {"module @m {",
                                   "module",
                                   "func.func public @main(",
                                   "%x: tensor<f32>",
                                   "tensor<4xi8>",
                                   "stablehlo.custom_call @callout.v1.call(",
                                   "stablehlo.custom_call",
                                   "@callout.v1.tap",
                                   "mhlo.backend_config = {callback = \"py:f\"}",
                                   "api_version = 4 : i32",
                                   "mhlo.num_partitions = 2 : i32",
                                   "mhlo.num_replicas = 2 : i32",
                                   "->",
                                   "return",
                                   "}",
                                   "{",
                                   "(",
                                   ")",
                                   "\"",
                                   "\\22",
                                   "\n",
                                   "//",
                                   ": () -> ()",
                                   "callout.programs 1\n"};

// Mutates MLIR bytecode: behind the version and its producer are sections of a number, a length and bytes. A small
// number takes one byte: twice the number plus one.
std::string MutateBytecode(Mutation& mutation, const std::string& text) {
  const size_t begin = text.find('\0') + 1;
  size_t at = begin;
  std::vector<std::pair<size_t, size_t>> sections;  // offset and size of each section's bytes
  while (begin != 0 && at + 1 < text.size()) {
    const bool is_aligned = (static_cast<unsigned char>(text[at++]) & 0x80U) != 0;
    const auto first = static_cast<unsigned char>(text[at]);
    const auto width = static_cast<size_t>(first == 0 ? 9 : std::countr_zero(first) + 1);
    if (is_aligned || at + width > text.size()) break;
    uint64_t length = 0;
    std::memcpy(&length, text.data() + at, std::min<size_t>(width, 8));
    length >>= width;
    at += width;
    if (length > text.size() - at) break;
    sections.emplace_back(at, length);
    at += length;
  }
  if (sections.empty()) return mutation.Bytes(text);
  const auto [from, size] = sections[mutation.Below(sections.size())];
  std::string changed = text;
  for (size_t rounds = 1 + mutation.Below(3); rounds > 0 && size > 0; --rounds) {
    const size_t to = from + mutation.Below(size);
    changed[to] = mutation.OneIn(3) ? text[from + mutation.Below(size)] : static_cast<char>(2 * mutation.Below(64) + 1);
  }
  return changed;
}

std::string MutateProgram(Mutation& mutation, const std::string& text) {
  const size_t bytecode = text.find("ML\xefR");
  if (bytecode == 0 || (bytecode != std::string::npos && mutation.OneIn(2))) {
    return text.substr(0, bytecode) + MutateBytecode(mutation, text.substr(bytecode));
  }
  const bool is_text = text.find('\0') == std::string::npos;
  return is_text ? mutation.Tokens(text, " ,:()<>{}\"=\n", kPieces) : mutation.Words(text);
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return callout::fuzz::MutateInput(data, size, max_size, seed, MutateProgram);
}
