#include "report/study/page.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "amdahl/error.h"
#include "chart/study_charts.h"
#include "chart/study_groups.h"
#include "report/common/account_text.h"
#include "report/common/record_checks.h"
#include "report/common/words.h"
#include "report/page/page_parts.h"
#include "report/study/break_even.h"
#include "report/study/findings.h"
#include "report/study/method.h"
#include "report/study/methods.h"
#include "report/study/one_device.h"
#include "report/study/serial_fraction.h"
#include "report/study/summary.h"
#include "report/study/verdict.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

/// An estimate and the ends of its interval; missing for a cell without a result.
void add_estimate(std::vector<TableValue>& row, const std::optional<Estimate>& estimate) {
  row.push_back(estimate ? TableValue(estimate->value) : TableValue());
  const std::optional<Interval> ci = estimate ? estimate->ci : std::nullopt;
  row.insert(row.end(), {end_of(ci, true), end_of(ci, false)});
}

std::optional<Estimate> rate_of_cell(const StudyCell* cell) {
  return cell && cell->step_time_us.n > 0 ? std::optional(cell->throughput()) : std::nullopt;
}

PageTable comparison_table(const StudySummary& summary, const StudyGroup& group) {
  const ConfigurationNames names(summary, group);
  PageTable table;
  table.caption = "Several devices against one, medians with 95 % intervals; " + verdict_legend();
  table.table.columns = {{"global_batch", "Global batch"},
                         {"device_batch", "Device batch"},
                         {"devices", "Devices"},
                         {"configuration", "Configuration"},
                         {"single", "That of one device"},
                         {"rate_single", "One device (samples/s)"},
                         {"rate_single_low", "from"},
                         {"rate_single_high", "to"},
                         {"rate", "Several (samples/s)"},
                         {"rate_low", "from"},
                         {"rate_high", "to"},
                         {"speedup", "Speedup (ratio)"},
                         {"low", "from"},
                         {"high", "to"},
                         {"efficiency_percent", "Efficiency (%)"},
                         {"p_holm", "p (Holm)"},
                         {"num_runs", "n (runs)"},
                         {"num_runs_single", "n, one device"},
                         {"verdict", "Verdict"},
                         {"note", "Note"}};
  const std::map<CellKey, std::string> jumps = jump_notes(summary, group);
  for (const StudyComparison& c : summary.comparisons) {
    if (group_of(c.multi) != group) continue;
    const std::string configuration = names.of(c.multi);
    std::vector<TableValue> row{c.multi.global_batch, c.multi.device_batch(), c.multi.devices,
                                configuration.empty() ? configuration_text(c.multi) : configuration,
                                configuration_text(c.single)};
    add_estimate(row, rate_of_cell(find_cell(summary, c.single)));
    add_estimate(row, rate_of_cell(find_cell(summary, c.multi)));
    add_estimate(row, Estimate{c.test.ratio, c.test.ci});
    row.insert(row.end(), {100 * c.efficiency, c.test.ci ? TableValue(format_p(c.test.p_holm)) : TableValue(),
                           c.test.n_first, c.test.n_second, recommendation_text(c, summary.device_kind)});
    const auto jump = jumps.find(c.multi);
    row.emplace_back(jump == jumps.end() ? std::string() : jump->second);
    table.table.rows.push_back(std::move(row));
  }
  if (group.scaling != "weak") remove_columns(table, {"device_batch"});
  if (jumps.empty()) remove_columns(table, {"note"});
  return table;
}

PageTable average_table(const StudySummary& summary, const StudyGroup& group) {
  PageTable table;
  table.caption = "Average speedup: geometric mean over the batches of each row";
  table.table.columns = {{"devices", "Devices"},
                         {"configuration", "Configuration"},
                         {"speedup", "Average speedup (ratio)"},
                         {"low", "from"},
                         {"high", "to"},
                         {"batches", "Batches"}};
  for (const AverageSpeedup& a : summary.averages)
    if (a.model == group.model && a.scaling == group.scaling && a.math == group.math)
      table.table.rows.push_back(
          {a.devices, a.configuration, a.geometric_mean, end_of(a.ci, true), end_of(a.ci, false), a.num_batches});
  return table;
}

