// SPDX-License-Identifier: Apache-2.0
#include "compile.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/base/cat.h"
#include "standard_output.h"

namespace callout::tools {
namespace {

// Returns the command's name for a program, with the shapes if it has several.
std::string NameOf(const pjrt::LoadedExecutable& executable, const CompileOptions& options) {
  return options.program + (executable.shapes().empty() ? "" : ", ") + executable.shapes();
}

// Fails if the cache did not get the program: a caller may trust a program only because it is in the cache. A plugin
// that cannot serialize programs, or a full disk, are no errors of the compiler.
Status CheckIsFromCache(const pjrt::LoadedExecutable& executable, const CompileOptions& options) {
  std::string missing;
  for (const pjrt::LoadedExecutable* each : executable.for_shapes()) {
    if (!each->is_from_cache()) missing += (missing.empty() ? "" : "; ") + NameOf(*each, options);
  }
  if (missing.empty()) return OkStatus();
  return FailedPrecondition("callout: " + missing + " was compiled, but is not in the cache '" + options.cache +
                            "': it cannot be written to, or the plugin cannot serialize programs");
}

// Compiles the program into the cache. Standard output has the command's own lines only: whatever plugins print
// meanwhile goes to standard error.
Status FillCache(const CompileOptions& options) {
  ReservedOutput output(true);
  CALLOUT_ASSIGN_OR_RETURN(pjrt::Program program, pjrt::Program::FromFile(options.program));
  program.name = options.program;  // The name in errors.
  for (pjrt::Program& other : program.others) other.name = options.program;
  CALLOUT_ASSIGN_OR_RETURN(const int devices, DevicesOf(program, options.device_count));
  CALLOUT_ASSIGN_OR_RETURN(const auto client, OpenClient(options.plugin, devices));
  pjrt::CompileOptions compile;
  compile.allow_unbound_names = true;  // Names are bound when the program is loaded.
  compile.embedded_code = false;       // Embedded code is loaded where the program runs, if at all.
  compile.num_partitions = devices;
  compile.cache_directory = options.cache;
  CALLOUT_ASSIGN_OR_RETURN(const auto executable, pjrt::Compiler(client).Compile(program, compile));
  if (!executable.is_from_cache()) {
    CALLOUT_ASSIGN_OR_RETURN(const auto again, pjrt::Compiler(client).Compile(program, compile));
    CALLOUT_RETURN_IF_ERROR(CheckIsFromCache(again, options));
  }
  std::string text;
  for (const pjrt::LoadedExecutable* each : executable.for_shapes()) {
    text += NameOf(*each, options) + ": " + (each->is_from_cache() ? "hit" : "miss") + "\n";
  }
  return output.Write(text);
}

// Describes the plugin by the way it was chosen, because the parent process has not loaded it.
std::string NameOfPlugin(const PluginChoice& choice) {
  const char* const variable = std::getenv("CALLOUT_PJRT_PLUGIN");
  const std::string path = choice.path.empty() && variable != nullptr ? variable : choice.path;
  return path.empty() ? "the CPU plugin of the active Python environment" : "the plugin '" + path + "'";
}

// Waits for `child`, and returns its exit code.
Result<int> WaitFor(pid_t child, const CompileOptions& options) {
  int end = 0;
  while (waitpid(child, &end, 0) < 0) {
    if (errno != EINTR) return InternalError(std::string("callout: waitpid: ") + std::strerror(errno));
  }
  if (WIFEXITED(end)) return WEXITSTATUS(end);
  return InternalError(internal::Cat("callout: the process that read and compiled the program '", options.program,
                                     "' was ended by signal ", WTERMSIG(end), " (", strsignal(WTERMSIG(end)),
                                     "): the program is damaged, or ", NameOfPlugin(options.plugin), " has a defect"));
}

}  // namespace

int Compile(const CompileOptions& options) {
  std::signal(SIGCHLD, SIG_DFL);  // If SIGCHLD were ignored, waitpid would not return the child's status.
  const pid_t parent = getpid(), child = fork();
  if (child < 0) return Refuse(InternalError(std::string("callout: cannot fork: ") + std::strerror(errno)));
  if (child == 0) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) return kUnusable;  // The parent ended before prctl.
    const Status status = FillCache(options);
    return status.ok() ? kSuccess : Refuse(status);
  }
  const Result<int> code = WaitFor(child, options);
  return code.ok() ? *code : Refuse(code.status());
}

}  // namespace callout::tools
