// SPDX-License-Identifier: Apache-2.0
#include "host/executables/compile_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "core/base/file_io.h"
#include "core/base/ticks.h"
#include "core/encoding/wire.h"
#include "host/executables/other_handlers.h"

namespace callout::internal {
namespace {

// Numbers of fields.
struct OfRequest {
  static constexpr int kPlugin = 1;
  static constexpr int kConcurrentRuns = 2;
  static constexpr int kClientValue = 3;
  static constexpr int kReplicas = 4;
  static constexpr int kPartitions = 5;
  static constexpr int kAssigned = 6;
  static constexpr int kXlaOption = 7;
  static constexpr int kDevices = 8;
  static constexpr int kCode = 9;
  static constexpr int kHandler = 10;
};
struct OfValue {
  static constexpr int kName = 1;
  static constexpr int kText = 2;
  static constexpr int kInteger = 3;
  static constexpr int kIsList = 4;
  static constexpr int kElement = 5;
  static constexpr int kFloat = 6;
  static constexpr int kTruth = 7;
};
struct OfAnswer {
  static constexpr int kBytes = 1;
  static constexpr int kErrorCode = 2;
  static constexpr int kErrorText = 3;
};

constexpr std::string_view kAnswerMagic = "callout:";  // then 64 bits: how many bytes follow

Status NoMessage() { return InvalidArgument("callout: this is no message of a process that compiles"); }

uint64_t Bits(int64_t number) { return static_cast<uint64_t>(number); }

std::string WriteValue(const std::string& name, const pjrt::Value& value) {
  WireWriter writer;
  writer.AddMessage(OfValue::kName, name);
  if (const auto* text = std::get_if<std::string>(&value)) writer.AddMessage(OfValue::kText, *text);
  if (const auto* integer = std::get_if<int64_t>(&value)) writer.AddNumber(OfValue::kInteger, Bits(*integer));
  if (const auto* real = std::get_if<float>(&value)) writer.AddFloat(OfValue::kFloat, *real);
  if (const auto* truth = std::get_if<bool>(&value)) writer.AddNumber(OfValue::kTruth, *truth ? 1 : 0);
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
    writer.AddNumber(OfValue::kIsList, 1);
    for (const int64_t integer : *integers) writer.AddNumber(OfValue::kElement, Bits(integer));
  }
  return writer.bytes();
}

Status ReadValue(std::string_view bytes, pjrt::Values& values) {
  std::string name;
  pjrt::Value value;
  std::vector<int64_t> integers;
  bool is_list = false;
  WireReader reader(bytes);
  while (const auto field = reader.Next()) {
    if (field->number == OfValue::kName) name = field->bytes;
    if (field->number == OfValue::kText) value = std::string(field->bytes);
    if (field->number == OfValue::kInteger) value = static_cast<int64_t>(field->value);
    if (field->number == OfValue::kFloat) value = std::bit_cast<float>(static_cast<uint32_t>(field->value));
    if (field->number == OfValue::kTruth) value = field->value != 0;
    if (field->number == OfValue::kIsList) is_list = true;
    if (field->number == OfValue::kElement) integers.push_back(static_cast<int64_t>(field->value));
  }
  if (!reader.ok()) return NoMessage();
  if (is_list) value = std::move(integers);
  values[std::move(name)] = std::move(value);
  return OkStatus();
}

}  // namespace

std::string CompileRequest::Write() const {
  WireWriter writer;
  writer.AddMessage(OfRequest::kPlugin, plugin);
  writer.AddNumber(OfRequest::kConcurrentRuns, Bits(client.concurrent_runs));
  for (const auto& [name, value] : client.values) writer.AddMessage(OfRequest::kClientValue, WriteValue(name, value));
  writer.AddNumber(OfRequest::kReplicas, Bits(options.num_replicas));
  writer.AddNumber(OfRequest::kPartitions, Bits(options.num_partitions));
  for (const int device : options.device_assignment) writer.AddNumber(OfRequest::kAssigned, Bits(device));
  for (const auto& [name, value] : options.xla_options)
    writer.AddMessage(OfRequest::kXlaOption, WriteValue(name, value));
  writer.AddNumber(OfRequest::kDevices, Bits(num_devices));
  for (const std::string& handler : handlers) writer.AddMessage(OfRequest::kHandler, handler);
  writer.AddMessage(OfRequest::kCode, code);
  return writer.bytes();
}

