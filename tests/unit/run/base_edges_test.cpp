// Small parts that everything uses: views of memory, names of fields, deadlines, waits, names of devices.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>
#include <thread>

#include "amdahl/error.h"
#include "amdahl/plan.h"
#include "amdahl/tensor.h"
#include "base/deadline.h"
#include "base/limited_devices.h"
#include "base/wait_point.h"
#include "errors.h"

namespace amdahl {
namespace {

// Offsets of the elements in row-major order of their indices.
std::vector<int64_t> offsets_of(const ConstTensor& tensor) {
  std::vector<int64_t> offsets{0};
  for (size_t dim = 0; dim < tensor.shape.size(); ++dim) {
    std::vector<int64_t> next;  // stays empty where an extent is 0: PyTorch gives such arrays strides of 1
    for (const int64_t offset : offsets)
      for (int64_t i = 0; i < tensor.shape[dim]; ++i) next.push_back(offset + i * tensor.strides[dim]);
    offsets = std::move(next);
  }
  return offsets;
}

TEST(TensorProperties, DenseMeansThatElementsFollowEachOther) {
  std::mt19937 random(161);
  int dense = 0, others = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    ConstTensor tensor;
    for (uint32_t dims = random() % 4; dims > 0; --dims)
      tensor.shape.push_back(random() % 8 == 0 ? 0 : 1 + random() % 3);
    int64_t stride = 1;
    tensor.strides.resize(tensor.shape.size());
    for (size_t i = tensor.shape.size(); i-- > 0; stride *= std::max<int64_t>(tensor.shape[i], 1))
      tensor.strides[i] = stride;
    if (!tensor.strides.empty() && random() % 2 == 0)
      tensor.strides[random() % tensor.strides.size()] = static_cast<int64_t>(random() % 7) - 1;
    const std::vector<int64_t> offsets = offsets_of(tensor);
    ASSERT_EQ(static_cast<int64_t>(offsets.size()), tensor.num_elements());
    bool follow = true;
    for (size_t i = 0; i < offsets.size(); ++i) follow = follow && offsets[i] == static_cast<int64_t>(i);
    ASSERT_EQ(tensor.is_dense(), follow) << fmt::format("[{}] [{}]", fmt::join(tensor.shape, ","),
                                                        fmt::join(tensor.strides, ","));
    ++(follow ? dense : others);
  }
  EXPECT_GT(dense, 500);
  EXPECT_GT(others, 500);
  EXPECT_FALSE((ConstTensor{nullptr, DType::f32, {2, 3}, kHostMemory, {1}}.is_dense())) << "a stride is missing";
}

TEST(TensorProperties, OnlyDocumentedDlpackTypesAreRead) {
  std::set<DType> found;
  int refused = 0;
  for (int code = -1; code < 8; ++code)
    for (const int bits : {-8, 0, 1, 4, 8, 16, 32, 64, 128, 256})
      for (const int lanes : {0, 1, 2, 4}) {
        const Error error = error_of([&] { EXPECT_TRUE(found.insert(dtype_of_dlpack(code, bits, lanes)).second); });
        if (error.cause() != Cause::usage) continue;
        ++refused;
        EXPECT_NE(error.line().find(fmt::format("code {}, {} bits and {} lanes", code, bits, lanes)),
                  std::string::npos);
        EXPECT_FALSE(error.remedy().empty());
      }
  EXPECT_EQ(found.size(), 8u);
  EXPECT_EQ(refused, 9 * 10 * 4 - 8);
}

std::string upper_name(const std::vector<FieldWord>& words) {
  if (words.front().name == "unknown") return {};
  std::string text = "<";
  for (const FieldWord& word : words) text += word.name + (word.value ? "=" + *word.value : "") + "|";
  return text + ">";
}

TEST(FieldNameProperties, AnyTextKeepsWhatIsNoReference) {
  set_field_namer(upper_name);
  std::mt19937 random(162);
  const std::vector<std::string> parts{"`", "``", "batch_sizes", "=", "2,4", " ", "unknown", "A", "é", "x"};
  for (int trial = 0; trial < 3000; ++trial) {
    std::string text;
    for (uint32_t left = random() % 8; left > 0; --left) text += parts[random() % parts.size()];
    const std::string once = named(text);
    EXPECT_EQ(named(once), once) << "errors pass their texts through it again: " << text;
    if (text.find('`') == std::string::npos) {
      EXPECT_EQ(once, text);
    }
    std::string letters;  // nothing but backticks and references changes
    for (const char c : once)
      if (c != '`' && c != '<' && c != '>' && c != '|' && c != ' ') letters += c;
    std::string before;
    for (const char c : text)
      if (c != '`' && c != ' ') before += c;
    EXPECT_EQ(letters, before);
  }
  EXPECT_EQ(named("give `batch_sizes=2,4` or ``links list``"), "give <batch_sizes=2,4|> or `<links|list|>`");
  EXPECT_EQ(named("`unknown` stays"), "`unknown` stays");
  EXPECT_EQ(named_reference({{"data", "a b`c"}}), "<data=a b`c|>") << "a value may hold anything";
  set_field_namer(nullptr);
  EXPECT_EQ(named_reference({{"study"}, {"runs", "3"}}), "`study runs=3`");
}

TEST(DeadlineEdges, AnyNumberOfSecondsIsATime) {
  const auto begin = Deadline::Clock::now();
  for (const double none : {0.0, -1.0, -std::numeric_limits<double>::infinity(), std::nan("")}) {
    const Deadline deadline = Deadline::after_seconds(none);
    EXPECT_TRUE(deadline.expired()) << none;
    EXPECT_EQ(deadline.remaining().count(), 0);
  }
  for (const double much : {1e6, 1e18, 1e300, std::numeric_limits<double>::infinity()}) {
    const Deadline deadline = Deadline::after_seconds(much);
    EXPECT_FALSE(deadline.expired()) << much;
    EXPECT_GT(deadline.time(), begin);
    EXPECT_GT(deadline.remaining(), std::chrono::hours(1)) << much;
  }
}

TEST(WaitPointEdges, NoWakeUpIsLost) {
  WaitPoint point;
  std::atomic<int> turn{0};
  constexpr int kRounds = 2000;
  const auto play = [&](int parity) {
    for (int round = parity; round < kRounds; round += 2) {
      EXPECT_TRUE(point.wait([&] { return turn.load() == round; }, Deadline::after_seconds(20)));
      turn.store(round + 1);
      point.notify();
    }
  };
  std::thread other([&] { play(1); });
  play(0);
  other.join();
  EXPECT_EQ(turn.load(), kRounds);
}

TEST(WaitPointEdges, TheDeadlineIsKept) {
  WaitPoint point;
  std::atomic<bool> ready{false};
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(point.wait([&] { return ready.load(); }, Deadline::after_seconds(0.05)));
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(50));
  ready = true;
  EXPECT_TRUE(point.wait([&] { return ready.load(); }, Deadline::after_seconds(0))) << "ready comes before late";
}

