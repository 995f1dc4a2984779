#include "measure/onesided/bench.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "measure/onesided/contest.h"
#include "measure/sampling/rank_results.h"
#include "symmetric/symmetric_heap.h"

namespace amdahl {
namespace {

constexpr int64_t kSummedColumns = 1024;
constexpr const char* kLocal = "local";
constexpr const char* kPeer = "peer";
constexpr const char* kOfHost = "host";

/// Small integers: sums of up to 64 MiB of them are exact in f32.
float element_of(size_t i) { return static_cast<float>((i * 7 + i / kSummedColumns) % 5); }

std::vector<float> placed_values(size_t count) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = element_of(i);
  return values;
}

/// A file without a name, mapped into memory.
class MappedFile {
 public:
  explicit MappedFile(size_t bytes) : bytes_(bytes) {
    std::string name = (std::filesystem::temp_directory_path() / "amdahl-locality-XXXXXX").string();
    const int file = mkstemp(name.data());
    if (file >= 0) unlink(name.c_str());
    if (file < 0 || posix_fallocate(file, 0, static_cast<off_t>(bytes)) != 0) fail("a file", name, file);
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (data_ == MAP_FAILED) fail("a mapping", name, file);
    close(file);
  }
  ~MappedFile() { munmap(data_, bytes_); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  float* data() const { return static_cast<float*>(data_); }

 private:
  [[noreturn]] void fail(const char* what, const std::string& name, int file) const {
    const int error = errno;
    if (file >= 0) close(file);
    throw Error(Cause::environment_missing,
                fmt::format("{} of {} bytes at {}: {}", what, bytes_, name, std::strerror(error)),
                "TMPDIR on a file system with free space");
  }
  size_t bytes_;
  void* data_ = nullptr;
};

/// Rank 0's memory of each placement, and the kernel.
class LocalityRank {
 public:
  LocalityRank(RankContext& context, const OneSidedSettings& settings, size_t bytes)
      : context_(context),
        settings_(settings),
        bytes_(bytes),
        heap_(context.device, context.communicator, bytes + 4096, settings.timeout_seconds),
        shared_(heap_.allocate<float>(bytes / sizeof(float))),
        sums_(context.device.allocate(kSummedColumns * sizeof(float))),
        start_(context.device.make_event()),
        end_(context.device.make_event()),
        stream_(context.device.make_stream("locality")) {
    const std::vector<float> values = placed_values(bytes / sizeof(float));
    context.device.copy_in(*stream_, heap_.local(shared_), values.data(), bytes);
    if (context.rank == 0) {
      own_ = context.device.allocate(bytes), copy_ = context.device.allocate(bytes);
      context.device.copy_in(*stream_, own_->data(), values.data(), bytes);
      if (on_gpu())
        pinned_ = context.device.allocate_host(bytes);
      else
        file_ = std::make_unique<MappedFile>(bytes);
      std::memcpy(host(), values.data(), bytes);
      sum_columns(own_->as<float>());  // loads the kernel before another rank waits
      expected_.assign(kSummedColumns, 0);
      for (size_t i = 0; i < values.size(); ++i) expected_[i % kSummedColumns] += values[i];
    }
    stream_->synchronize(deadline());
    context.communicator.barrier(deadline());
  }

  /// Microseconds of one execution on rank 0, whose result is compared; 0 on the others. Collective.
  double time_us(const std::string& placement, bool copied, double& wrong) {
    double us = 0;
    if (context_.rank == 0) {
      float* const place = placement == kLocal ? own_->as<float>() : placement == kPeer ? peer() : host();
      stream_->stamp(*start_);
      if (copied) copy(placement, place);
      for (int pass = 0; pass < kLocalityPasses; ++pass) sum_columns(copied ? copy_->as<float>() : place);
      stream_->stamp(*end_);
      std::vector<float> sums(kSummedColumns);
      context_.device.copy_out(*stream_, sums.data(), sums_->data(), sums_->bytes());
      stream_->synchronize(deadline());
      us = context_.device.elapsed_us(*start_, *end_);
      for (size_t i = 0; i < sums.size(); ++i) wrong += sums[i] != expected_[i];
    }
    return exchange_results(context_.communicator, us, deadline()).front();
  }