PageTable cell_table(const StudySummary& summary, const StudyGroup& group) {
  PageTable table;
  table.caption = "Every cell: median over runs with its 95 % interval; outliers are flagged, none is dropped";
  table.table.columns = {{"global_batch", "Global batch"},
                         {"devices", "Devices"},
                         {"configuration", "Configuration"},
                         {"throughput", "Throughput (samples/s)"},
                         {"low", "from"},
                         {"high", "to"},
                         {"step_time_us", "Step time (us)"},
                         {"step_low", "from"},
                         {"step_high", "to"},
                         {"num_runs", "n (runs)"},
                         {"num_outliers", "Outliers"},
                         {"memory", "Memory peak"},
                         {"utilisation", "Utilisation (%)"}};
  const bool has_share = add_share_column(summary, table.table);
  for (const StudyCell& cell : summary.cells) {
    if (group_of(cell.key) != group || cell.step_time_us.n == 0) continue;
    std::vector<TableValue> row{cell.key.global_batch, cell.key.devices, configuration_text(cell.key)};
    add_estimate(row, cell.throughput());
    add_estimate(row, cell.step_time_us.estimate());
    row.insert(row.end(), {cell.step_time_us.n, cell.step_time_us.num_outliers,
                           cell.memory_peak_bytes ? TableValue(memory_peak_text(cell)) : TableValue(),
                           optional_value(cell.utilisation_percent)});
    if (has_share) row.push_back(optional_value(cell.model_flop_share, 100));
    table.table.rows.push_back(std::move(row));
  }
  table.in_text = std::none_of(summary.comparisons.begin(), summary.comparisons.end(),
                               [&](const StudyComparison& c) { return group_of(c.multi) == group; }) &&
                  !summary.one_device;
  return table;
}

PageTable spread_table(const StudySummary& summary, const StudyGroup& group) {
  PageTable table;
  table.caption = "Spread of the step time of every cell (us), with and without outliers (modified z above 3.5)";
  table.in_text = false;
  table.table.columns = {
      {"global_batch", "Global batch"},      {"devices", "Devices"}, {"configuration", "Configuration"},
      {"sd", "Standard deviation"},          {"mean", "Mean"},       {"num_outliers", "Outliers"},
      {"mean_without", "Mean without them"}, {"low", "from"},        {"high", "to"}};
  for (const StudyCell& cell : summary.cells) {
    if (group_of(cell.key) != group || cell.step_time_us.n == 0) continue;
    const SampleSummary& step = cell.step_time_us;
    table.table.rows.push_back({cell.key.global_batch, cell.key.devices, configuration_text(cell.key), step.sd,
                                step.mean, step.num_outliers, step.mean_without_outliers,
                                end_of(step.ci_without_outliers, true), end_of(step.ci_without_outliers, false)});
  }
  return table;
}

/// "3 %": communication over compute and communication; missing where the account is not of the measured step.
TableValue communication_ratio(const StepAccount& account, double communication_us) {
  const double whole = account.compute_us + communication_us;
  return whole > 0 && account.trusted() ? TableValue(format_percent(communication_us / whole)) : TableValue();
}

// A table of accounts; the columns of a cell follow those that name it.
PageTable account_table(std::string caption, const std::vector<const StudyCell*>& cells,
                        const std::vector<TableColumn>& columns,
                        std::vector<TableValue> (*values)(const StepAccount& account)) {
  PageTable table;
  table.caption = std::move(caption);
  table.in_text = false;
  table.table.columns = {{"global_batch", "Global batch"}, {"devices", "Devices"}, {"configuration", "Configuration"}};
  table.table.columns.insert(table.table.columns.end(), columns.begin(), columns.end());
  table.table.columns.push_back({"num_runs", "n (runs)"});
  for (const StudyCell* cell : cells) {
    std::vector<TableValue> row{cell->key.global_batch, cell->key.devices, configuration_text(cell->key)};
    for (TableValue& value : values(*cell->account)) row.push_back(std::move(value));
    row.emplace_back(cell->account->n);
    table.table.rows.push_back(std::move(row));
  }
  return table;
}

TableValue value_if(bool known, TableValue value) { return known ? std::move(value) : TableValue(); }

