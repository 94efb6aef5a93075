// SPDX-License-Identifier: Apache-2.0
//
// Program files: MLIR text and bytecode, portable artifacts, files of jax.export.
#include <string>

#include "callout/pjrt/contents.h"
#include "callout/pjrt/program.h"
#include "fuzz.h"

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
