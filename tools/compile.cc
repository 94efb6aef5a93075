// SPDX-License-Identifier: Apache-2.0
#include "compile.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
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

Status CompileHere(const CompileOptions& options) {
  CALLOUT_ASSIGN_OR_RETURN(const pjrt::Program program, pjrt::Program::FromFile(options.program));
  CALLOUT_ASSIGN_OR_RETURN(const int devices, DevicesOf(program, options.device_count));
  CALLOUT_ASSIGN_OR_RETURN(const auto client, OpenClient(options.plugin, devices));
  pjrt::CompileOptions compile;
  compile.allow_unbound_names = true;  // they are bound when it is loaded
  compile.num_partitions = devices;
  compile.cache_directory = options.cache;
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
  std::fflush(nullptr);
  std::signal(SIGCHLD, SIG_DFL);  // where the caller ignores it, nobody is told how a child ended
  const pid_t command = getpid();
  const pid_t child = fork();
  if (child < 0) {
    std::fprintf(stderr, "callout: cannot start a process: %s\n", std::strerror(errno));
    return kUnusable;
  }
  if (child == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != command) _exit(kUnusable);  // it was killed before
    const Status status = CompileHere(options);
    const int code = status.ok() ? kSuccess : Refuse(status);
    std::fflush(nullptr);
    _exit(code);  // a plugin's threads may still be there
  }
  int state = 0;
  while (waitpid(child, &state, 0) < 0) {
    if (errno == EINTR) continue;
    std::fprintf(stderr, "callout: nothing is known of the process that compiled '%s': %s\n", options.program.c_str(),
                 std::strerror(errno));
    return kUnusable;
  }
  if (WIFEXITED(state)) return WEXITSTATUS(state);
  std::fprintf(
      stderr,
      "callout: the process that read and compiled '%s' was ended by signal %d (%s): the program is damaged, or "
      "the plugin has a defect\n",
      options.program.c_str(), WTERMSIG(state), strsignal(WTERMSIG(state)));
  return kUnusable;
}

}  // namespace callout::tools