Provenance of_devices(const std::vector<std::string>& names) {
  Provenance provenance;
  provenance.device_kind = "cuda";
  for (size_t i = 0; i < names.size(); ++i) provenance.facts[fmt::format("device.{}.name", i)] = names[i];
  return provenance;
}

TEST(DeviceNames, AreInTheOrderOfTheirNumbersAndCounted) {
  std::vector<std::string> names;
  for (int i = 0; i < 12; ++i) names.push_back(i < 9 ? "GPU A" : "GPU B");
  const Provenance provenance = of_devices(names);
  EXPECT_EQ(numbered_devices(provenance), names) << "10 follows 9, not 1";
  EXPECT_EQ(counted_devices(names, " x "), "9 x GPU A + 3 x GPU B");
  EXPECT_EQ(first_devices(provenance, 10).size(), 10u);
  EXPECT_EQ(first_devices(provenance, 99).size(), 12u);
  EXPECT_TRUE(first_devices(provenance, -1).empty());
  EXPECT_EQ(counted_devices({}, " x "), "");
  EXPECT_EQ(origin_of_devices(provenance), Origin::measured);
}

TEST(DeviceNames, ALimitIsNamedOnceAndMakesItEmulated) {
  for (const double fraction : {0.5, 0.25, 0.999}) {
    Provenance provenance = of_devices({"GPU A", "GPU A"});
    provenance.facts["device.1"] = "GPU A", provenance.facts["held_back.1"] = fmt::format("{}", fraction);
    name_limited_devices(provenance);
    const std::string once = provenance.facts["device.1"];
    EXPECT_NE(once.find(fmt::format("{:g} % of its speed, emulated", 100 * fraction)), std::string::npos) << once;
    EXPECT_EQ(origin_of_devices(provenance), Origin::emulated);
    name_limited_devices(provenance);
    EXPECT_EQ(provenance.facts["device.1"], once);
  }
  for (const char* nothing : {"1", "1.5", "0", "-0.5", "nan", "", "half", "inf"}) {
    Provenance provenance = of_devices({"GPU A"});
    provenance.facts["device.0"] = "GPU A", provenance.facts["held_back.0"] = nothing;
    name_limited_devices(provenance);
    EXPECT_EQ(provenance.facts["device.0"], "GPU A") << nothing;
    EXPECT_EQ(origin_of_devices(provenance), Origin::measured) << nothing;
  }
}

