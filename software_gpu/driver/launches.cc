// SPDX-License-Identifier: Apache-2.0
//
// Checks launches, copies their parameters, and runs them.
#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "driver/launches.h"

#include "driver/enqueue.h"
#include "driver/graph_works.h"
#include "driver/programs.h"

namespace callout::software_gpu {
namespace {

struct Shape {
  unsigned int grid[3];
  unsigned int block[3];
  unsigned int shared_bytes;
};

// A kernel with its parameters, as they were at the launch.
struct KernelRun {
  CUlibrary library;
  CUcontext context;
  SoftwareGpuFunction function;
  Shape shape;
  std::vector<size_t> offsets;
  std::vector<uint64_t> parameters;
  std::shared_ptr<const LoadedProgram> program = nullptr;  // null unless the kernel is PTX
  const ptx::Kernel* code = nullptr;
  size_t parameter_bytes = 0;
  bool cooperative = false;
};

CUresult CheckShape(const CUfunc_st& function, const Shape& shape) {
  const uint64_t threads = uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  const uint64_t blocks = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  if (threads == 0 || blocks == 0 || threads > kMaxThreads || shape.block[2] > 64) return CUDA_ERROR_INVALID_VALUE;
  if (shape.grid[0] > 0x7fffffffU || shape.grid[1] > 65535 || shape.grid[2] > 65535) return CUDA_ERROR_INVALID_VALUE;
  if (shape.shared_bytes > static_cast<unsigned int>(function.max_dynamic_shared)) return CUDA_ERROR_INVALID_VALUE;
  if (threads > static_cast<uint64_t>(function.kernel->max_threads)) return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  return CUDA_SUCCESS;
}

// Replaces addresses of device memory in `words` by accessible ones. An address of another device is an error of the
// launch, unless the devices are peers.
CUresult Translate(State& state, CUcontext context, std::vector<uint64_t>& words) {
  for (uint64_t& word : words) {
    const auto place = state.memory.Find(word, 1);
    if (place.memory == nullptr) continue;
    if (place.context != nullptr && place.context != context && !context->HasPeer(place.context))
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    word = reinterpret_cast<uint64_t>(place.memory);
  }
  return CUDA_SUCCESS;
}

struct Running {
  CUlibrary library = nullptr;
  CUcontext context = nullptr;
};
thread_local Running running;

void* GlobalOfRunning(const char* name) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (!state.libraries.contains(running.library)) return nullptr;
  const CUdeviceptr address = GlobalMemory(state, running.library, running.context, name);
  return address == 0 ? nullptr : state.memory.Find(address, 1).memory;
}

int SetConditionalOfRunning(uint64_t handle, unsigned int value) {
  return SetCondition(TheState(), running.context, handle, value) ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}

CUresult RunBlock(const KernelRun& run, SoftwareGpuLaunch& launch, void** parameters) {
  unsigned int* thread = launch.thread_index;
  for (thread[2] = 0; thread[2] < run.shape.block[2]; ++thread[2]) {
    for (thread[1] = 0; thread[1] < run.shape.block[1]; ++thread[1]) {
      for (thread[0] = 0; thread[0] < run.shape.block[0]; ++thread[0]) {
        const auto result = static_cast<CUresult>(run.function(&launch, parameters));
        if (result != CUDA_SUCCESS) return result;
      }
    }
  }
  return CUDA_SUCCESS;
}

CUresult RunCode(const KernelRun& run) {
  const auto list = [](const unsigned int (&sizes)[3]) {
    return std::array<uint32_t, 3>{sizes[0], sizes[1], sizes[2]};
  };
  const ptx::Shape shape{.grid = list(run.shape.grid),
                         .block = list(run.shape.block),
                         .dynamic_shared = run.shape.shared_bytes,
                         .cooperative = run.cooperative};
  const auto bytes = std::as_bytes(std::span(run.parameters)).first(run.parameter_bytes);
  return RunProgram(*run.program, *run.code, shape, bytes, run.context);
}

CUresult RunKernel(const KernelRun& run) {
  if (run.code != nullptr) return RunCode(run);
  std::vector<uint64_t> words = run.parameters;
  if (const CUresult result = Translate(TheState(), run.context, words); result != CUDA_SUCCESS) return result;
  std::vector<void*> parameters;
  for (const size_t offset : run.offsets) parameters.push_back(reinterpret_cast<char*>(words.data()) + offset);
  std::vector<uint64_t> shared((run.shape.shared_bytes + 7) / 8);
  SoftwareGpuLaunch launch = {};
  std::copy_n(run.shape.grid, 3, launch.grid);
  std::copy_n(run.shape.block, 3, launch.block);
  launch.shared_bytes = run.shape.shared_bytes;
  launch.shared = shared.data();
  launch.device = run.context->device;
  launch.global = &GlobalOfRunning;
  launch.set_conditional = &SetConditionalOfRunning;
  running = {run.library, run.context};
  unsigned int* block = launch.block_index;
  for (block[2] = 0; block[2] < run.shape.grid[2]; ++block[2]) {
    for (block[1] = 0; block[1] < run.shape.grid[1]; ++block[1]) {
      for (block[0] = 0; block[0] < run.shape.grid[0]; ++block[0]) {
        if (const CUresult result = RunBlock(run, launch, parameters.data()); result != CUDA_SUCCESS) return result;
      }
    }
  }
  return CUDA_SUCCESS;
}

// Returns the function to launch. A driver accepts a kernel's handle in the place of a function's.
CUfunction FindLaunched(State& state, CUfunction handle, CUcontext context) {
  if (state.functions.contains(handle)) return handle;
  const auto kernel = reinterpret_cast<CUkernel>(handle);
  return state.kernels.contains(kernel) ? FunctionOf(state, kernel, context) : nullptr;
}

// Returns whether an attribute is set that is an int.
bool Has(const KernelWork& kernel, CUlaunchAttributeID attribute) {
  const auto found = kernel.attributes.find(attribute);
  return found != kernel.attributes.end() && found->second.cooperative != 0;
}

// True for attributes that launches have and nodes do not have (CUlaunchAttributeID).
bool IsOfLaunches(CUlaunchAttributeID attribute) {
  return attribute == CU_LAUNCH_ATTRIBUTE_IGNORE || attribute == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
}

// CUDA C++ Programming Guide, Thread Block Clusters: a grid is a multiple of its clusters, of up to 8 blocks, or of up
// to 16 for functions that allow non-portable sizes. Blocks run one after another here, so kernels of PTX have no
// clusters of more than one block.
CUresult CheckCluster(State& state, const KernelWork& kernel, const CUfunc_st& function, const Shape& shape) {
  const auto found = kernel.attributes.find(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  const bool is_told = found != kernel.attributes.end();
  if (!is_told && function.kernel->cluster == 0) return CUDA_SUCCESS;
  CUlaunchAttributeValue value = {};
  value.clusterDim = {static_cast<unsigned int>(function.kernel->cluster), 1, 1};  // the size for which it was compiled
  if (is_told) value = found->second;
  const auto& cluster = value.clusterDim;
  if (cluster.x == 0 || cluster.y == 0 || cluster.z == 0) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t blocks = uint64_t{cluster.x} * cluster.y * cluster.z;
  const bool fits = shape.grid[0] % cluster.x == 0 && shape.grid[1] % cluster.y == 0 && shape.grid[2] % cluster.z == 0;
  if (!fits || blocks > (function.large_clusters ? 16 : 8)) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  if (blocks == 1 || function.kernel->function != nullptr) return CUDA_SUCCESS;
  return state.Refuse("a cluster of blocks");
}

// Reads the attributes of a launch (Driver API, cuLaunchKernelEx).
CUresult ReadAttributes(State& state, const CUlaunchConfig& config, KernelAttributes* attributes) {
  if (config.numAttrs != 0 && config.attrs == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned int i = 0; i < config.numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config.attrs[i];
    const bool records = attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
                         attribute.id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT;
    if (records) return state.Refuse("a launch that records an event");
    if (!IsOfLaunches(attribute.id)) {
      const CUresult wrong = CheckAttribute(attribute.id, attribute.value);
      if (wrong != CUDA_SUCCESS) return wrong;
    }
    (*attributes)[attribute.id] = attribute.value;
  }
  return CUDA_SUCCESS;
}

// Finds the code of a PTX kernel. With lazy loading the first launch loads the kernel, which a recording does not
// survive (CUDA C++ Programming Guide, Lazy Loading).
CUresult FindCode(State& state, CUfunc_st& function, KernelRun* run) {
  if (function.kernel->function != nullptr) return CUDA_SUCCESS;
  if (!function.loaded && state.lazy) {
    if (const CUresult refused = RefuseInCapture(state); refused != CUDA_SUCCESS) return refused;
  }
  std::shared_ptr<LoadedProgram> program;
  std::string problem;
  CUlibrary const library = function.kernel->library;
  if (const CUresult wrong = ProgramOf(state, library, function.context, &program, &problem); wrong != CUDA_SUCCESS) {
    return wrong;
  }
  function.loaded = true;
  run->program = program;
  run->code = program->program->FindKernel(function.kernel->name);
  run->parameter_bytes = function.kernel->parameter_bytes;
  return CUDA_SUCCESS;
}

// A launch, with the addresses of its copied parameters for callers that query them.
struct LaunchCopies {
  KernelRun run;
  std::vector<void*> places;
};

// Copies the parameters, which come one by one or in one buffer (Driver API, cuLaunchKernel).
CUresult CopyParameters(const CUkern_st& kernel, const CUDA_KERNEL_NODE_PARAMS_v2& params, char* to) {
  if (params.extra != nullptr) {
    const void* buffer = nullptr;
    const size_t* bytes = nullptr;
    for (void** entry = params.extra; *entry != CU_LAUNCH_PARAM_END; entry += 2) {
      if (*entry == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = entry[1];
      if (*entry == CU_LAUNCH_PARAM_BUFFER_SIZE) bytes = static_cast<const size_t*>(entry[1]);
    }
    if (params.kernelParams != nullptr || buffer == nullptr || bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (*bytes < kernel.parameter_bytes) return CUDA_ERROR_INVALID_VALUE;
    std::memcpy(to, buffer, kernel.parameter_bytes);
    return CUDA_SUCCESS;
  }
  if (params.kernelParams == nullptr && !kernel.sizes.empty()) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < kernel.sizes.size(); ++i) {
    std::memcpy(to + kernel.offsets[i], params.kernelParams[i], kernel.sizes[i]);
  }
  return CUDA_SUCCESS;
}

CUresult LaunchOn(Call& call, CUfunction function, const Shape& shape, CUstream stream, void** parameters, void** extra,
                  KernelAttributes attributes) {
  State& state = call.state();
  WaitForRoom(call, stream);
  auto kernel = std::make_shared<KernelWork>();
  kernel->params = {.func = function,
                    .gridDimX = shape.grid[0],
                    .gridDimY = shape.grid[1],
                    .gridDimZ = shape.grid[2],
                    .blockDimX = shape.block[0],
                    .blockDimY = shape.block[1],
                    .blockDimZ = shape.block[2],
                    .sharedMemBytes = shape.shared_bytes,
                    .kernelParams = parameters,
                    .extra = extra,
                    .kern = nullptr,
                    .ctx = nullptr};
  kernel->attributes = std::move(attributes);
  if (const CUresult wrong = PrepareLaunch(state, call.context(), kernel.get()); wrong != CUDA_SUCCESS) return wrong;
  CUstream found = FindStream(state, call.context(), stream);
  if (found == nullptr || found->context != kernel->context) return CUDA_ERROR_INVALID_HANDLE;
  return Enqueue(state, call.context(), stream,
                 {.type = CU_GRAPH_NODE_TYPE_KERNEL,
                  .record =
                      [&](WorkPtr* work) {
                        KernelWork recorded = *kernel;
                        std::erase_if(recorded.attributes, [](const auto& entry) { return IsOfLaunches(entry.first); });
                        *work = std::make_shared<const Work>(std::move(recorded));
                        return CUDA_SUCCESS;
                      },
                  .run = kernel->run,
                  .programmatic = Has(*kernel, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)});
}

// Describes a launch's attributes for the log.
std::string Describe(const CUlaunchConfig& config) {
  std::string text;
  for (unsigned int i = 0; config.attrs != nullptr && i < config.numAttrs; ++i) {
    const CUlaunchAttributeID id = config.attrs[i].id;
    const CUlaunchAttributeValue& value = config.attrs[i].value;
    if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      const auto& cluster = value.clusterDim;
      text +=
          " cluster=" + std::to_string(cluster.x) + "," + std::to_string(cluster.y) + "," + std::to_string(cluster.z);
    }
    if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) text += " cooperative=" + std::to_string(value.cooperative);
    if (id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
      text += " programmatic=" + std::to_string(value.programmaticStreamSerializationAllowed);
    }
    if (id == CU_LAUNCH_ATTRIBUTE_PRIORITY) text += " priority=" + std::to_string(value.priority);
  }
  return text;
}

std::string Describe(const Shape& shape) {
  const auto list = [](const unsigned int (&sizes)[3]) {
    return std::to_string(sizes[0]) + "," + std::to_string(sizes[1]) + "," + std::to_string(sizes[2]);
  };
  return "grid=" + list(shape.grid) + " block=" + list(shape.block) + " shared=" + std::to_string(shape.shared_bytes);
}

}  // namespace

