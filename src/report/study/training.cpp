#include "report/study/training.h"

#include <fmt/format.h>

#include "amdahl/units.h"
#include "base/record_values.h"
#include "report/common/record_checks.h"
#include "report/common/words.h"

namespace amdahl {
namespace {

int64_t count_of(const Record& record, const char* axis) {
  const auto found = record.axes.find(axis);
  const auto* value = found == record.axes.end() ? nullptr : std::get_if<int64_t>(&found->second);
  if (!value) throw damaged_record(record, fmt::format("has no whole number in axis '{}'", axis));
  return *value;
}

std::string loss_of(const Record& record, const char* series) {
  const std::optional<double> value = record.value(series);
  return value ? fmt::format("{:.4f}", *value) : "";
}

std::string accuracy_of(const Record& record) {
  const std::optional<double> value = record.value("validation_accuracy");
  return value ? fmt::format("{:.2f} %", 100 * *value) : "";
}

/// What earlier Records lack: rate of tokens, memory, and the loss scale of fp16.
std::string last_epoch_facts(const Record& last) {
  std::string text;
  if (const auto tokens = last.value("token_throughput"))
    text += fmt::format("- Last epoch: {} tokens/s\n", format_number(*tokens));
  if (const auto peak = last.value("memory_peak"); peak && last.value("memory_modelled"))
    text += fmt::format("- Memory of the first device: {} at its peak, {} modelled\n", format_bytes(*peak),
                        format_bytes(*last.value("memory_modelled")));
  if (const auto scale = last.value("loss_scale"))
    text += fmt::format("- Loss scale of fp16: {} at the end, {} steps skipped\n", format_number(*scale),
                        format_number(last.value("skipped_steps").value_or(0)));
  return text;
}

}  // namespace

std::string training_subject(const Record& record) {
  const int64_t devices = count_of(record, "devices");
  const DeviceWords words = device_text(record.provenance.device_kind);
  return fmt::format("{} ({} parameters), global batch {}, {} on {} {}", axis<std::string>(record, "model", "unknown"),
                     with_thousands(count_of(record, "num_parameters")), count_of(record, "global_batch"),
                     axis<std::string>(record, "strategy", "unknown"), devices, devices == 1 ? words.one : words.many);
}

std::string training_text(const std::vector<Record>& records) {
  const Record& last = records.back();
  std::string text = fmt::format("{}: {} epochs, train loss {}", training_subject(last), count_of(last, "epoch"),
                                 loss_of(last, "train_loss"));
  if (const std::string loss = loss_of(last, "validation_loss"); !loss.empty()) text += ", validation loss " + loss;
  if (const std::string error = loss_of(last, "validation_mae"); !error.empty()) text += ", validation MAE " + error;
  if (const std::string accuracy = accuracy_of(last); !accuracy.empty()) text += ", validation accuracy " + accuracy;
  return text + "\n";
}

std::string training_markdown(const std::vector<Record>& records) {
  const Record& last = records.back();
  std::string text =
      fmt::format("# Training of {}\n\n{}. Seed {}, {}, started {}.\n\n",
                  escape_markdown(axis<std::string>(last, "model", "unknown")), escape_markdown(training_subject(last)),
                  last.provenance.seed, last.provenance.device_kind, last.provenance.start_time);
  text += "| epoch | train loss | validation loss | validation MAE | validation accuracy | samples/s | seconds |\n";
  text += "|---:|---:|---:|---:|---:|---:|---:|\n";
  for (const Record& record : records)
    text += fmt::format(
        "| {} | {} | {} | {} | {} | {} | {} |\n", count_of(record, "epoch"), loss_of(record, "train_loss"),
        loss_of(record, "validation_loss"), loss_of(record, "validation_mae"), accuracy_of(record),
        format_number(record.value("throughput").value_or(0)), format_number(record.value("seconds").value_or(0)));
  if (const std::string facts = last_epoch_facts(last); !facts.empty()) text += "\n" + facts;
  return text + fmt::format("\nCommand: `{}`\n", last.provenance.command_line);
}

}  // namespace amdahl