 private:
  bool on_gpu() const { return context_.device.backend() == BackendKind::cuda; }
  Deadline deadline() const { return Deadline::after_seconds(settings_.timeout_seconds); }
  float* host() const { return pinned_ ? pinned_->as<float>() : file_->data(); }
  float* peer() const { return heap_.peer(shared_, 1); }
  void sum_columns(const float* from) {
    context_.ops->matmul().column_sums(*stream_, from, DType::f32, sums_->as<float>(),
                                       static_cast<int64_t>(bytes_ / sizeof(float)) / kSummedColumns, kSummedColumns,
                                       false);
  }
  void copy(const std::string& placement, const float* from) {
    if (placement == kPeer)
      heap_.get(*stream_, copy_->as<float>(), {shared_, 0, shared_.size()}, 1);
    else if (placement == kOfHost)
      context_.device.copy_in_pinned(*stream_, copy_->data(), from, bytes_);
    else
      context_.device.copy_within(*stream_, copy_->data(), from, bytes_);
  }

  RankContext& context_;
  const OneSidedSettings& settings_;
  const size_t bytes_;
  SymmetricHeap heap_;
  SymmetricArray<float> shared_;
  std::unique_ptr<Buffer> own_, copy_, pinned_, sums_;
  std::unique_ptr<MappedFile> file_;
  std::vector<float> expected_;
  std::unique_ptr<Event> start_, end_;
  std::unique_ptr<Stream> stream_;
};

Record locality_record(const OneSidedSettings& settings, const std::string& placement, bool copied, size_t bytes,
                       Series time, double wrong) {
  Record record;
  record.kind = "onesided-locality";
  record.provenance = settings.provenance;
  record.axes = {{"placement", placement},
                 {"method", std::string(copied ? "copied first" : "in place")},
                 {"bytes", static_cast<int64_t>(bytes)},
                 {"passes", int64_t{kLocalityPasses}},
                 {"devices", int64_t{settings.devices}},
                 {"ranks", settings.ranks}};
  Series rate{"bandwidth", "GB/s", {}};
  for (const double us : time.samples) rate.samples.push_back(static_cast<double>(bytes) * kLocalityPasses / us * 1e-3);
  record.series = {std::move(time), std::move(rate), {"wrong", "columns", {wrong}}};
  if (wrong > 0) record.status = {Status::Kind::failed, fmt::format("{:.0f} columns are wrong", wrong)};
  return record;
}

}  // namespace

void run_onesided_locality(Fleet& fleet, const OneSidedSettings& settings,
                           const std::function<void(const Record&)>& sink, Observer& observer) {
  std::vector<int64_t> all;
  for (const int64_t size : {int64_t{256} << 10, int64_t{1} << 20, int64_t{16} << 20, int64_t{64} << 20})
    if (size >= settings.sizes.front() && size <= settings.sizes.back()) all.push_back(size);
  if (all.empty())
    throw Error(Cause::usage, "no size of 0.25, 1, 16 or 64 MiB is between `min_bytes` and `max_bytes`",
                "`max_bytes` of at least 256K");
  fleet.run(settings.devices, [&](RankContext& context) {
    RankSampler sampler(context.communicator, settings.timeout_seconds);
    int done = 0;
    for (const int64_t size : all) {
      LocalityRank rank(context, settings, static_cast<size_t>(size));
      for (const char* placement : {kLocal, kPeer, kOfHost})
        for (const bool copied : {false, true}) {
          double wrong = 0;
          const auto sample = [&] { return rank.time_us(placement, copied, wrong); };
          sampler.warm_up({.least_steps = 1, .multiple = 1, .step_us = block_of_samples(1, sample), .clock_mhz = [&] {
                             return context.device.health().sm_clock_mhz;
                           }});
          Series time{"time", "us", {}};
          for (int i = 0; i < settings.samples; ++i) time.samples.push_back(sample());
          if (context.rank != 0) continue;
          Record record =
              locality_record(settings, placement, copied, static_cast<size_t>(size), std::move(time), wrong);
          record.origin = origin_of(context, settings);
          sink(record);
        }
      if (context.rank == 0) observer.progress(++done, static_cast<int>(all.size()), fmt::format("{} bytes", size));
    }
  });
}

}  // namespace amdahl