CUresult PrepareLaunch(State& state, CUcontext current, KernelWork* kernel) {
  CUDA_KERNEL_NODE_PARAMS_v2& params = kernel->params;
  CUcontext const context = params.func == nullptr && params.ctx != nullptr ? params.ctx : current;
  CUfunction const handle = params.func != nullptr ? params.func : reinterpret_cast<CUfunction>(params.kern);
  if (!IsContext(state, context)) return CUDA_ERROR_INVALID_CONTEXT;
  CUfunction const function = FindLaunched(state, handle, context);
  if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Shape shape{{params.gridDimX, params.gridDimY, params.gridDimZ},
                    {params.blockDimX, params.blockDimY, params.blockDimZ},
                    params.sharedMemBytes};
  if (const CUresult wrong = CheckShape(*function, shape); wrong != CUDA_SUCCESS) return wrong;
  const uint64_t blocks = uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2];
  if (const CUresult wrong = CheckCluster(state, *kernel, *function, shape); wrong != CUDA_SUCCESS) return wrong;
  const auto threads = static_cast<int>(shape.block[0] * shape.block[1] * shape.block[2]);
  const int resident = MaxCooperativeBlocks(*function->kernel, threads, shape.shared_bytes);
  if (Has(*kernel, CU_LAUNCH_ATTRIBUTE_COOPERATIVE) && blocks > static_cast<uint64_t>(resident))
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  const CUkern_st& code = *function->kernel;
  auto copies = std::make_shared<LaunchCopies>();
  KernelRun& run = copies->run;
  run = {code.library, function->context, code.function, shape, code.offsets, {}};
  run.parameters.resize((code.parameter_bytes + 7) / 8);
  run.cooperative = Has(*kernel, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
  if (const CUresult wrong = FindCode(state, *function, &run); wrong != CUDA_SUCCESS) return wrong;
  auto* const bytes = reinterpret_cast<char*>(run.parameters.data());
  if (const CUresult wrong = CopyParameters(code, params, bytes); wrong != CUDA_SUCCESS) return wrong;
  for (const size_t offset : code.offsets) copies->places.push_back(bytes + offset);
  params.kernelParams = copies->places.data();
  params.extra = nullptr;
  kernel->function = function;
  kernel->name = code.name;
  kernel->context = function->context;
  kernel->copies = copies;
  kernel->run = [copies] { return RunKernel(copies->run); };
  return CUDA_SUCCESS;
}

