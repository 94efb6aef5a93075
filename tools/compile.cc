// SPDX-License-Identifier: Apache-2.0
#include "compile.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

namespace callout::tools {
namespace {

Status CompileHere(const CompileOptions& options) {
  CALLOUT_ASSIGN_OR_RETURN(const pjrt::Program program, pjrt::Program::FromFile(options.program));
  CALLOUT_ASSIGN_OR_RETURN(const int devices, DevicesOf(program, options.device_count));
  CALLOUT_ASSIGN_OR_RETURN(const auto client, OpenClient(options.plugin, devices));
  pjrt::CompileOptions compile;
  compile.allow_unbound_names = true;  // they are bound when it is loaded
  compile.num_partitions = devices;
  compile.cache_directory = options.cache;
  CALLOUT_ASSIGN_OR_RETURN(const auto executable, pjrt::Compiler(client).Compile(program, compile));
  for (const pjrt::LoadedExecutable* each : executable.for_shapes()) {
    std::printf("%s%s%s: %s\n", options.program.c_str(), each->shapes().empty() ? "" : ", ", each->shapes().c_str(),
                each->is_from_cache() ? "hit" : "miss");
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
