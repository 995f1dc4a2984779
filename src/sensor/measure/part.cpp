#include "sensor/measure/part.h"

#include <algorithm>
#include <chrono>

#include "sensor/ops/shard.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

size_t row_bytes(const SensorJob& job) {
  return static_cast<size_t>(job.num_targets * job.fused_width()) * size_of(job.type);
}

VoxelizeProblem cloud_like(const SensorJob& job) {
  VoxelizeProblem problem;
  problem.feature_type = job.type;
  problem.num_points = job.num_items;
  problem.num_features = job.num_features;
  problem.grid = job.grid;
  problem.options = job.options;
  return problem;
}

}  // namespace

HostResult::HostResult(const SensorJob& job, PartsMeet how, int num_parts) {
  if (!job.voxelizes()) rows.resize(static_cast<size_t>(job.num_items) * row_bytes(job));
  if (job.voxelizes() && how == PartsMeet::host) grid.emplace(cloud_like(job), num_parts);
}

SensorPart::SensorPart(RankContext& rank, SensorOps& ops, MakeTransfer make_transfer, const SensorJob& job,
                       PartsMeet how, HostResult& result, double timeout_seconds)
    : rank_(rank),
      ops_(ops),
      job_(job),
      how_(how),
      result_(result),
      timeout_seconds_(timeout_seconds),
      stream_(rank.device.make_stream("sensor")),
      queue_(rank.device, make_transfer, timeout_seconds),
      workload_({rank.device, ops, rank.communicator}, job, {0, job.num_items}, MergeMethod::none, 1, *stream_,
                deadline()),
      start_(rank.device.make_event()),
      ready_(rank.device.make_event()),
      begin_(rank.device.make_event()),
      end_(rank.device.make_event()),
      line_(rank.device.allocate(sizeof(float))) {
  if (job.voxelizes() && how == PartsMeet::host)
    host_merge_ = std::make_unique<HostMerge>(rank.device, ops, rank.communicator, workload_.cloud(0), job.num_items,
                                              *result.grid);
  if (job.voxelizes() && how == PartsMeet::communicator)
    grid_merge_ = std::make_unique<GridMerge>(rank.device, ops, rank.communicator, workload_.cloud(0), job.num_items,
                                              best_merge(job.options.mode));
  rank.device.fill_zero(*stream_, line_->data(), sizeof(float));
  stream_->synchronize(deadline());
}

SensorPart::~SensorPart() {
  try {  // work in flight uses our buffers
    stream_->synchronize(deadline());
  } catch (...) {  // reported by the call that waited for it
  }
}

bool SensorPart::uses_graphs() const { return how_ == PartsMeet::communicator && rank_.device.supports_graphs().ok; }

void SensorPart::prepare(ItemRange items) {
  if (!(graph_items_ == items)) graph_.reset();  // it may know scratch memory that goes
  if (grid_merge_) grid_merge_->make_room(slice_of(workload_.cloud(0), items));
  if (host_merge_) host_merge_->prepare(*stream_, slice_of(workload_.cloud(0), items), deadline());
}

void SensorPart::compute(ItemRange items) {
  if (host_merge_) return host_merge_->compute(*stream_, slice_of(workload_.cloud(0), items));
  if (grid_merge_) return grid_merge_->compute(*stream_, slice_of(workload_.cloud(0), items));
  if (items.count() > 0) ops_.fuse(*stream_, slice_of(workload_.fusion(0), items));
  if (how_ == PartsMeet::host) copy_rows_out(items);
}

void SensorPart::copy_rows_out(ItemRange items) {
  if (items.count() == 0) return;
  const size_t begin = static_cast<size_t>(items.begin) * row_bytes(job_);
  const auto* output = static_cast<const char*>(workload_.fusion(0).output);
  rank_.device.copy_out(*stream_, result_.rows.data() + begin, output + begin,
                        static_cast<size_t>(items.count()) * row_bytes(job_));
}

void SensorPart::merge(ItemRange items) {
  if (grid_merge_) grid_merge_->merge(*stream_, slice_of(workload_.cloud(0), items));
}

void SensorPart::call_alone() {
  workload_.call(*stream_, 0);
  if (how_ == PartsMeet::communicator) return;
  if (host_merge_)
    rank_.device.copy_out(*stream_, result_.grid->part(rank_.rank), workload_.cloud(0).output,
                          std::min(result_.grid->part_bytes(), result_.grid->grid().size()));
  else
    copy_rows_out({0, job_.num_items});
}