bool IsLaunchable(const State& state, const KernelWork& kernel) { return state.functions.contains(kernel.function); }

extern "C" CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                   unsigned int block_x, unsigned int block_y, unsigned int block_z,
                                   unsigned int shared_bytes, CUstream stream, void** parameters, void** extra) {
  const Shape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
  Call call("cuLaunchKernel", kContext, Describe(shape));
  if (call.refused()) return call.result();
  return LaunchOn(call, function, shape, stream, parameters, extra, {});
}

extern "C" CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                              unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                              unsigned int block_z, unsigned int shared_bytes, CUstream stream,
                                              void** parameters) {
  const Shape shape{{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
  Call call("cuLaunchCooperativeKernel", kContext, Describe(shape));
  if (call.refused()) return call.result();
  KernelAttributes attributes;
  attributes[CU_LAUNCH_ATTRIBUTE_COOPERATIVE].cooperative = 1;
  return LaunchOn(call, function, shape, stream, parameters, nullptr, std::move(attributes));
}

extern "C" CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                                     void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Shape shape{{config->gridDimX, config->gridDimY, config->gridDimZ},
                    {config->blockDimX, config->blockDimY, config->blockDimZ},
                    config->sharedMemBytes};
  Call call("cuLaunchKernelEx", kContext, Describe(shape) + Describe(*config));
  if (call.refused()) return call.result();
  KernelAttributes attributes;
  const CUresult wrong = ReadAttributes(call.state(), *config, &attributes);
  if (wrong != CUDA_SUCCESS) return wrong;
  return LaunchOn(call, function, shape, config->hStream, parameters, extra, std::move(attributes));
}

}  // namespace callout::software_gpu
