// SPDX-License-Identifier: Apache-2.0
#include "ptx/assembler.h"

namespace callout::software_gpu::ptx {

Program::Program() : code_(std::make_unique<Code>()) {}
Program::~Program() = default;

std::unique_ptr<Program> Program::Read(std::string_view text, std::string& error) {
  std::unique_ptr<Program> program(new Program);
  try {
    const ModuleText module = ParseModule(text);
    ModuleAssembler(module, *program->code_, program->kernels_, program->globals_).Assemble();
  } catch (const ReadError& failed) {
    error = "PTX line " + std::to_string(failed.line) + ": " + failed.what();
    return nullptr;
  }
  return program;
}

void Program::Place(std::string_view global, uint64_t address) {
  for (const GlobalUse& use : code_->uses) {
    if (use.variable != global) continue;
    for (int lane = 0; lane < kWarpLanes; ++lane) {
      code_->constants[size_t{use.constant} * kWarpLanes + lane] = address + use.addend;
    }
  }
}

}  // namespace callout::software_gpu::ptx
