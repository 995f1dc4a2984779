#include "report/study/page.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "amdahl/units.h"
#include "chart/study_account.h"
#include "chart/study_groups.h"
#include "chart/study_map.h"
#include "chart/study_samples.h"
#include "chart/study_scaling.h"
#include "chart/study_throughput.h"
#include "report/common/account_text.h"
#include "report/common/record_checks.h"
#include "report/common/words.h"
#include "report/page/page_parts.h"
#include "report/study/break_even.h"
#include "report/study/method.h"
#include "report/study/methods.h"
#include "report/study/model_rate.h"
#include "report/study/one_device.h"
#include "report/study/serial_fraction.h"
#include "report/study/summary.h"
#include "report/study/verdict.h"
#include "stats/summary.h"

namespace amdahl {
namespace {

TableValue bound(const std::optional<Interval>& ci, bool low) {
  if (!ci) return {};
  return low ? ci->low : ci->high;
}

PageTable comparison_table(const StudySummary& summary, const StudyGroup& group) {
  const ConfigurationNames names(summary, group);
  PageTable table;
  table.caption = "Several devices against one, 95 % intervals; " + verdict_legend();
  table.table.columns = {{"global_batch", "Global batch"},
                         {"devices", "Devices"},
                         {"configuration", "Configuration"},
                         {"speedup", "Speedup (ratio)"},
                         {"low", "from"},
                         {"high", "to"},
                         {"efficiency_percent", "Efficiency (%)"},
                         {"verdict", "Verdict"},
                         {"p_holm", "p (Holm)"},
                         {"num_runs", "n (runs)"},
                         {"num_runs_single", "n, one device"},
                         {"recommendation", "Recommendation"}};
  for (const StudyComparison& c : summary.comparisons) {
    if (group_of(c.multi) != group) continue;
    const std::string configuration = names.of(c.multi);
    table.table.rows.push_back(
        {c.multi.global_batch, c.multi.devices, configuration.empty() ? configuration_text(c.multi) : configuration,
         c.test.ratio, bound(c.test.ci, true), bound(c.test.ci, false), 100 * c.efficiency, verdict_text(c.test),
         format_p(c.test.p_holm), c.test.n_first, c.test.n_second, recommendation_text(c, summary.device_kind)});
  }
  fold_constant_columns(table, {"devices", "configuration", "num_runs", "num_runs_single"});
  return table;
}

PageTable cell_table(const StudySummary& summary, const StudyGroup& group) {
  PageTable table;
  table.caption = "Every cell: mean over runs with its 95 % interval; outliers are flagged, none is dropped";
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
                         {"memory", "Memory peak"}};
  for (const StudyCell& cell : summary.cells) {
    if (group_of(cell.key) != group || cell.throughput.n == 0) continue;
    const SampleSummary &rate = cell.throughput, &step = cell.step_time_us;
    table.table.rows.push_back({cell.key.global_batch, cell.key.devices, configuration_text(cell.key), rate.mean,
                                bound(rate.ci, true), bound(rate.ci, false), step.mean, bound(step.ci, true),
                                bound(step.ci, false), rate.n, step.num_outliers,
                                cell.memory_peak_bytes ? TableValue(memory_peak_text(cell)) : TableValue()});
  }
  fold_constant_columns(table, {"devices", "configuration", "num_runs", "num_outliers", "memory"});
  return table;
}

// The data of the account chart, with the measured step.
PageTable account_table(const std::vector<const StudyCell*>& cells) {
  PageTable table;
  table.caption = "Step account: means over runs in us; ratio is accounted / measured step";
  table.table.columns = {{"global_batch", "Global batch"},
                         {"devices", "Devices"},
                         {"configuration", "Configuration"},
                         {"measured_us", "Measured step"},
                         {"step_us", "Accounted step"},
                         {"ratio", "Ratio"},
                         {"compute_us", "Compute"},
                         {"exposed_us", "Exposed communication"},
                         {"waiting_us", "Waiting"},
                         {"launch_us", "Launch gaps"},
                         {"floor_us", "Launch floor"},
                         {"input_us", "Input"},
                         {"optimizer_us", "Optimizer"},
                         {"unexplained_us", "Unexplained"},
                         {"num_runs", "n (runs)"}};
  for (const StudyCell* cell : cells) {
    const StepAccount& a = *cell->account;
    table.table.rows.push_back({cell->key.global_batch, cell->key.devices, configuration_text(cell->key),
                                a.measured_us > 0 ? TableValue(a.measured_us) : TableValue(), a.step_us,
                                account_ratio_text(a), a.compute_us, a.exposed_communication_us, a.waiting_us,
                                a.launch_gaps_us, a.launch_kernels > 0 ? TableValue(a.launch_floor_us) : TableValue(),
                                a.input_us, a.optimizer_us, a.unaccounted_us(), a.n});
  }
  fold_constant_columns(
      table, {"devices", "configuration", "exposed_us", "waiting_us", "launch_us", "floor_us", "input_us", "num_runs"});
  return table;
}

void add_account(const StudySummary& summary, const StudyGroup& group, PageSection& section) {
  std::vector<const StudyCell*> cells;
  for (const StudyCell& cell : summary.cells)
    if (group_of(cell.key) == group && cell.account) cells.push_back(&cell);
  if (cells.empty()) return;
  for (std::string& remark : account_remarks(cells)) section.paragraphs.push_back(std::move(remark));
  section.tables.push_back(account_table(cells));
}

void add(std::vector<Chart>& charts, std::optional<Chart> chart) {
  if (chart) charts.push_back(std::move(*chart));
}

std::string group_sentence(const StudySummary& summary, const StudyGroup& group) {
  std::vector<std::string> parts;
  for (const AverageSpeedup& a : summary.averages) {
    if (a.model != group.model || a.scaling != group.scaling || a.math != group.math) continue;
    parts.push_back(fmt::format("{} {}, {}, {}: {} on average over {} batch{}, {}", a.devices,
                                device_text(summary.device_kind).many, a.strategy, a.launch,
                                format_speedup(a.geometric_mean, a.ci), a.num_batches, a.num_batches == 1 ? "" : "es",
                                average_text(a, summary.device_kind)));
  }
  if (parts.empty() && summary.one_device) return "All cells are of one device.";
  return parts.empty() ? std::string("No cell on several devices has a one-device baseline of the same batch.")
                       : fmt::format("{}.", fmt::join(parts, "; "));
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
  section.paragraphs.push_back(fmt::format("{}. {}", group_text(group), group_sentence(summary, group)));
  for (std::string& line : break_even_lines(summary, group)) section.paragraphs.push_back(std::move(line));
  add(section.charts, speedup_chart(summary, group));
  add(section.charts, efficiency_chart(summary, group));
  add(section.charts, throughput_chart(summary, group));
  add(section.charts, samples_chart(summary, group, samples));
  add(section.charts, account_chart(summary, group));
  if (PageTable table = comparison_table(summary, group); !table.table.rows.empty())
    section.tables.push_back(std::move(table));
  section.tables.push_back(cell_table(summary, group));
  add_account(summary, group, section);
  return section;
}

void add_missing_cells(const StudySummary& summary, Page& page) {
  PageSection section{"missing", "Cells without a result", {}, {}, {}};
  PageTable table;
  table.caption = "Failed or waived in every run";
  table.table.columns = {{"cell", "Cell"}, {"status", "Status"}, {"reason", "Reason"}};
  for (const StudyCell& cell : summary.cells)
    if (cell.status.kind != Status::Kind::ok)
      table.table.rows.push_back({format_cell(cell.key),
                                  std::string(cell.status.kind == Status::Kind::waived ? "waived" : "failed"),
                                  cell.status.reason.empty() ? "no reason recorded" : cell.status.reason});
  if (table.table.rows.empty()) return;
  section.tables.push_back(std::move(table));
  page.sections.push_back(std::move(section));
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
  page.verdict = study_verdict(summary);
  page.facts = study_facts(summary);
  if (std::vector<Chart> maps = crossover_maps(summary); !maps.empty())
    page.sections.push_back({"map",
                             "Where several devices are faster",
                             {"Each field is one model at one batch, against the fastest configuration on one device."},
                             std::move(maps),
                             {}});
  if (summary.one_device) page.sections.push_back(one_device_section(summary));
  const std::vector<CellSamples> samples = samples_of(summary, records);
  for (const StudyGroup& group : groups_of(summary)) page.sections.push_back(group_section(summary, group, samples));
  if (PageSection methods = methods_section(summary); !methods.tables.empty())
    page.sections.push_back(std::move(methods));
  if (PageSection serial = serial_section(summary); !serial.tables.empty()) page.sections.push_back(std::move(serial));
  add_missing_cells(summary, page);
  page.sections.push_back({"method", "How it was measured", study_method(summary), {}, {}});
  page.provenance = study_provenance(summary);
  page.notes = summary.notes;
  return page;
}

}  // namespace amdahl
