#include "report/study/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"
#include "base/record_values.h"
#include "chart/document.h"
#include "chart/line_chart.h"
#include "report/common/record_checks.h"
#include "report/common/words.h"
#include "report/page/page_parts.h"

namespace amdahl {
namespace {

constexpr const char* kEpochKind = "train-epoch";

bool is_epoch(const Record& record) { return record.kind == kEpochKind && record.status.kind == Status::Kind::ok; }

int64_t count_of(const Record& record, const char* axis) {
  const auto found = record.axes.find(axis);
  const auto* value = found == record.axes.end() ? nullptr : std::get_if<int64_t>(&found->second);
  if (!value) throw damaged_record(record, fmt::format("has no whole number in axis '{}'", axis));
  return *value;
}

std::string training_subject(const Record& record) {
  const int64_t devices = count_of(record, "devices");
  const DeviceWords words = device_text(record.provenance.device_kind);
  return fmt::format("{} ({} parameters), global batch {}, {} on {} {}", axis<std::string>(record, "model", "unknown"),
                     with_thousands(count_of(record, "num_parameters")), count_of(record, "global_batch"),
                     axis<std::string>(record, "strategy", "unknown"), devices, devices == 1 ? words.one : words.many);
}

/// A series over the epochs as a line.
LineSeries line_of(const std::vector<Record>& records, const char* series, const std::string& name) {
  LineSeries line;
  line.name = name;
  for (const Record& record : records)
    if (const std::optional<double> value = is_epoch(record) ? record.value(series) : std::nullopt) {
      line.origin = record.origin;
      line.points.push_back({static_cast<double>(axis<int64_t>(record, "epoch", 0)), *value, std::nullopt, 1});
    }
  return line;
}

LinePlot epoch_plot(const char* id, const char* title, TableColumn value) {
  LinePlot plot;
  plot.id = id, plot.title = title;
  plot.x = {"epoch", "Epoch"};
  plot.y = std::move(value);
  plot.series_title = "Line";
  plot.interval_title = "interval";
  plot.x_scale = LinePlot::XScale::linear;
  plot.log_y = false;
  return plot;
}

std::string from_to(const LineSeries& line) {
  if (line.points.empty()) return {};
  return fmt::format("{} from {} to {}", line.name, format_number(line.points.front().y),
                     format_number(line.points.back().y));
}

void add_lines(LinePlot& plot, std::vector<LineSeries> lines) {
  for (LineSeries& line : lines) {
    const std::string words = from_to(line);
    if (words.empty()) continue;
    plot.summary += (plot.summary.empty() ? "" : "; ") + words;
    plot.series.push_back(std::move(line));
  }
  if (!plot.summary.empty()) plot.summary += ".";
}

std::optional<Chart> loss_chart(const std::vector<Record>& records) {
  LinePlot plot = epoch_plot("loss", "Loss against epoch", {"loss", "Loss"});
  add_lines(plot,
            {line_of(records, "train_loss", "training loss"), line_of(records, "validation_loss", "validation loss")});
  return line_chart(plot);
}

std::optional<Chart> accuracy_chart(const std::vector<Record>& records) {
  LinePlot plot = epoch_plot("accuracy", "Validation accuracy against epoch (%)", {"accuracy_percent", "Accuracy (%)"});
  LineSeries line = line_of(records, "validation_accuracy", "validation accuracy (%)");
  for (LinePoint& point : line.points) point.y *= 100;
  add_lines(plot, {std::move(line)});
  return line_chart(plot);
}

std::optional<Chart> rate_chart(const std::vector<Record>& records) {
  LinePlot plot =
      epoch_plot("throughput", "Samples per second, epoch by epoch", {"samples_per_second", "Throughput (samples/s)"});
  add_lines(plot, {line_of(records, "throughput", "samples per second")});
  return line_chart(plot);
}

std::vector<double> values_of(const std::vector<Record>& records, const char* series) {
  std::vector<double> values;
  for (const Record& record : records)
    if (const std::optional<double> value = is_epoch(record) ? record.value(series) : std::nullopt)
      values.push_back(*value);
  return values;
}

std::string verdict_of(const std::vector<Record>& records) {
  const std::vector<double> loss = values_of(records, "train_loss"),
                            accuracy = values_of(records, "validation_accuracy");
  if (loss.empty()) return "No epoch was finished.";
  const bool learnt = loss.size() > 1 && loss.back() < loss.front();
  std::string text = loss.size() == 1 ? fmt::format("One epoch was trained; the loss is {}", format_number(loss.back()))
                                      : fmt::format("The training loss {} from {} to {} in {} epochs",
                                                    learnt ? "fell" : "did NOT fall:", format_number(loss.front()),
                                                    format_number(loss.back()), loss.size());
  if (!accuracy.empty())
    text += fmt::format(", and {:.1f} % of the samples that it never saw are classified right", 100 * accuracy.back());
  return text + ".";
}

std::vector<std::string> facts_of(const std::vector<Record>& records) {
  std::vector<std::string> facts;
  const std::vector<double> rates = values_of(records, "throughput"), seconds = values_of(records, "seconds");
  if (!rates.empty()) {
    const Figure figure = median_figure(rates, "samples/s");
    facts.push_back(fmt::format("{}: throughput of training ({} epochs)", figure.number, figure.basis));
  }
  if (!seconds.empty()) {
    const Figure figure = median_figure(seconds, "s");
    facts.push_back(fmt::format("{}: time of an epoch ({} epochs)", figure.number, figure.basis));
  }
  const std::vector<double> loss = values_of(records, "validation_loss");
  if (!loss.empty()) {
    const auto best = std::min_element(loss.begin(), loss.end());
    facts.push_back(fmt::format("{}: lowest validation loss, at epoch {} of {} (n = 1 run)", format_number(*best),
                                best - loss.begin() + 1, loss.size()));
  }
  return facts;
}

PageTable epochs_table(const std::vector<Record>& records) {
  PageTable table;
  table.caption = "Epochs, one sample each";
  table.table.columns = {{"epoch", "Epoch"},
                         {"train_loss", "Training loss"},
                         {"validation_loss", "Validation loss"},
                         {"validation_mae", "Validation MAE"},
                         {"accuracy", "Validation accuracy (1 = 100 %)"},
                         {"samples_per_second", "Throughput (samples/s)"},
                         {"seconds", "Time (s)"},
                         {"origin", "origin"}};
  for (const Record& record : records)
    if (is_epoch(record))
      table.table.rows.push_back(
          {count_of(record, "epoch"), optional_value(record.value("train_loss")),
           optional_value(record.value("validation_loss")), optional_value(record.value("validation_mae")),
           optional_value(record.value("validation_accuracy")), optional_value(record.value("throughput")),
           optional_value(record.value("seconds")), std::string(origin_text(record.origin))});
  return table;
}

/// What earlier Records lack: rate of tokens, memory, and the loss scale of fp16.
std::vector<std::string> last_epoch_lines(const Record& last) {
  std::vector<std::string> lines;
  if (const auto tokens = last.value("token_throughput"))
    lines.push_back(fmt::format("Last epoch: {} tokens/s", format_number(*tokens)));
  if (const auto rate = last.value("model_flop_rate"), share = last.value("model_flop_share"); rate && share)
    lines.push_back(fmt::format("Last epoch: {} TFLOP/s of forward and backward, MFU {:.1f} %", format_number(*rate),
                                100 * *share));
  if (const auto peak = last.value("memory_peak"); peak && last.value("memory_modelled"))
    lines.push_back(fmt::format("Memory of the first device: {} at its peak, {} modelled", format_bytes(*peak),
                                format_bytes(*last.value("memory_modelled"))));
  if (const auto scale = last.value("loss_scale"))
    lines.push_back(fmt::format("Loss scale of fp16: {} at the end, {} steps skipped", format_number(*scale),
                                format_number(last.value("skipped_steps").value_or(0))));
  return lines;
}

std::string epoch_text(const Record& record) { return fmt::format("epoch {}", axis<int64_t>(record, "epoch", 0)); }

}  // namespace

Page training_page(const std::vector<Record>& records) {
  Page page;
  page.subject = {"training run", "training runs", "", page_devices(records)};
  page.title = "Training of " + training_subject(records.back());
  page.qualifier = page_qualifier(records);
  page.verdict = verdict_of(records);
  page.facts = facts_of(records);
  PageSection learning{"learning", "Learning", {training_subject(records.back()) + "."}, {}, {}};
  add_chart(learning, loss_chart(records));
  add_chart(learning, accuracy_chart(records));
  add_section(page, std::move(learning));
  PageSection speed{"speed", "Speed", {}, {}, {}};
  add_chart(speed, rate_chart(records));
  speed.paragraphs = last_epoch_lines(records.back());
  speed.tables.push_back(epochs_table(records));
  add_section(page, std::move(speed));
  page.provenance = page_provenance(records);
  add_status_notes(page, records, epoch_text);
  return page;
}

}  // namespace amdahl
