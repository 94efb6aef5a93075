// SPDX-License-Identifier: Apache-2.0
#include "executables/compile_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/deadline.h"
#include "base/descriptor.h"
#include "base/write_all.h"
#include "executables/other_handlers.h"

extern char** environ;

namespace callout::internal {
namespace {

using Clock = std::chrono::steady_clock;

// A process that is killed if nobody has waited for it.
class Child {
 public:
  explicit Child(pid_t id) : id_(id) {}
  ~Child() {
    if (id_ <= 0) return;
    kill(id_, SIGKILL);
    (void)Wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Its state, as waitpid has it; -1 where this process lets somebody else wait for its children.
  int Wait() {
    int state = 0;
    pid_t waited = 0;
    do {
      waited = waitpid(id_, &state, 0);
    } while (waited < 0 && errno == EINTR);
    id_ = 0;
    return waited < 0 ? -1 : state;
  }

 private:
  pid_t id_;
};

Status Late(const std::string& what) {
  return Status(StatusCode::kDeadlineExceeded, "callout: the process that compiles " + what + " was not done in time");
}

// Until `events` or the deadline.
Status Await(int socket, short events, Clock::time_point deadline, const std::string& what) {
  while (true) {
    int milliseconds = -1;
    if (deadline != Clock::time_point::max()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) return Late(what);
      milliseconds = static_cast<int>(std::min<int64_t>(left, 60'000));
    }
    pollfd one = {socket, events, 0};
    const int ready = poll(&one, 1, milliseconds);
    if (ready > 0) return OkStatus();
    if (ready < 0 && errno != EINTR) return InternalError(std::string("callout: poll: ") + std::strerror(errno));
  }
}

// A process that ended has no ears: what it says, or how it ended, tells why.
Status Send(int socket, std::string_view bytes, Clock::time_point deadline, const std::string& what) {
  while (!bytes.empty()) {
    CALLOUT_RETURN_IF_ERROR(Await(socket, POLLOUT, deadline, what));
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
    } else if (errno != EINTR && errno != EAGAIN) {
      break;
    }
  }
  (void)shutdown(socket, SHUT_WR);
  return OkStatus();
}

Result<std::string> Receive(int socket, Clock::time_point deadline, const std::string& what) {
  std::string bytes;
  char part[1 << 16];
  while (true) {
    CALLOUT_RETURN_IF_ERROR(Await(socket, POLLIN, deadline, what));
    const ssize_t got = recv(socket, part, sizeof(part), MSG_DONTWAIT);
    if (got > 0) bytes.append(part, static_cast<size_t>(got));
    const bool is_over = got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN);
    if (is_over) return bytes;
  }
}

// Its standard input and output are `socket`.
Result<pid_t> Start(const std::vector<std::string>& command, int socket) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  pid_t id = 0;
  const int error = posix_spawnp(&id, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return id;
  return NotFound("callout: cannot start '" + command[0] + "' to compile a program: " + std::strerror(error));
}

Status Ended(int state, const CompileRequest& request, const std::string& what) {
  const std::string process = "callout: the process that read and compiled " + what;
  if (state >= 0 && WIFSIGNALED(state)) {
    const int signal = WTERMSIG(state);
    return InternalError(process + " was ended by signal " + std::to_string(signal) + " (" + strsignal(signal) +
                         "): the program is damaged, or the plugin '" + request.plugin + "' has a defect");
  }
  const std::string code = state >= 0 ? " with exit code " + std::to_string(WEXITSTATUS(state)) : "";
  return InternalError(process + " ended" + code +
                       " and did not answer: is it 'callout compile-request', or a "
                       "program that calls AnswerCompileRequest?");
}

}  // namespace

Result<std::string> CompileElsewhere(const pjrt::CompileProcess& process, CompileRequest request,
                                     const std::string& what) {
  const double seconds = std::chrono::duration<double>(process.timeout).count();
  const Clock::time_point deadline = DeadlineAfter(seconds > 0 ? seconds : -1);
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return InternalError(std::string("callout: no sockets for a process that compiles: ") + std::strerror(errno));
  }
  const Descriptor ours(sockets[0]);
  Descriptor theirs(sockets[1]);
  CALLOUT_ASSIGN_OR_RETURN(const pid_t id, Start(process.command, theirs.number()));
  Child child(id);
  theirs.Close();
  request.asker = getpid();
  CALLOUT_RETURN_IF_ERROR(Send(ours.number(), request.Write(), deadline, what));
  CALLOUT_ASSIGN_OR_RETURN(const std::string answer, Receive(ours.number(), deadline, what));
  const int state = child.Wait();
  const bool has_answered = !answer.empty() && (state == 0 || state == -1);
  return has_answered ? ReadCompileAnswer(answer) : Result<std::string>(Ended(state, request, what));
}

}  // namespace callout::internal

namespace callout::pjrt {
namespace {

std::string ReadAll(int descriptor) {
  std::string bytes;
  char part[1 << 16];
  while (true) {
    const ssize_t got = read(descriptor, part, sizeof(part));
    if (got > 0) bytes.append(part, static_cast<size_t>(got));
    if (got == 0 || (got < 0 && errno != EINTR)) return bytes;
  }
}

Result<std::string> Answer(const internal::CompileRequest& request) {
  CALLOUT_ASSIGN_OR_RETURN(const auto plugin, Plugin::Load(request.plugin));
  CALLOUT_ASSIGN_OR_RETURN(const auto client, Client::Create(plugin, request.client));
  for (const std::string& handler : request.handlers) {
    CALLOUT_RETURN_IF_ERROR(plugin->RegisterHandler(
        {.name = handler, .platform = client->platform(), .execute = &internal::HandlerOfAnotherProcess}));
  }
  CompileOptions options = request.options;
  options.allow_unbound_names = true;  // they are bound when it is loaded
  Program program;
  program.code = request.code;
  program.num_devices = request.num_devices;
  CALLOUT_ASSIGN_OR_RETURN(const LoadedExecutable executable, Compiler(client).Compile(program, options));
  return executable.Serialize();
}

}  // namespace

int AnswerCompileRequest() {
  const int answers = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (answers < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 2;
  const Result<internal::CompileRequest> request = internal::CompileRequest::Read(ReadAll(STDIN_FILENO));
  std::string answer;
  if (request.ok()) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != request->asker) return 2;  // nobody waits any more
    answer = internal::WriteCompileAnswer(Answer(*request));
  } else {
    answer = internal::WriteCompileAnswer(request.status());
  }
  const bool is_written = internal::WriteAll(answers, answer) == answer.size();
  std::fflush(nullptr);
  _exit(is_written ? 0 : 2);  // a plugin's threads may still be there
}

}  // namespace callout::pjrt
