#include "sensor_runs.h"
#include "waits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace amdahl::test {
namespace {

bool is(double got, const Expected& want, double largest) {
  if (std::isnan(want.value)) return std::isnan(got);
  if (want.tolerance == 0) return got == want.value && std::signbit(got) == std::signbit(want.value);
  if (std::fabs(got - want.value) <= want.tolerance) return true;
  return std::isinf(got) && std::signbit(got) == std::signbit(want.value) &&
         std::fabs(want.value) + want.tolerance >= largest;
}

}  // namespace

void expect_elements(const std::vector<double>& got, const std::vector<Expected>& want, double largest) {
  ASSERT_EQ(got.size(), want.size());
  size_t wrong = 0, first = 0;
  for (size_t i = got.size(); i-- > 0;)
    if (!is(got[i], want[i], largest)) {
      ++wrong;
      first = i;
    }
  if (wrong == 0) return;
  ADD_FAILURE() << wrong << " of " << got.size() << " elements are wrong, first [" << first << "]: " << std::hexfloat
                << got[first] << ", not " << want[first].value << " within " << std::defaultfloat
                << want[first].tolerance;
}

GuardedMemory::GuardedMemory(const SensorBench& bench, size_t bytes, size_t skip_bytes)
    : device_(bench.device),
      stream_(bench.stream),
      bytes_(bytes),
      skip_bytes_(skip_bytes),
      buffer_(bench.device.allocate(bytes + skip_bytes + 2 * kGuardBytes)) {
  spoil();
}

void GuardedMemory::spoil() {
  const std::vector<uint8_t> garbage(buffer_->bytes(), kGarbage);
  device_.copy_in(stream_, buffer_->data(), garbage.data(), garbage.size());
  stream_.synchronize(soon());
}

void GuardedMemory::set(const void* values) {
  if (bytes_ == 0) return;
  device_.copy_in(stream_, data(), values, bytes_);
  stream_.synchronize(soon());
}

std::vector<uint8_t> GuardedMemory::get() {
  std::vector<uint8_t> all(buffer_->bytes());
  device_.copy_out(stream_, all.data(), buffer_->data(), all.size());
  stream_.synchronize(soon());
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(kGuardBytes + skip_bytes_);
  const auto end = begin + static_cast<std::ptrdiff_t>(bytes_);
  const auto is_garbage = [](uint8_t byte) { return byte == kGarbage; };
  EXPECT_TRUE(std::all_of(all.begin(), begin, is_garbage)) << "written before the memory";
  EXPECT_TRUE(std::all_of(end, all.end(), is_garbage)) << "written behind the memory";
  return {begin, end};
}

std::unique_ptr<GuardedMemory> memory_of(const SensorBench& bench, const void* values, size_t bytes, size_t skip) {
  auto memory = std::make_unique<GuardedMemory>(bench, bytes, skip);
  memory->set(values);
  return memory;
}

FuseRun::FuseRun(const SensorBench& bench, const FuseCase& fuse_case, DType type, Extrapolation rule, size_t skip)
    : stream_(bench.stream), ops_(bench.ops) {
  const FuseInput& input = fuse_case.input;
  const auto keep = [&](const void* values, size_t bytes, size_t skip_bytes) {
    inputs_.push_back(memory_of(bench, values, bytes, skip_bytes));
    return inputs_.back()->data();
  };
  int64_t width = 0;
  for (const StreamInput& stream : input.streams) {
    const std::vector<uint8_t> data = encode(stream.data, type);
    FuseStream part;
    part.data = keep(data.data(), data.size(), skip * size_of(type));
    part.times = static_cast<const float*>(keep(stream.times.data(), stream.times.size() * 4, skip * 4));
    part.length = stream.length;
    part.width = stream.width;
    problem_.streams.push_back(part);
    width += stream.width;
  }
  problem_.targets = static_cast<const float*>(keep(input.targets.data(), input.targets.size() * 4, skip * 4));
  output_ = std::make_unique<GuardedMemory>(
      bench, static_cast<size_t>(input.batch * input.num_targets * width) * size_of(type), skip * size_of(type));
  problem_.output = output_->data();
  problem_.type = type;
  problem_.batch = input.batch;
  problem_.num_targets = input.num_targets;
  problem_.extrapolation = rule;
}

