// SPDX-License-Identifier: Apache-2.0
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/host.h"
#include "host/programs.h"

extern char** environ;

namespace callout::bench {
namespace {

constexpr int64_t kElements = 4;

// A process that writes a byte to its standard output at its first result. The constructor returns after that byte.
class Child {
 public:
  explicit Child(const std::string& contender) {
    int ends[2];
    if (pipe(ends) != 0) std::exit(1);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    std::string argument = "--startup=" + contender;
    std::string program = "/proc/self/exe";
    char* arguments[] = {program.data(), argument.data(), nullptr};
    if (posix_spawn(&process_, program.c_str(), &actions, nullptr, arguments, environ) != 0) std::exit(1);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output_ = ends[0];
  }
  void AwaitResult() const {
    char byte = 0;
    if (read(output_, &byte, 1) == 1) return;
    std::fprintf(stderr, "the process that was started has no result\n");
    std::exit(1);
  }
  void AwaitExit() {
    close(output_);
    int status = 0;
    if (waitpid(process_, &status, 0) != process_ || status != 0) std::exit(1);
  }

 private:
  pid_t process_ = 0;
  int output_ = -1;
};

float FirstResult(const std::string& plugin) {
  const pjrt::ClientOptions options = {.values = {{"cpu_device_count", int64_t{1}}}};
  const auto client = Value(pjrt::Client::Create(Value(pjrt::Plugin::Load(plugin)), options));
  const auto executable = Value(pjrt::Compiler(client).Compile({AddOne(kElements)}));
  const pjrt::Buffer input = Ones(client, kElements);
  return Value(Value(executable.Run({&input}))[0].ToVector<float>())[0];
}

float FirstBareResult(const std::string& plugin) {
  return BareProgram(BarePjrt::Load(plugin, 1), AddOne(kElements), kElements, 1).RunAndRead();
}

}  // namespace

int RunStartup(const std::string& contender, const std::string& plugin) {
  const float first = contender == "bare" ? FirstBareResult(plugin) : FirstResult(plugin);
  if (first != 2 || write(STDOUT_FILENO, "2", 1) != 1) return 1;
  _exit(0);  // the end of a process is not measured
}

void RegisterStartups(std::deque<Table>& tables) {
  Table& table = tables.emplace_back("a process, to its first result", "ms", Table::Comparison::kRatio);
  const auto add = [&](Row& row, const std::string& contender) {
    const auto child = std::make_shared<std::unique_ptr<Child>>();
    const auto run = [child, contender] {
      *child = std::make_unique<Child>(contender);
      (*child)->AwaitResult();
    };
    RegisterTimed("startup/" + contender, row, 1, 1, run, [child] { (*child)->AwaitExit(); });
  };
  add(table.AddPeer("bare C API"), "bare");
  add(table.Add("callout::pjrt"), "callout");
}

}  // namespace callout::bench
