// SPDX-License-Identifier: Apache-2.0
#include "host/executables/compile_options.h"

#include <variant>

#include "core/base/cat.h"
#include "core/encoding/wire.h"

namespace callout::internal {
namespace {

// Field numbers of ExecutableBuildOptionsProto.
constexpr int kNumReplicas = 4;
constexpr int kNumPartitions = 5;
constexpr int kUseSpmdPartitioning = 6;
constexpr int kDeviceAssignment = 9;
constexpr int kUseShardyPartitioner = 19;
// Field numbers of CompileOptionsProto.
constexpr int kExecutableBuildOptions = 3;
constexpr int kCompilePortableExecutable = 4;
constexpr int kEnvOptionOverrides = 7;  // a map: messages of a key and a value
constexpr int kKey = 1;
constexpr int kValue = 2;
// Field numbers of OptionOverrideProto.
constexpr int kString = 1;
constexpr int kBool = 2;
constexpr int kInteger = 3;
constexpr int kDouble = 4;
// Field numbers of DeviceAssignmentProto.
constexpr int kReplicaCount = 1;
constexpr int kComputationCount = 2;
constexpr int kComputationDevices = 3;
constexpr int kReplicaDeviceIds = 1;  // of its ComputationDevice

constexpr int kMaxDevices = 1 << 20;

std::string SerializeAssignment(const pjrt::CompileOptions& options) {
  WireWriter assignment;
  assignment.AddNumber(kReplicaCount, static_cast<uint64_t>(options.num_replicas));
  assignment.AddNumber(kComputationCount, static_cast<uint64_t>(options.num_partitions));
  for (int partition = 0; partition < options.num_partitions; ++partition) {
    WireWriter devices;
    for (int replica = 0; replica < options.num_replicas; ++replica) {
      const auto place = static_cast<size_t>(replica) * static_cast<size_t>(options.num_partitions);
      const int id = options.device_assignment[place + static_cast<size_t>(partition)];
      devices.AddNumber(kReplicaDeviceIds, static_cast<uint64_t>(static_cast<int64_t>(id)));
    }
    assignment.AddMessage(kComputationDevices, devices.bytes());
  }
  return assignment.bytes();
}

Result<std::string> SerializeOverride(const std::string& name, const pjrt::Value& value) {
  WireWriter written;
  if (const auto* text = std::get_if<std::string>(&value)) {
    written.AddMessage(kString, *text);
  } else if (const auto* truth = std::get_if<bool>(&value)) {
    written.AddNumber(kBool, *truth ? 1 : 0);
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    written.AddNumber(kInteger, static_cast<uint64_t>(*integer));
  } else if (const auto* real = std::get_if<float>(&value)) {
    written.AddDouble(kDouble, static_cast<double>(*real));
  } else {
    return InvalidArgument("callout: XLA's option '" + name + "' cannot be a list");
  }
  WireWriter entry;
  entry.AddMessage(kKey, name);
  entry.AddMessage(kValue, written.bytes());
  return entry.bytes();
}

}  // namespace

Result<std::string> SerializeCompileOptions(pjrt::CompileOptions options, int partitions) {
  if (options.num_partitions == 0) options.num_partitions = partitions;
  if (options.num_replicas < 1 || options.num_partitions < 1) {
    return InvalidArgument(Cat("callout: a program needs at least one replica and one partition, got ",
                               options.num_replicas, " and ", options.num_partitions));
  }
  if (options.num_replicas > kMaxDevices / options.num_partitions) {  // plugins allocate tables of this size
    return InvalidArgument(Cat("callout: a program for ", options.num_replicas, " replicas of ", options.num_partitions,
                               " partitions; at most ", kMaxDevices, " devices can be"));
  }
  WireWriter build;
  build.AddNumber(kNumReplicas, static_cast<uint64_t>(options.num_replicas));
  build.AddNumber(kNumPartitions, static_cast<uint64_t>(options.num_partitions));
  if (options.num_partitions > 1) build.AddNumber(kUseSpmdPartitioning, 1);
  if (!options.device_assignment.empty()) {
    const size_t expected = static_cast<size_t>(options.num_replicas) * static_cast<size_t>(options.num_partitions);
    if (options.device_assignment.size() != expected) {
      return InvalidArgument(
          Cat("callout: a device assignment for ", expected, " devices has ", options.device_assignment.size()));
    }
    build.AddMessage(kDeviceAssignment, SerializeAssignment(options));
  }
  build.AddNumber(kUseShardyPartitioner, 1);  // JAX's programs are written for Shardy
  WireWriter all;
  all.AddMessage(kExecutableBuildOptions, build.bytes());
  for (const auto& [name, value] : options.xla_options) {
    CALLOUT_ASSIGN_OR_RETURN(const std::string entry, SerializeOverride(name, value));
    all.AddMessage(kEnvOptionOverrides, entry);
  }
  return all.bytes();
}

std::string SerializePortableOptions() {
  WireWriter build;
  build.AddNumber(kNumReplicas, 1);
  build.AddNumber(kNumPartitions, 1);
  build.AddNumber(kUseShardyPartitioner, 1);
  WireWriter all;
  all.AddMessage(kExecutableBuildOptions, build.bytes());
  all.AddNumber(kCompilePortableExecutable, 1);
  return all.bytes();
}

}  // namespace callout::internal