Result<CompileRequest> CompileRequest::Read(std::string_view bytes) {
  CompileRequest request;
  WireReader reader(bytes);
  while (const auto field = reader.Next()) {
    const int number = static_cast<int>(field->value);
    if (field->number == OfRequest::kPlugin) request.plugin = field->bytes;
    if (field->number == OfRequest::kConcurrentRuns) request.client.concurrent_runs = number;
    if (field->number == OfRequest::kReplicas) request.options.num_replicas = number;
    if (field->number == OfRequest::kPartitions) request.options.num_partitions = number;
    if (field->number == OfRequest::kAssigned) request.options.device_assignment.push_back(number);
    if (field->number == OfRequest::kDevices) request.num_devices = number;
    if (field->number == OfRequest::kCode) request.code = field->bytes;
    if (field->number == OfRequest::kHandler) request.handlers.emplace_back(field->bytes);
    if (field->number == OfRequest::kClientValue)
      CALLOUT_RETURN_IF_ERROR(ReadValue(field->bytes, request.client.values));
    if (field->number == OfRequest::kXlaOption)
      CALLOUT_RETURN_IF_ERROR(ReadValue(field->bytes, request.options.xla_options));
  }
  if (!reader.ok() || request.plugin.empty()) return NoMessage();
  return request;
}

std::string WriteCompileAnswer(const Result<std::string>& answer) {
  WireWriter writer;
  if (answer.ok()) {
    writer.AddMessage(OfAnswer::kBytes, *answer);
  } else {
    writer.AddNumber(OfAnswer::kErrorCode, static_cast<uint64_t>(answer.status().code()));
    writer.AddMessage(OfAnswer::kErrorText, answer.status().message());
  }
  const uint64_t size = writer.bytes().size();
  std::string bytes(kAnswerMagic);
  bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
  return bytes + writer.bytes();
}

AnswerState FindCompileAnswer(std::string_view bytes) {
  const size_t common = std::min(bytes.size(), kAnswerMagic.size());
  if (bytes.substr(0, common) != kAnswerMagic.substr(0, common)) return AnswerState::kOther;
  uint64_t size = 0;
  if (bytes.size() < kAnswerMagic.size() + sizeof(size)) return AnswerState::kPartial;
  std::memcpy(&size, bytes.data() + kAnswerMagic.size(), sizeof(size));
  const size_t left = bytes.size() - kAnswerMagic.size() - sizeof(size);
  if (left > size) return AnswerState::kOther;
  return left == size ? AnswerState::kWhole : AnswerState::kPartial;
}

Result<std::string> ReadCompileAnswer(std::string_view bytes) {
  if (FindCompileAnswer(bytes) != AnswerState::kWhole) return NoMessage();
  bytes.remove_prefix(kAnswerMagic.size() + sizeof(uint64_t));
  std::string executable, text;
  StatusCode code = StatusCode::kOk;
  WireReader reader(bytes);
  while (const auto field = reader.Next()) {
    if (field->number == OfAnswer::kBytes) executable = field->bytes;
    if (field->number == OfAnswer::kErrorCode) code = static_cast<StatusCode>(field->value);
    if (field->number == OfAnswer::kErrorText) text = field->bytes;
  }
  if (!reader.ok()) return NoMessage();
  if (code != StatusCode::kOk) return Status(code, std::move(text));
  if (executable.empty()) return NoMessage();
  return executable;
}

}  // namespace callout::internal

extern char** environ;

namespace callout::internal {
namespace {

using Clock = std::chrono::steady_clock;

// How long a process that has answered, or cannot any more, may take to end by itself.
constexpr auto kPatience = std::chrono::seconds(5);

// The leader of a process group of its own, which is killed with it at the end.
class Child {
 public:
  explicit Child(pid_t id) : id_(id), descriptor_(static_cast<int>(syscall(SYS_pidfd_open, id, 0))) {}
  ~Child() {
    if (!IsKnown()) return;  // its number may be another's by now
    kill(-id_, SIGKILL);
    while (waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Readable once it has ended; negative where the system has no such descriptors.
  int descriptor() const { return descriptor_.number(); }
  bool HasEnded() const {
    siginfo_t info = {};
    return !Peek(info) || info.si_pid != 0;
  }
  /// How it ended; nothing where this process lets somebody else wait for its children.
  std::optional<siginfo_t> End() const {
    siginfo_t info = {};
    return Peek(info) && info.si_pid != 0 ? std::optional(info) : std::nullopt;
  }

 private:
  bool IsKnown() const {
    siginfo_t info = {};
    return Peek(info);
  }
  // It stays there to be waited for, so its number stays its own.
  bool Peek(siginfo_t& info) const {
    int result = 0;
    do {
      result = waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT);
    } while (result < 0 && errno == EINTR);
    return result == 0;
  }

  const pid_t id_;
  const Descriptor descriptor_;
};

// Waits for `events` of `socket` (negative: none), or for the end of `child`. False: the deadline came first.
Result<bool> Await(const Child& child, int socket, short events, Clock::time_point deadline) {
  int most = child.descriptor() >= 0 ? 60'000 : 10;  // milliseconds until the child is looked at again
  if (deadline != Clock::time_point::max()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    most = static_cast<int>(std::min<int64_t>(left, most));
  }
  pollfd both[] = {{socket, events, 0}, {child.descriptor(), POLLIN, 0}};
  if (poll(both, 2, most) < 0 && errno != EINTR) {
    return InternalError(std::string("callout: poll: ") + std::strerror(errno));
  }
  return true;
}

// Takes what is there. False: no more will come.
bool Take(int socket, std::string& bytes) {
  char part[1 << 16];
  while (true) {
    const ssize_t got = recv(socket, part, sizeof(part), MSG_DONTWAIT);
    if (got > 0) bytes.append(part, static_cast<size_t>(got));
    if (got > 0 && FindCompileAnswer(bytes) == AnswerState::kPartial) continue;
    return got > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN));
  }
}

// Gives what there is room for. A process that ended has no ears: what it says, or how it ended, tells why.
void Give(int socket, std::string_view& bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN) return;
    if (sent < 0 && errno != EINTR) bytes = {};
    if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
  }
  (void)shutdown(socket, SHUT_WR);
}

