#include "measure/links/device_speed.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

namespace amdahl {
namespace {

class RankSpeed {
 public:
  RankSpeed(RankContext& rank, const SpeedSettings& settings)
      : rank_(rank), settings_(settings), stream_(rank.device.make_stream("speed")) {
    const auto bytes = static_cast<size_t>(settings.matrix * settings.matrix) * sizeof(float);
    for (std::unique_ptr<Buffer>* buffer : {&x_, &w_, &y_}) {
      *buffer = rank.device.allocate(bytes);
      rank.device.fill_zero(*stream_, (*buffer)->data(), bytes);
    }
    fill(*x_), fill(*w_);
    one_ = rank.device.allocate(settings.copy_bytes), other_ = rank.device.allocate(settings.copy_bytes);
    rank.device.fill_zero(*stream_, one_->data(), settings.copy_bytes);
    product();  // chooses algorithms
    stream_->synchronize(deadline());
  }

  /// TFLOP/s.
  std::vector<double> matrix_rates(const std::function<void(const DeviceSpec&)>& loaded) {
    const double each_us = timed_us(
        1, [&] { product(); }, [] {});
    constexpr int kLeast = 2, kMost = 2000;
    const int times = std::clamp(static_cast<int>(settings_.seconds * 1e6 / each_us), kLeast, kMost);
    const auto look = [&] {
      std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(0.7 * times * each_us));
      loaded(rank_.device.spec());
    };
    const double flops = 2.0 * static_cast<double>(settings_.matrix) * static_cast<double>(settings_.matrix) *
                         static_cast<double>(settings_.matrix);
    std::vector<double> rates;
    for (int i = 0; i < settings_.samples; ++i)
      rates.push_back(flops /
                      timed_us(
                          times, [&] { product(); }, look) *
                      1e-6);
    return rates;
  }

  /// GB/s.
  std::vector<double> copy_rates() {
    constexpr int kCopies = 20;
    std::vector<double> rates;
    for (int i = 0; i < settings_.samples; ++i) {
      const double us = timed_us(
          kCopies, [&] { rank_.device.copy_within(*stream_, one_->data(), other_->data(), settings_.copy_bytes); },
          [] {});
      rates.push_back(2 * static_cast<double>(settings_.copy_bytes) / us * 1e-3);
    }
    return rates;
  }

 private:
  Deadline deadline() const { return Deadline::after_seconds(settings_.timeout_seconds); }

  /// Non-zero, differing values: power and speed of GEMMs depend on the data.
  void fill(Buffer& buffer) {
    std::vector<float> host(buffer.bytes() / sizeof(float));
    uint32_t state = 12345;
    for (float& value : host) {
      state = state * 1664525u + 1013904223u;  // Numerical Recipes' linear congruential generator
      value = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
    }
    rank_.device.copy_in(*stream_, buffer.data(), host.data(), buffer.bytes());
    stream_->synchronize(deadline());
  }

  void product() {
    const int64_t n = settings_.matrix;
    rank_.ops->gemm().dense_forward(*stream_,
                                    {x_->as<float>(), w_->as<float>(), nullptr, y_->as<float>(), n, n, n, false});
  }

  /// Starts all ranks together; `meanwhile` runs on the host once all work is enqueued.
  template <class Work, class Meanwhile>
  double timed_us(int times, const Work& work, const Meanwhile& meanwhile) {
    const std::unique_ptr<Event> start = rank_.device.make_event(), end = rank_.device.make_event();
    rank_.communicator.barrier(deadline());
    stream_->stamp(*start);
    for (int i = 0; i < times; ++i) work();
    stream_->stamp(*end);
    meanwhile();
    stream_->synchronize(deadline());
    return rank_.device.elapsed_us(*start, *end) / times;
  }

  RankContext& rank_;
  const SpeedSettings& settings_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Buffer> x_, w_, y_, one_, other_;
};

}  // namespace

std::vector<Record> measure_device_speed(Fleet& fleet, const SpeedSettings& settings,
                                         const std::function<void(const DeviceSpec& device)>& loaded) {
  std::vector<Record> records(static_cast<size_t>(settings.devices));
  fleet.run(settings.devices, [&](RankContext& rank) {
    RankSpeed speed(rank, settings);
    Record record;
    record.kind = "device-speed";
    record.provenance = settings.provenance;
    record.axes = {{"device", static_cast<int64_t>(rank.device.spec().index)}, {"matrix", settings.matrix}};
    record.series.push_back({"matrix_rate", "TFLOP/s", speed.matrix_rates(loaded)});
    record.series.push_back({"copy_rate", "GB/s", speed.copy_rates()});
    records[static_cast<size_t>(rank.rank)] = std::move(record);
  });
  return records;
}

}  // namespace amdahl
