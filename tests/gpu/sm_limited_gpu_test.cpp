// A GPU made with a part of its multiprocessors is slower by about that part, however its work comes to it.
#include <algorithm>

#include "gpu_support.h"
#include "sensor/ops/sensor_ops.h"

namespace amdahl {
namespace {

constexpr double kShare = 0.25;

/// Gemms of matrices in fp32: as much arithmetic as a GPU does, and next to no memory traffic.
class Gemms {
 public:
  explicit Gemms(Device& device)
      : device_(device),
        stream_(device.make_stream("compute")),
        ops_(make_cuda_ops(device, {MathMode::fp32, false})),
        x_(device, *stream_, random_floats(kSize * kSize, 1)),
        w_(device, *stream_, random_floats(kSize * kSize, 2)),
        y_(device, *stream_, kSize * kSize) {}

  void enqueue() {
    for (int i = 0; i < kGemms; ++i)
      ops_->gemm().dense_forward(*stream_, {x_.data(), w_.data(), nullptr, y_.data(), kSize, kSize, kSize, false});
  }
  std::unique_ptr<Graph> captured() {
    enqueue();  // what is chosen at first use
    stream_->synchronize(Deadline::after_seconds(60));
    return device_.capture(*stream_, [this] { enqueue(); });
  }
  /// The least of a few, in microseconds.
  double time_us(Graph* graph) {
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 7; ++i) {
      const auto start = device_.make_event(), end = device_.make_event();
      stream_->stamp(*start);
      if (graph)
        graph->launch(*stream_);
      else
        enqueue();
      stream_->stamp(*end);
      stream_->synchronize(Deadline::after_seconds(60));
      if (i > 1) least = std::min(least, device_.elapsed_us(*start, *end));
    }
    return least;
  }
  std::vector<float> result() { return y_.get(); }

 private:
  static constexpr int64_t kSize = 4096;
  static constexpr int kGemms = 4;
  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Ops> ops_;
  GpuArray<float> x_, w_, y_;
};

class SmLimitedGpuTest : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    limited_ = std::move(make_cuda_devices({device->spec().index}, {kShare}).front());
  }
  std::unique_ptr<Device> limited_;
};

TEST_F(SmLimitedGpuTest, SaysHowManyProcessorsItHas) {
  const int all = device->spec().sm_count, part = limited_->spec().sm_count;
  EXPECT_GE(part, 0.15 * all);
  EXPECT_LE(part, 0.35 * all);
  EXPECT_EQ(limited_->spec().uuid, device->spec().uuid);
}

TEST_F(SmLimitedGpuTest, TakesLongerByCalls) {
  Gemms whole(*device), part(*limited_);
  whole.enqueue();
  const double whole_us = whole.time_us(nullptr), part_us = part.time_us(nullptr);
  RecordProperty("whole_us", std::to_string(whole_us));
  RecordProperty("part_us", std::to_string(part_us));
  EXPECT_GE(part_us, 2 * whole_us) << "a quarter of the multiprocessors: " << part_us << " and all: " << whole_us;
  EXPECT_LE(part_us, 12 * whole_us);
  EXPECT_LT(relative_error(part.result(),
                           [&] {
                             const std::vector<float> wanted = whole.result();
                             return std::vector<double>(wanted.begin(), wanted.end());
                           }()),
            1e-5);
}

TEST_F(SmLimitedGpuTest, TakesLongerInAGraph) {
  Gemms whole(*device), part(*limited_);
  const auto whole_graph = whole.captured(), part_graph = part.captured();
  const double whole_us = whole.time_us(whole_graph.get()), part_us = part.time_us(part_graph.get());
  RecordProperty("whole_us", std::to_string(whole_us));
  RecordProperty("part_us", std::to_string(part_us));
  EXPECT_GE(part_us, 2 * whole_us) << "a quarter of the multiprocessors: " << part_us << " and all: " << whole_us;
}

/// Both on one GPU at once, and gone in either order.
TEST_F(SmLimitedGpuTest, LivesBesideTheWholeDevice) {
  auto other = std::move(make_cuda_devices({device->spec().index}, {0.5}).front());
  {
    Gemms part(*limited_), half(*other);
    part.enqueue();
    half.enqueue();
    EXPECT_EQ(part.result().size(), half.result().size());
  }
  limited_.reset();
  {
    Gemms half(*other);
    half.enqueue();
    EXPECT_FALSE(half.result().empty());
  }
  other.reset();
  Gemms whole(*device);
  whole.enqueue();
  EXPECT_FALSE(whole.result().empty());
}

/// How many they have; that they have none in common shows where kernels of several wait for each other, as those of
/// CountPeersTest do on one GPU.
TEST_F(SmLimitedGpuTest, PartsMadeTogetherAreApart) {
  const int index = device->spec().index, all = device->spec().sm_count;
  const auto parts = make_cuda_devices({index, index, index}, {0.25, 0.5, 0.2});
  int sum = 0;
  for (const auto& part : parts) sum += part->spec().sm_count;
  EXPECT_LE(sum, all);
  EXPECT_GT(parts[1]->spec().sm_count, parts[0]->spec().sm_count);
  try {
    make_cuda_devices({index, index}, {0.7, 0.7});
    ADD_FAILURE() << "more than there is";
  } catch (const Error& error) {
    EXPECT_EQ(error.cause(), Cause::environment_missing) << error.what();
  }
}

TEST_F(SmLimitedGpuTest, RefusesWhatIsNoPart) {
  for (const double share : {0.0, -1.0, 1.5, 0.001}) try {
      make_cuda_devices({device->spec().index}, {share});
      ADD_FAILURE() << share;
    } catch (const Error& error) {
      EXPECT_EQ(error.cause(), Cause::usage) << error.what();
    }
  EXPECT_EQ(make_cuda_devices({device->spec().index}, {1.0}).front()->spec().sm_count, device->spec().sm_count);
}

}  // namespace
}  // namespace amdahl