// Sends `request` and returns what came until an answer was whole or none could come. Both ways at once: a process may
// write before it reads. False, with `said` so far: the deadline came first.
Result<bool> Exchange(const Child& child, int socket, std::string_view request, Clock::time_point deadline,
                      std::string& said) {
  while (true) {
    const bool has_ended = child.HasEnded();  // before the socket is looked at: what it said last is there
    if (!request.empty()) Give(socket, request);
    const bool may_come = Take(socket, said);
    if (!may_come || has_ended || FindCompileAnswer(said) != AnswerState::kPartial) return true;
    const short events = request.empty() ? POLLIN : POLLIN | POLLOUT;
    CALLOUT_ASSIGN_OR_RETURN(const bool in_time, Await(child, socket, events, deadline));
    if (!in_time) return false;
  }
}

// Its standard input and output are `socket`. It has no signals blocked or ignored, whatever this process has.
Result<pid_t> Start(const std::vector<std::string>& command, int socket) {
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, socket, STDOUT_FILENO);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t id = 0;
  const int error = posix_spawnp(&id, words[0], &actions, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return id;
  return NotFound("callout: cannot start '" + command[0] + "' to compile a program: " + std::strerror(error));
}

Status Ended(const std::optional<siginfo_t>& end, const CompileRequest& request, const std::string& what) {
  const std::string process = "callout: the process that read and compiled " + what;
  if (end && end->si_code != CLD_EXITED) {
    return InternalError(process + " was ended by signal " + std::to_string(end->si_status) + " (" +
                         strsignal(end->si_status) + "): the program is damaged, or the plugin '" + request.plugin +
                         "' has a defect");
  }
  const std::string code = end ? " ended with exit code " + std::to_string(end->si_status) + " and" : "";
  return InternalError(process + code +
                       " did not answer: is it 'callout compile-request', or a program that calls "
                       "AnswerCompileRequest?");
}

}  // namespace

Result<std::string> CompileElsewhere(const pjrt::CompileProcess& process, const CompileRequest& request,
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
  const Child child(id);
  theirs.Close();
  std::string said;
  CALLOUT_ASSIGN_OR_RETURN(bool in_time, Exchange(child, ours.number(), request.Write(), deadline, said));
  const AnswerState found = FindCompileAnswer(said);
  const Clock::time_point patience = std::min(deadline, Clock::now() + kPatience);
  while (in_time && found != AnswerState::kOther && !child.HasEnded()) {  // a wrapper may have to clean up
    CALLOUT_ASSIGN_OR_RETURN(in_time, Await(child, -1, 0, patience));
  }
  if (found == AnswerState::kWhole) return ReadCompileAnswer(said);
  if (!in_time && deadline <= Clock::now()) {
    return Status(StatusCode::kDeadlineExceeded,
                  "callout: the process that compiles " + what + " was not done in time");
  }
  return Ended(child.End(), request, what);
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

// The asker may not be the parent: a wrapper may have forked. But it holds the other end.
void EndWithReader(int answers) {
  while (true) {
    pollfd one = {answers, 0, 0};  // POLLHUP and POLLERR come unasked
    if (poll(&one, 1, -1) > 0) _exit(2);
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
  options.embedded_code = false;       // it is loaded where the program runs, if at all
  Program program;
  program.code = request.code;
  program.num_devices = request.num_devices;
  CALLOUT_ASSIGN_OR_RETURN(const LoadedExecutable executable, Compiler(client).Compile(program, options));
  return executable.Serialize();
}

}  // namespace

int AnswerCompileRequest() {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nothing = open("/dev/null", O_RDWR);
  if (fcntl(STDERR_FILENO, F_GETFD) < 0) (void)dup2(nothing, STDERR_FILENO);
  const int answers = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (answers < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) return 2;
  const std::string asked = ReadAll(STDIN_FILENO);
  (void)dup2(nothing, STDIN_FILENO);  // what a plugin starts must not keep the asker's socket
  std::thread([answers] { EndWithReader(answers); }).detach();
  const Result<internal::CompileRequest> request = internal::CompileRequest::Read(asked);
  const std::string answer =
      internal::WriteCompileAnswer(request.ok() ? Answer(*request) : Result<std::string>(request.status()));
  const bool is_written = internal::WriteAll(answers, answer) == answer.size();
  std::fflush(nullptr);
  _exit(is_written ? 0 : 2);  // a plugin's threads may still be there
}

}  // namespace callout::pjrt