double SensorPart::sample_alone_us(int calls) {
  if (uses_graphs() && !alone_graph_)
    alone_graph_ = rank_.device.capture(*stream_, [&] {
      for (int i = 0; i < calls; ++i) call_alone();
    });
  queue_.run(*stream_, [&] {
    stream_->stamp(*begin_);
    if (alone_graph_) alone_graph_->launch(*stream_);
    for (int i = 0; !alone_graph_ && i < calls; ++i) call_alone();
    stream_->stamp(*end_);
  });
  stream_->synchronize(deadline());
  return rank_.device.elapsed_us(*begin_, *end_) / calls;
}

double SensorPart::alone_us(int calls) {
  constexpr size_t kSamples = 5;
  std::vector<double> samples;
  for (size_t i = 0; i < kSamples; ++i) sample_alone_us(calls);  // warm-up
  while (samples.size() < kSamples) samples.push_back(sample_alone_us(calls));
  return median_of(samples);
}

PartTime SensorPart::sample(ItemRange items, int calls) {
  return how_ == PartsMeet::host ? sample_by_host(items, calls) : sample_by_device(items, calls);
}

/// A call ends when the result lies in host memory; a GPU and a CPU device have no common clock but the host's.
PartTime SensorPart::sample_by_host(ItemRange items, int calls) {
  using Clock = std::chrono::steady_clock;
  PartTime time;
  rank_.communicator.barrier(deadline());
  const Clock::time_point start = Clock::now();
  for (int call = 0; call < calls; ++call) {
    prepare(items);
    stream_->stamp(*start_);
    compute(items);
    stream_->stamp(*ready_);
    stream_->synchronize(deadline());
    time.part_us += rank_.device.elapsed_us(*start_, *ready_) / calls;
    rank_.communicator.barrier(deadline());
    if (!host_merge_) continue;
    host_merge_->merge();
    rank_.communicator.barrier(deadline());
  }
  time.call_us = std::chrono::duration<double, std::micro>(Clock::now() - start).count() / calls;
  return time;
}

/// The last call has stamps around this rank's part.
void SensorPart::enqueue(ItemRange items, int calls) {
  for (int call = 0; call < calls; ++call) {
    const bool last = call + 1 == calls;
    if (last) stream_->stamp(*start_);
    compute(items);
    if (last) stream_->stamp(*ready_);
    merge(items);
  }
}

PartTime SensorPart::sample_by_device(ItemRange items, int calls) {
  prepare(items);
  if (uses_graphs() && !graph_) {
    graph_ = rank_.device.capture(*stream_, [&] { enqueue(items, calls); });
    graph_items_ = items;
    graph_->launch(*stream_);  // uploads
    stream_->synchronize(deadline());
  }
  // Host threads leave a barrier many microseconds apart; what follows an all-reduce starts together on the devices.
  rank_.communicator.barrier(deadline());
  queue_.run(*stream_, [&] {
    if (rank_.world_size > 1) rank_.communicator.all_reduce(line_->data(), 1, DType::f32, ReduceOp::sum, *stream_);
    stream_->stamp(*begin_);
    if (graph_)
      graph_->launch(*stream_);
    else
      enqueue(items, calls);
    stream_->stamp(*end_);
  });
  stream_->synchronize(deadline());
  PartTime time;
  time.call_us = rank_.device.elapsed_us(*begin_, *end_) / calls;
  time.part_us = rank_.device.elapsed_us(*start_, *ready_);
  return time;
}

/// So that what is missing does not look like the result of an earlier call.
void SensorPart::forget_results() {
  void* output = job_.voxelizes() ? workload_.cloud(0).output : workload_.fusion(0).output;
  rank_.device.fill_zero(*stream_, output, SensorWorkload::output_bytes(job_));
  if (rank_.rank == 0) std::fill(result_.rows.begin(), result_.rows.end(), char{0});
  rank_.communicator.barrier(deadline());
}

std::vector<char> SensorPart::result(ItemRange items) {
  forget_results();
  prepare(items);
  compute(items);
  merge(items);
  if (!job_.voxelizes() && how_ == PartsMeet::communicator) copy_rows_out(items);
  stream_->synchronize(deadline());
  rank_.communicator.barrier(deadline());
  if (host_merge_) {
    host_merge_->merge();
    rank_.communicator.barrier(deadline());
  }
  std::vector<char> bytes;
  if (rank_.rank == 0)
    bytes = !job_.voxelizes() ? result_.rows : host_merge_ ? result_.grid->grid() : std::vector<char>{};
  if (rank_.rank == 0 && grid_merge_) bytes = workload_.output(*stream_, 0, deadline());
  rank_.communicator.barrier(deadline());  // nobody writes a result that is being read
  return bytes;
}

std::vector<char> SensorPart::result_alone() {
  workload_.call(*stream_, 0);
  return workload_.output(*stream_, 0, deadline());
}

}  // namespace amdahl