// Parameters and FLOPs counted element by element.
TEST(ModelSpecProperties, CountsAreThoseOfItsMatrices) {
  std::mt19937 random(163);
  for (int trial = 0; trial < 200; ++trial) {
    ModelSpec model{"m", static_cast<int64_t>(1 + random() % 50), {}, LossKind::mse};
    int64_t parameters = 0, width = model.input_width;
    double flops = 0;
    const int64_t batch = 1 + random() % 100;
    for (uint32_t layers = 1 + random() % 4, i = 0; i < layers; ++i) {
      const auto units = static_cast<int64_t>(1 + random() % 60);
      const bool bias = random() % 2 == 0;
      model.layers.push_back({units, bias, i + 1 < layers ? Activation::relu : Activation::none, 0});
      parameters += units * width + (bias ? units : 0);
      const auto multiply_adds = static_cast<double>(batch * units * width);
      flops += 2 * multiply_adds * (i == 0 ? 2 : 3);
      width = units;
    }
    EXPECT_NO_THROW(model.validate());
    EXPECT_EQ(model.num_parameters(), parameters);
    EXPECT_DOUBLE_EQ(step_flops(model, batch), flops);
    EXPECT_EQ(model.output_width(), width);
  }
}

TEST(ModelSpecProperties, EveryWrongFieldIsNamed) {
  const ModelSpec good = find_model_preset("medium");
  const auto refused = [&](const std::function<void(ModelSpec&)>& change, const std::string& word) {
    ModelSpec model = good;
    change(model);
    const Error error = error_of([&] { model.validate(); });
    EXPECT_EQ(error.cause(), Cause::usage) << word;
    EXPECT_NE(error.line().find("model 'medium': "), std::string::npos) << error.line();
    EXPECT_NE(error.line().find(word), std::string::npos) << error.line();
    EXPECT_FALSE(error.remedy().empty());
  };
  for (const int64_t width : {int64_t{0}, int64_t{-1}, (int64_t{1} << 24) + 1, std::numeric_limits<int64_t>::max()}) {
    refused([&](ModelSpec& m) { m.input_width = width; }, fmt::format("input_width is {}", width));
    refused([&](ModelSpec& m) { m.layers[1].units = width; }, fmt::format("layer 1 has {} units", width));
  }
  for (const double dropout : {-0.1, 1.0, 2.0, std::nan("")})
    refused([&](ModelSpec& m) { m.layers[0].dropout = dropout; }, "layer 0 has dropout");
  refused([](ModelSpec& m) { m.layers.clear(); }, "no layers");
  refused([](ModelSpec& m) { m.layers.resize(1025, m.layers[0]); }, "1025 layers");
  refused([](ModelSpec& m) { m.layers[0].activation = Activation::none; }, "layer 0 has dropout but no activation");
  refused([](ModelSpec& m) { m.layers.back().activation = Activation::relu; }, "output layer");
  refused([](ModelSpec& m) { m.layers.back().units = 1, m.loss = LossKind::softmax_cross_entropy; }, "at least 2");
}

}  // namespace
}  // namespace amdahl
