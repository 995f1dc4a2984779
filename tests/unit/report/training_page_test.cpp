// Pages of trainings.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "page_checks.h"
#include "report/study/page.h"

namespace amdahl {
namespace {

using test::column;
using test::expect_sound;
using test::find_chart;
using test::has_note;
using test::provenance_of;
using test::uniform;

std::vector<Record> epochs(int count) {
  std::vector<Record> records;
  for (int i = 1; i <= count; ++i) {
    Record record;
    record.kind = "train-epoch";
    record.provenance = provenance_of("cpu-virtual", 1);
    record.axes = {{"model", std::string("medium")}, {"num_parameters", int64_t{54403}},  {"global_batch", int64_t{32}},
                   {"devices", int64_t{1}},          {"strategy", std::string("single")}, {"epoch", int64_t{i}}};
    record.series = {{"train_loss", "1", {2.0 / i}},
                     {"seconds", "s", {0.5}},
                     {"throughput", "samples/s", {uniform(static_cast<uint32_t>(i), 900, 1000)}},
                     {"validation_loss", "1", {2.2 / i}},
                     {"validation_accuracy", "1", {1 - 0.5 / i}}};
    records.push_back(record);
  }
  return records;
}

TEST(TrainingPage, ARowAnEpochAndALineALoss) {
  const std::vector<Record> records = epochs(5);
  const Page page = training_page(records);
  expect_sound(page);
  EXPECT_EQ(find_chart(page, "loss")->table.rows.size(), 10u);
  EXPECT_EQ(std::get<double>(column(*find_chart(page, "accuracy"), "accuracy_percent")[4]), 90);
  const std::vector<TableValue> rates = column(*find_chart(page, "throughput"), "samples_per_second");
  for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(std::get<double>(rates[i]), *records[i].value("throughput"));
  EXPECT_NE(page.verdict.find("fell from 2.00 to 0.400 in 5 epochs"), std::string::npos) << page.verdict;
}

TEST(TrainingPage, AFailedEpochIsANote) {
  std::vector<Record> records = epochs(3);
  records[2].status = {Status::Kind::failed, "the loss is not a number"};
  const Page page = training_page(records);
  EXPECT_TRUE(has_note(page, "the loss is not a number"));
  EXPECT_EQ(find_chart(page, "loss")->table.rows.size(), 4u);
}

}  // namespace
}  // namespace amdahl