// The data of the account chart, with the measured step.
PageTable parts_table(const std::vector<const StudyCell*>& cells) {
  return account_table(
      "Step account in us, at the step time of the cell; ratio is accounted / measured step. Compute, exposed "
      "communication, "
      "waiting, launch gaps, input and optimizer add up to the accounted step; unexplained is the measured step less "
      "the parts",
      cells,
      {{"measured_us", "Measured step"},
       {"step_us", "Accounted step"},
       {"ratio", "Ratio"},
       {"forward_us", "Forward"},
       {"backward_us", "Backward"},
       {"compute_us", "Compute"},
       {"exposed_us", "Exposed communication"},
       {"waiting_us", "Waiting"},
       {"launch_us", "Launch gaps"},
       {"input_us", "Input"},
       {"optimizer_us", "Optimizer"},
       {"unexplained_us", "Unexplained"},
       {"unexplained_percent", "Unexplained (%)"}},
      [](const StepAccount& a) -> std::vector<TableValue> {
        const bool explained = std::abs(a.unaccounted_us()) < 1e-6 * a.step_us;  // but for rounding
        const double unexplained = explained ? 0 : a.unaccounted_us();
        return {value_if(a.measured_us > 0, a.measured_us),
                a.step_us,
                account_ratio_text(a),
                a.forward_us,
                a.backward_us,
                a.compute_us,
                a.exposed_communication_us,
                a.waiting_us,
                a.launch_gaps_us,
                a.input_us,
                a.optimizer_us,
                unexplained,
                value_if(a.trusted(), 100 * unexplained / a.measured_us)};
      });
}

PageTable beside_table(const std::vector<const StudyCell*>& cells) {
  return account_table(
      "Beside the account: noise is that of the accounted step in one run, in us; the communication ratios are "
      "communication / (compute + communication)",
      cells,
      {{"noise_us", "Noise"},
       {"floor_us", "Launch floor (us)"},
       {"kernels", "Kernels"},
       {"total_us", "Total communication (us)"},
       {"exposed_ratio", "Communication ratio, exposed"},
       {"total_ratio", "Communication ratio, total"},
       {"sent", "Sent per step"}},
      [](const StepAccount& a) -> std::vector<TableValue> {
        return {value_if(a.method == AccountMethod::differences, a.noise_us),
                value_if(a.launch_kernels > 0, a.launch_floor_us),
                value_if(a.launch_kernels > 0, a.launch_kernels),
                a.total_communication_us,
                communication_ratio(a, a.exposed_communication_us),
                communication_ratio(a, a.total_communication_us),
                format_bytes(a.comm_bytes)};
      });
}

void add_account(const StudySummary& summary, const StudyGroup& group, PageSection& section) {
  std::vector<const StudyCell*> cells;
  for (const StudyCell& cell : summary.cells)
    if (group_of(cell.key) == group && cell.account) cells.push_back(&cell);
  if (cells.empty()) return;
  section.details = account_remarks(cells);
  section.tables.push_back(parts_table(cells));
  section.tables.push_back(beside_table(cells));
}

/// The averages in a table, or why there are none.
void add_averages(const StudySummary& summary, const StudyGroup& group, PageSection& section) {
  if (PageTable averages = average_table(summary, group); !averages.table.rows.empty())
    section.tables.push_back(std::move(averages));
  else
    section.paragraphs.emplace_back(summary.one_device
                                        ? "All cells are of one device."
                                        : "No cell on several devices has a one-device baseline of the same batch.");
}

// Step times of every cell with a result, in record order.
std::vector<CellSamples> samples_of(const StudySummary& summary, const std::vector<Record>& records) {
  std::map<CellKey, std::vector<double>> times;
  for (const Record& record : records)
    if (record.kind == "study-run" && record.status.kind == Status::Kind::ok)
      if (const auto time = record.value("step_time")) times[cell_key_of(record)].push_back(*time);
  std::vector<CellSamples> samples;
  for (const StudyCell& cell : summary.cells) {
    const auto found = times.find(cell.key);
    if (found == times.end()) continue;
    CellSamples one{cell.key, cell.origin, cell.step_time_us.median, found->second, {}};
    for (const double z : modified_z(one.step_time_us)) one.outlier.push_back(std::abs(z) > kOutlierModifiedZ);
    samples.push_back(std::move(one));
  }
  return samples;
}

PageSection group_section(const StudySummary& summary, const StudyGroup& group,
                          const std::vector<CellSamples>& samples) {
  PageSection section;
  section.anchor = "scaling-" + group_slug(group);
  section.title = group_title(group, groups_of(summary));
  section.in_text = !summary.one_device;
  section.paragraphs.push_back(group_text(group) + ".");
  for (std::string& line : break_even_lines(summary, group)) section.paragraphs.push_back(std::move(line));
  for (Chart& chart : plan_charts(summary, group)) section.charts.push_back(std::move(chart));
  add_chart(section, speedup_chart(summary, group));
  add_chart(section, efficiency_chart(summary, group));
  add_chart(section, throughput_chart(summary, group));
  add_chart(section, samples_chart(summary, group, samples));
  add_chart(section, account_chart(summary, group));
  if (PageTable table = comparison_table(summary, group); !table.table.rows.empty())
    section.tables.push_back(std::move(table));
  add_averages(summary, group, section);
  section.tables.push_back(cell_table(summary, group));
  section.tables.push_back(spread_table(summary, group));
  add_account(summary, group, section);
  return section;
}