void expect_fused(const FuseCase& fuse_case, DType type, Extrapolation rule, const std::vector<uint8_t>& output) {
  std::vector<double> got(output.size() / size_of(type));
  for (size_t i = 0; i < got.size(); ++i) got[i] = decode(output.data(), type, static_cast<int64_t>(i));
  expect_elements(got, reference_fuse(fuse_case.input, type, rule), largest_finite(type));
}

void for_each_fuse(const std::function<void(const FuseCase&, DType, Extrapolation, size_t)>& visit) {
  size_t number = 0;
  for (const FuseCase& fuse_case : fuse_cases())
    for (const DType type : kFloatTypes)
      for (const Extrapolation rule : kRules) {
        if (fuse_case.hold_only && rule != Extrapolation::hold) continue;
        const size_t skip = number++ % 4;
        SCOPED_TRACE(fuse_case.name + ", " + std::string(amdahl::to_string(type)) + ", " +
                     std::string(amdahl::to_string(rule)) + ", skip " + std::to_string(skip));
        visit(fuse_case, type, rule, skip);
      }
}

void expect_times_checked(const SensorBench& bench, const std::vector<TimesCase>& cases) {
  std::vector<std::unique_ptr<GuardedMemory>> times;
  std::vector<TimesRows> rows;
  for (const TimesCase& one : cases) {
    times.push_back(memory_of(bench, one.times.data(), one.times.size() * 4, 4));
    rows.push_back({times.back()->as<float>(), static_cast<int64_t>(one.times.size()) / one.length, one.length});
  }
  GuardedMemory memory(bench, cases.size() * sizeof(TimesFault));
  bench.ops.check_times(bench.stream, rows, memory.as<TimesFault>());
  const auto faults = memory.get_as<TimesFault>();
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].name);
    const TimesVerdict want = reference_check_times(cases[i].times, cases[i].length);
    ASSERT_EQ(faults[i].found(), want.index >= 0);
    if (!faults[i].found()) continue;
    EXPECT_EQ(faults[i].index(), want.index);
    EXPECT_EQ(faults[i].non_finite(), want.non_finite);
  }
}

void expect_masks_work(const SensorBench& bench) {
  std::mt19937 generator(3);
  for (const int64_t voxels : {1, 31, 32, 33, 1000, 4096, 100'003}) {
    SCOPED_TRACE(std::to_string(voxels) + " voxels");
    const auto num_words = static_cast<size_t>((voxels + 31) / 32);
    std::vector<uint32_t> a(num_words), b(num_words), both(num_words);
    for (size_t i = 0; i < num_words; ++i) {
      a[i] = generator() & generator();
      b[i] = i % 5 == 0 ? 0xffffffffu : generator() & generator();
      both[i] = a[i] | b[i];
    }
    const auto mask = memory_of(bench, a.data(), num_words * 4, 4),
               other = memory_of(bench, b.data(), num_words * 4, 8);
    GuardedMemory grid(bench, static_cast<size_t>(voxels) * 4, 4);
    bench.ops.merge_masks(bench.stream, mask->as<uint32_t>(), other->as<uint32_t>(), static_cast<int64_t>(num_words));
    bench.ops.expand_mask(bench.stream, mask->as<uint32_t>(), grid.as<int32_t>(), voxels);
    EXPECT_EQ(mask->get_as<uint32_t>(), both);
    EXPECT_EQ(other->get_as<uint32_t>(), b);
    const std::vector<int32_t> expanded = grid.get_as<int32_t>();
    for (size_t i = 0; i < expanded.size(); ++i)
      ASSERT_EQ(expanded[i], static_cast<int32_t>((both[i / 32] >> (i % 32)) & 1u)) << i;
  }
}

}  // namespace amdahl::test
