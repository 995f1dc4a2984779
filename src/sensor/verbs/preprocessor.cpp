// The public preprocessing operations: validate, then run on one stream of one device.
#include <fmt/format.h>

#include <utility>

#include "amdahl/sensor.h"
#include "device/device.h"
#include "sensor/ops/checks.h"
#include "sensor/ops/voxel_values.h"

namespace amdahl {
namespace {

constexpr double kTimeoutSeconds = 60;

}  // namespace

struct Preprocessor::State {
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<SensorOps> ops;
  std::unique_ptr<Buffer> scratch;
  int index = -1;  // device whose memory must hold the tensors

  Deadline deadline() const { return Deadline::after_seconds(kTimeoutSeconds); }

  void* scratch_of(size_t bytes) {
    if (bytes == 0) return nullptr;
    if (!scratch || scratch->bytes() < bytes) {
      stream->synchronize(deadline());  // earlier calls may still use the freed memory
      scratch.reset();
      scratch = device->allocate(bytes);
    }
    return scratch->data();
  }

  /// Reads a value from device memory after all earlier work.
  template <class T>
  std::vector<T> answers_of(const T* place, size_t count) {
    std::vector<T> results(count);
    device->copy_out(*stream, results.data(), place, count * sizeof(T));
    stream->synchronize(deadline());
    return results;
  }

  /// Stream times must be non-decreasing; targets may be in any order. Waits once for all checks.
  void require_times(const FuseProblem& problem, const std::vector<std::string>& names) {
    const size_t num_streams = problem.streams.size();
    auto* faults = static_cast<TimesFault*>(scratch_of((num_streams + 1) * sizeof(TimesFault)));
    std::vector<TimesRows> rows;
    for (const FuseStream& one : problem.streams) rows.push_back({one.times, problem.batch, one.length});
    rows.push_back({problem.targets, problem.batch * problem.num_targets, 1});
    ops->check_times(*stream, rows, faults);
    const std::vector<TimesFault> found = answers_of(faults, num_streams + 1);
    for (size_t i = 0; i < num_streams; ++i)
      require_good_times(found[i], names[i] + ".times", problem.streams[i].length);
    require_good_times(found[num_streams], "target_times", problem.num_targets);
  }

  void fuse(const std::vector<SensorStream>& streams, const std::vector<std::string>& names,
            const ConstTensor& target_times, const Tensor& output, const FuseOptions& options) {
    const FuseProblem problem = check_fuse(streams, names, target_times, output, options, index);
    if (problem.batch == 0 || problem.num_targets == 0) return;
    if (options.check_times) require_times(problem, names);
    ops->fuse(*stream, problem);
    if (index < 0) stream->synchronize(deadline());
  }
};

Preprocessor::Preprocessor(std::unique_ptr<State> state) : state_(std::move(state)) {}
Preprocessor::Preprocessor(Preprocessor&&) noexcept = default;
Preprocessor::~Preprocessor() = default;

Preprocessor Preprocessor::on_host() {
  auto state = std::make_unique<State>();
  state->device = std::move(make_cpu_devices(1).front());
  state->stream = state->device->make_stream("sensor");
  state->ops = make_cpu_sensor_ops(*state->device);
  return Preprocessor(std::move(state));
}

Preprocessor Preprocessor::on_gpu(int index, void* stream) {
  auto state = std::make_unique<State>();
  state->index = index;
  state->device = std::move(make_cuda_devices({index}).front());
  state->device->bind_thread();
  state->stream = stream ? adopt_cuda_stream(*state->device, stream) : state->device->make_stream("sensor");
  state->ops = make_cuda_sensor_ops(*state->device);
  return Preprocessor(std::move(state));
}

void Preprocessor::fuse_multimodal(const std::vector<SensorStream>& streams, const ConstTensor& target_times,
                                   const Tensor& output, const FuseOptions& options) {
  std::vector<std::string> names;
  for (size_t i = 0; i < streams.size(); ++i) names.push_back(fmt::format("streams[{}]", i));
  state_->fuse(streams, names, target_times, output, options);
}

void Preprocessor::resample_trajectories(const SensorStream& trajectory, const ConstTensor& target_times,
                                         const Tensor& output, const FuseOptions& options) {
  state_->fuse({trajectory}, {"trajectory"}, target_times, output, options);
}

VoxelizeStats Preprocessor::voxelize_pointcloud(const ConstTensor& points, const ConstTensor& features,
                                                const VoxelGrid& grid, const Tensor& output,
                                                const VoxelizeOptions& options) {
  State& state = *state_;
  VoxelizeProblem problem = check_voxelize(points, features, grid, output, options, state.index);
  constexpr size_t kAlign = 256, kHead = 2 * kAlign;  // point counts and the scale, then the operation's scratch memory
  static_assert(sizeof(VoxelizeCounts) <= kAlign);
  auto* head = static_cast<char*>(state.scratch_of(kHead + state.ops->voxelize_scratch_bytes(problem)));
  problem.stats = reinterpret_cast<VoxelizeCounts*>(head);
  auto* scale = reinterpret_cast<float*>(head + kAlign);
  problem.scale = scale;
  problem.scratch = head + kHead;
  if (options.mode == VoxelMode::mean && options.deterministic)
    state.ops->fixed_point_scale(*state.stream, problem, problem.num_points, scale);
  state.ops->voxelize(*state.stream, problem);
  const VoxelizeCounts counts = state.answers_of(problem.stats, 1).front();
  return {problem.num_points, counts.num_nan, counts.num_outside};
}

void Preprocessor::synchronize() { state_->stream->synchronize(state_->deadline()); }

}  // namespace amdahl