/// What the whole study found, one statement a line.
PageSection findings_section(const StudySummary& summary) {
  PageSection section{"findings", "Findings", {}, {}, {}};
  if (summary.conclusion != study_verdict(summary)) section.paragraphs.push_back(summary.conclusion);
  for (const StudyCell& cell : summary.cells)
    if (cell.bubble_measured && cell.bubble_simulated)
      section.paragraphs.push_back(fmt::format(
          "Pipeline bubble, {} at batch {}: {:.1f} % measured, {:.1f} % simulated with the measured times of its "
          "stages{}.",
          cell.key.strategy, with_thousands(cell.key.global_batch), 100 * *cell.bubble_measured,
          100 * *cell.bubble_simulated,
          cell.bubble_simulated_messages && cell.pp_message_us
              ? fmt::format(", {:.1f} % with messages of {:.1f} us as well", 100 * *cell.bubble_simulated_messages,
                            *cell.pp_message_us)
              : ""));
  if (std::string target = communication_target_line(summary); !target.empty())
    section.paragraphs.push_back(std::move(target));
  for (std::string& sentence : model_rate_sentences(summary)) section.paragraphs.push_back(std::move(sentence));
  int64_t outliers = 0;
  for (const StudyCell& cell : summary.cells) outliers += cell.step_time_us.num_outliers;
  if (outliers > 0)
    section.paragraphs.push_back(
        fmt::format("{} step-time sample{} flagged as outlier{} (modified z above 3.5), none dropped.", outliers,
                    outliers == 1 ? "" : "s", outliers == 1 ? "" : "s"));
  return section;
}

PageSection missing_section(const StudySummary& summary) {
  PageSection section{"missing", "Cells without a result", {}, {}, {}};
  for (const StudyCell& cell : summary.cells)
    if (cell.status.kind != Status::Kind::ok)
      section.paragraphs.push_back(
          fmt::format("{}: {}: {}", cell.status.kind == Status::Kind::waived ? "waived" : "failed",
                      format_cell(cell.key), cell.status.reason.empty() ? "no reason recorded" : cell.status.reason));
  return section;
}

std::set<std::string> models_of(const StudySummary& summary) {
  std::set<std::string> models;
  for (const StudyCell& cell : summary.cells) models.insert(cell.key.model);
  return models;
}

std::string title_of(const StudySummary& summary) {
  std::set<std::string> hosts;
  for (const Provenance& p : summary.provenance)
    hosts.insert(device_names_of(p).empty() ? p.host : fmt::format("{} ({})", p.host, device_names_of(p)));
  const DeviceWords words = device_text(summary.device_kind);
  return fmt::format(
      "Training {} on {}: {}", fmt::join(models_of(summary), ", "),
      summary.one_device ? fmt::format("one {}", words.one) : fmt::format("one and on several {}", words.many),
      fmt::join(hosts, ", "));
}

}  // namespace

Page study_page(const StudySummary& summary, const std::vector<Record>& records) {
  Page page;
  page.subject = {"study", "studies", fmt::format("{}", fmt::join(models_of(summary), ", ")), page_devices(records)};
  page.title = title_of(summary);
  if (summary.device_kind == "cpu-virtual") page.qualifier = "measured on CPU virtual devices, not GPUs";
  page.warnings = summary.warnings;
  page.verdict = study_verdict(summary);
  page.facts = study_facts(summary);
  if (summary.one_device) add_section(page, one_device_section(summary));
  add_section(page, findings_section(summary));
  PageSection map{"map", "Where several devices are faster", {}, crossover_maps(summary), {}};
  map.in_text = false;
  if (!map.charts.empty())
    map.paragraphs = {"Each field is one model at one batch, against the fastest configuration on one device."};
  add_section(page, std::move(map));
  const std::vector<CellSamples> samples = samples_of(summary, records);
  for (const StudyGroup& group : groups_of(summary)) add_section(page, group_section(summary, group, samples));
  if (PageSection methods = methods_section(summary); !methods.tables.empty()) add_section(page, std::move(methods));
  if (PageSection serial = serial_section(summary); !serial.tables.empty()) add_section(page, std::move(serial));
  add_section(page, missing_section(summary));
  PageSection method{"method", "How it was measured", study_method(summary), {}, {}};
  method.in_text = false;
  add_section(page, std::move(method));
  page.provenance = page_provenance(summary.provenance);
  page.notes = summary.notes;
  return page;
}

}  // namespace amdahl
