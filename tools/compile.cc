// SPDX-License-Identifier: Apache-2.0
#include "compile.h"

#include <csignal>
#include <cstdio>
#include <string>

namespace callout::tools {
namespace {

// What the command calls a program, or what it has for one of its shapes.
std::string NameOf(const pjrt::LoadedExecutable& executable, const CompileOptions& options) {
  return options.program + (executable.shapes().empty() ? "" : ", ") + executable.shapes();
}

// Whoever runs this command may trust a program only because the cache has it. A plugin that cannot serialise and a
// disk that is full are no errors of the compiler's.
Status CheckIsFromCache(const pjrt::LoadedExecutable& executable, const CompileOptions& options) {
  std::string missing;
  for (const pjrt::LoadedExecutable* each : executable.for_shapes()) {
    if (!each->is_from_cache()) missing += (missing.empty() ? "" : "; ") + NameOf(*each, options);
  }
  if (missing.empty()) return OkStatus();
  return FailedPrecondition("callout: " + missing + " was compiled, but is not in the cache '" + options.cache +
                            "': it cannot be written to, or the plugin cannot serialize programs");
}

Status FillCache(const CompileOptions& options) {
  CALLOUT_ASSIGN_OR_RETURN(pjrt::Program program, pjrt::Program::FromFile(options.program));
  program.name = options.program;  // as errors call it
  for (pjrt::Program& other : program.others) other.name = options.program;
  CALLOUT_ASSIGN_OR_RETURN(const int devices, DevicesOf(program, options.device_count));
  CALLOUT_ASSIGN_OR_RETURN(const auto client, OpenClient(options.plugin, devices));
  pjrt::CompileOptions compile;
  compile.allow_unbound_names = true;  // they are bound when it is loaded
  compile.embedded_code = false;       // it is loaded where the program runs, if at all
  compile.num_partitions = devices;
  compile.cache_directory = options.cache;
  compile.process.command = {"/proc/self/exe", "compile-request"};
  CALLOUT_ASSIGN_OR_RETURN(const auto executable, pjrt::Compiler(client).Compile(program, compile));
  if (!executable.is_from_cache()) {
    CALLOUT_ASSIGN_OR_RETURN(const auto again, pjrt::Compiler(client).Compile(program, compile));
    CALLOUT_RETURN_IF_ERROR(CheckIsFromCache(again, options));
  }
  for (const pjrt::LoadedExecutable* each : executable.for_shapes()) {
    std::printf("%s: %s\n", NameOf(*each, options).c_str(), each->is_from_cache() ? "hit" : "miss");
  }
  return OkStatus();
}

}  // namespace

int Compile(const CompileOptions& options) {
  std::signal(SIGCHLD, SIG_DFL);  // where the caller ignores it, nobody is told how a child ended
  const Status status = FillCache(options);
  return status.ok() ? kSuccess : Refuse(status);
}

}  // namespace callout::tools
