// Cells of a study that do not fit into memory beside each other, or not at all.
#include <gtest/gtest.h>

#include <map>

#include "device/cpu_device.h"
#include "measure/local_fleet.h"
#include "measure/study/cell_memory.h"
#include "setup/backends.h"
#include "small_job.h"

namespace amdahl {
namespace {

/// A CPU device with as much free memory as it is given.
class SmallDevice final : public CpuDevice {
 public:
  SmallDevice(int index, int64_t bytes) : CpuDevice(index), bytes_(bytes) {}
  int64_t free_bytes() const override { return bytes_ - static_cast<int64_t>(allocated_bytes()); }

 private:
  int64_t bytes_;
};

std::unique_ptr<Fleet> small_fleet(int devices, int64_t bytes) {
  FleetParts parts;
  parts.device_kind = "cpu-virtual";
  for (int i = 0; i < devices; ++i) parts.devices.push_back(std::make_unique<SmallDevice>(i, bytes));
  parts.make_ops = [](Device& device) { return make_cpu_ops(device, {}); };
  return make_thread_fleet(std::move(parts), [](const std::vector<Device*>& group) {
    return make_inproc_communicators(static_cast<int>(group.size()), 20);
  });
}

StudyCellSpec cell_of(int64_t batch, int devices) {
  StudyCellSpec cell;
  cell.global_batch = batch;
  cell.devices = devices;
  cell.strategy = devices == 1 ? "single" : "ddp";
  return cell;
}

StudySettings settings_of(std::vector<StudyCellSpec> cells) {
  StudySettings settings;
  settings.model = test::odd_model(LossKind::mse);
  settings.trainer.model = settings.model;
  settings.trainer.timeout_seconds = 20;
  settings.runs = 3;
  settings.warmup = settings.steps = 2;
  settings.brief = true;
  settings.groups = {std::move(cells)};
  return settings;
}

/// The number of good runs by devices and batch; failed ones are counted as -1.
std::map<std::pair<int64_t, int64_t>, int> runs_of_cells(Fleet& fleet, const StudySettings& settings) {
  std::map<std::pair<int64_t, int64_t>, int> runs;
  const Dataset data = make_study_dataset(4096, settings.model.input_width, settings.model.output_width(), 1);
  Observer observer;
  run_study_cells(
      fleet, data, settings, {},
      [&](const Record& record) {
        const auto key =
            std::pair(std::get<int64_t>(record.axes.at("devices")), std::get<int64_t>(record.axes.at("global_batch")));
        runs[key] += record.status.kind == Status::Kind::ok ? 1 : -1;
      },
      observer);
  return runs;
}

int64_t bytes_of(const StudySettings& settings, const StudyCellSpec& cell) {
  return cell_memory(settings, cell, BackendKind::cpu, 4096).total();
}

TEST(StudyMemory, CellsThatDoNotFitBesideEachOtherTakeTurns) {
  const std::vector<StudyCellSpec> cells{cell_of(2048, 1), cell_of(2048, 2), cell_of(3072, 2), cell_of(4096, 2)};
  const StudySettings settings = settings_of(cells);
  // Room for the largest cell of two devices, which the model wants twice as free, and little else.
  const int64_t bytes = 2 * bytes_of(settings, cells.back()) + bytes_of(settings, cells.front()) / 8;
  ASSERT_LT(bytes, bytes_of(settings, cells[0]) + bytes_of(settings, cells[1]) + bytes_of(settings, cells[2]) +
                       2 * bytes_of(settings, cells[3]));
  const auto fleet = small_fleet(2, bytes);
  const auto runs = runs_of_cells(*fleet, settings);
  EXPECT_EQ(runs.size(), cells.size());
  for (const auto& [cell, count] : runs) EXPECT_EQ(count, 3) << cell.first << " devices, batch " << cell.second;
}

TEST(StudyMemory, ACellThatFitsNowhereFailsAndTheOthersGoOn) {
  const std::vector<StudyCellSpec> cells{cell_of(64, 1), cell_of(64, 2), cell_of(4096, 2), cell_of(96, 2)};
  const StudySettings settings = settings_of(cells);
  const auto fleet = small_fleet(2, bytes_of(settings, cells[2]));  // half of what two devices need
  const auto runs = runs_of_cells(*fleet, settings);
  EXPECT_EQ(runs,
            (std::map<std::pair<int64_t, int64_t>, int>{{{1, 64}, 3}, {{2, 64}, 3}, {{2, 4096}, -1}, {{2, 96}, 3}}));
}

}  // namespace
}  // namespace amdahl
