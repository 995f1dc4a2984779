// Sentences and tables of a study on one device.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "amdahl/error.h"
#include "report/common/words.h"
#include "report/page/page_parts.h"
#include "report/study/method.h"
#include "report/study/one_device.h"

namespace amdahl {
namespace {

constexpr double kNearlyFastest = 0.95;  // share of the highest throughput at which a batch is large enough

const StudyCell& cell_of(const StudySummary& summary, const CellKey& key) {
  return *std::find_if(summary.cells.begin(), summary.cells.end(),
                       [&](const StudyCell& cell) { return cell.key == key; });
}

std::string method_text(const CellKey& key) { return fmt::format("{}, {}", key.launch, key.math); }

// Name of a device within a sentence; for virtual devices the surrounding report names the kind.
std::string_view short_name(const StudySummary& summary) {
  return summary.device_kind == "cuda" ? "GPU" : "virtual device";
}

bool several_models(const OneDeviceSummary& one) {
  return std::any_of(one.rows.begin(), one.rows.end(),
                     [&](const OneDeviceRow& row) { return row.cell.model != one.rows.front().cell.model; });
}

std::string batch_text(const OneDeviceSummary& one, const CellKey& key) {
  return several_models(one) ? fmt::format("{} ({})", with_thousands(key.global_batch), printable(key.model))
                             : with_thousands(key.global_batch);
}

// "16, 64 and 256"
std::string list_text(const std::vector<std::string>& items) {
  if (items.size() < 2) return items.empty() ? "" : items.front();
  return fmt::format("{} and {}", fmt::join(items.begin(), items.end() - 1, ", "), items.back());
}

// The batches at which a second device cannot pay, and the bound that is certain to leave the largest gain.
struct Bounds {
  std::vector<std::string> cannot_pay;
  const OneDeviceRow* most = nullptr;
  size_t known = 0;
};

double certain(const SpeedupBound& bound) { return bound.ci ? bound.ci->low : 0; }

Bounds bounds_of(const OneDeviceSummary& one) {
  Bounds bounds;
  for (const OneDeviceRow& row : one.rows) {
    if (!row.two_devices) continue;
    ++bounds.known;
    if (row.two_devices->cannot_pay) bounds.cannot_pay.push_back(batch_text(one, row.cell));
    if (!bounds.most || certain(*row.two_devices) > certain(*bounds.most->two_devices)) bounds.most = &row;
  }
  return bounds;
}

// Whether the bound exceeds 2.00 in two decimals: one step of the whole batch then takes longer than two of half of it.
bool is_above_two(const SpeedupBound& bound) { return bound.ratio >= 2.005; }

// The configurations that the bound compares, the fastest of B and of B/2: "graph, tf32".
std::string bound_method(const SpeedupBound& bound) {
  const std::string whole = method_text(bound.whole), half = method_text(bound.half);
  return whole == half ? whole : fmt::format("{} / {}", whole, half);
}

// The meaning of a bound above 2, and how one device could be used better.
std::string above_two_sentence(const StudySummary& summary, const OneDeviceRow& row) {
  const SpeedupBound& bound = *row.two_devices;
  const std::string whole = with_thousands(bound.whole.global_batch), half = with_thousands(bound.half.global_batch);
  const double whole_us = cell_of(summary, bound.whole).step_time_us.estimate().value;
  return fmt::format(
      "global batch {}: T1({}) / T1({}) = {} is above 2{}: the step of one {} is less efficient per row at {} than at "
      "{} ({}), as when a library chooses other kernels. One {} with {} as two accumulated halves ({}) "
      "takes at most about 2 x T1({}) = {} us instead of {} us, and the bound against that is 2.00 (modelled)",
      batch_text(*summary.one_device, row.cell), whole, half, format_speedup(bound.ratio, bound.ci),
      bound.ci && bound.ci->low <= 2 ? ", which may be noise (its interval includes 2)" : "", short_name(summary),
      whole, half, bound_method(bound), short_name(summary), whole,
      named_reference({{"accumulate", std::to_string(2 * bound.whole.plan.accumulate)}}), half,
      format_number(whole_us * 2 / bound.ratio), format_number(whole_us));
}

std::string bound_sentence(const StudySummary& summary, const OneDeviceSummary& one) {
  const Bounds bounds = bounds_of(one);
  if (bounds.known == 0) return {};
  const std::string_view device = short_name(summary);
  const SpeedupBound& most = *bounds.most->two_devices;
  if (bounds.cannot_pay.size() == bounds.known)
    return fmt::format(" A second {} cannot pay at any batch measured, whatever the link (modelled: at most {}).",
                       device, format_speedup(most.ratio, most.ci));
  const std::string at_most = fmt::format(
      "at most {} as fast at global batch {} (modelled, of {}, without communication{})",
      format_speedup(most.ratio, most.ci), batch_text(one, bounds.most->cell), bound_method(most),
      is_above_two(most) ? fmt::format("; above 2: one {} would do better with two accumulated halves", device) : "");
  if (bounds.cannot_pay.empty()) return fmt::format(" With a second {}: {}.", device, at_most);
  return fmt::format(" A second {} cannot pay at global batch {}, whatever the link; with one, {}.", device,
                     list_text(bounds.cannot_pay), at_most);
}

// The cell with the shortest step of the same work and batch, in any launch and math mode.
const StudyCell& fastest_of(const StudySummary& summary, const CellKey& key) {
  const StudyCell* best = &cell_of(summary, key);
  for (const StudyCell& cell : summary.cells) {
    CellKey same = cell.key;
    same.launch = key.launch, same.math = key.math;
    if (same == key && cell.step_time_us.n > 0 &&
        cell.step_time_us.estimate().value < best->step_time_us.estimate().value)
      best = &cell;
  }
  return *best;
}

PageTable batch_page_table(const StudySummary& summary, const OneDeviceSummary& one, bool fastest) {
  PageTable table;
  table.caption =
      fastest
          ? fmt::format("The fastest configuration of each batch on one {}, and the speedup that two can reach at most",
                        short_name(summary))
          : "Every batch in the configuration that was asked for";
  table.table.columns = {{"model", "Model"},
                         {"global_batch", "Global batch"},
                         {"configuration", "Configuration"},
                         {"throughput", "Throughput (samples/s)"},
                         {"step_time_us", "Step time (us)"},
                         {"step_low", "from"},
                         {"step_high", "to"},
                         {"num_runs", "n (runs)"},
                         {"utilisation_percent", "Utilisation (%)"},
                         {"memory", "Memory peak"},
                         {"launch_percent", "Launching (% of the step)"}};
  const bool has_share = add_share_column(summary, table.table);
  if (fastest)
    for (const TableColumn& column : {TableColumn{"bound", "Speedup of two, at most (modelled)"},
                                      {"bound_low", "from"},
                                      {"bound_high", "to"},
                                      {"bound_configuration", "Configuration of the bound, B / B/2"}})
      table.table.columns.push_back(column);
  for (const OneDeviceRow& row : one.rows) {
    const StudyCell& cell = fastest ? fastest_of(summary, row.cell) : cell_of(summary, row.cell);
    const Estimate step_us = cell.step_time_us.estimate();
    std::vector<TableValue> values{
        cell.key.model,
        cell.key.global_batch,
        method_text(cell.key),
        cell.throughput().value,
        step_us.value,
        end_of(step_us.ci, true),
        end_of(step_us.ci, false),
        cell.step_time_us.n,
        optional_value(cell.utilisation_percent),
        cell.memory_peak_bytes ? TableValue(format_bytes(*cell.memory_peak_bytes)) : TableValue(),
        optional_value(launch_share(cell), 100)};
    if (has_share) values.push_back(optional_value(cell.model_flop_share, 100));
    if (fastest) {
      const auto& bound = row.two_devices;
      const std::optional<Interval> ci = bound ? bound->ci : std::nullopt;
      values.push_back(bound ? TableValue(bound->ratio) : TableValue());
      values.push_back(end_of(ci, true)), values.push_back(end_of(ci, false));
      values.push_back(bound ? TableValue(bound_method(*bound)) : TableValue());
    }
    table.table.rows.push_back(std::move(values));
  }
  return table;
}

PageTable alternatives_page_table(const StudySummary& summary, const OneDeviceSummary& one) {
  PageTable table;
  table.caption = fmt::format(
      "What this {} still gives away: other launch and math modes of the same batch; a speed above 1 is what the "
      "second "
      "one gains",
      short_name(summary));
  table.table.columns = {{"model", "Model"},
                         {"global_batch", "Global batch"},
                         {"from", "Instead of"},
                         {"to", "Use"},
                         {"throughput", "Throughput (samples/s)"},
                         {"speed", "Speed (ratio)"},
                         {"low", "from"},
                         {"high", "to"},
                         {"num_runs", "n (runs)"},
                         {"verdict", "Verdict"}};
  for (const OneDeviceAlternative& a : one.alternatives)
    table.table.rows.push_back({a.to.model, a.to.global_batch, method_text(a.from), method_text(a.to),
                                cell_of(summary, a.to).throughput().value, a.test.ratio, end_of(a.test.ci, true),
                                end_of(a.test.ci, false), a.test.n_first, verdict_text(a.test)});
  return table;
}

}  // namespace

std::string one_device_headline(const StudySummary& summary) {
  const OneDeviceSummary& one = *summary.one_device;
  const StudyCell &best = cell_of(summary, one.fastest), &asked = cell_of(summary, one.fastest_as_asked);
  std::string text = fmt::format("One {}: up to {} samples/s, {} at global batch {} ({})", short_name(summary),
                                 format_number(best.throughput().value), printable(one.fastest.model),
                                 with_thousands(one.fastest.global_batch), method_text(one.fastest));
  if (method_text(one.fastest) != method_text(one.fastest_as_asked))
    text += fmt::format(", {:.2f}x the fastest configuration that was asked for ({})",
                        best.throughput().value / asked.throughput().value, method_text(one.fastest_as_asked));
  return text + "." + bound_sentence(summary, one);
}

std::vector<std::string> one_device_sentences(const StudySummary& summary) {
  const OneDeviceSummary& one = *summary.one_device;
  const std::string_view device = short_name(summary);
  std::vector<std::string> sentences;
  const StudyCell& most = cell_of(summary, one.fastest_as_asked);
  const OneDeviceRow* enough = nullptr;  // smallest batch with nearly the highest throughput
  for (const OneDeviceRow& row : one.rows)
    if (row.cell.model == one.fastest_as_asked.model &&
        cell_of(summary, row.cell).throughput().value >= kNearlyFastest * most.throughput().value &&
        (!enough || row.cell.global_batch < enough->cell.global_batch))
      enough = &row;
  sentences.push_back(fmt::format("best batch ({}): {} with {} samples/s; {} {}", method_text(one.fastest_as_asked),
                                  batch_text(one, one.fastest_as_asked), format_number(most.throughput().value),
                                  batch_text(one, enough->cell),
                                  enough->cell == one.fastest_as_asked ? "is also the smallest batch within 5 % of that"
                                                                       : "is the smallest batch within 5 % of that"));
  if (one.alternatives.empty())
    sentences.emplace_back(summary.device_kind == "cuda"
                               ? "other launch and math modes: not measured"
                               : "other launch and math modes: none, virtual devices have neither CUDA graphs nor tf32 "
                                 "and bf16");
  for (const OneDeviceRow& row : one.rows)
    if (row.two_devices && row.two_devices->cannot_pay)
      sentences.push_back(fmt::format(
          "global batch {}: a second {} cannot pay at this batch, whatever the link (speedup at most {}, modelled)",
          batch_text(one, row.cell), device, format_speedup(row.two_devices->ratio, row.two_devices->ci)));
  for (const OneDeviceRow& row : one.rows)
    if (row.two_devices && is_above_two(*row.two_devices)) sentences.push_back(above_two_sentence(summary, row));
  if (bounds_of(one).known > 0)
    sentences.push_back(
        fmt::format("modelled bound: T1(B) / T1(B/2) of the fastest configuration of each batch, which its column "
                    "names and which need not "
                    "be that of the row, as if two {}s had nothing to exchange{}",
                    device,
                    summary.device_kind == "cuda"
                        ? named("; amdahl report RUN `assume_devices=2,4` `link=nvlink4` adds what a link costs")
                        : ""));
  return sentences;
}

PageSection one_device_section(const StudySummary& summary) {
  const OneDeviceSummary& one = *summary.one_device;
  PageSection section;
  section.anchor = "one-device";
  section.title = fmt::format("One {}", device_text(summary.device_kind).one);
  section.paragraphs = one_device_sentences(summary);
  section.tables.push_back(batch_page_table(summary, one, true));
  if (one.alternatives.empty()) return section;
  section.tables.push_back(batch_page_table(summary, one, false));
  section.tables.push_back(alternatives_page_table(summary, one));
  return section;
}

}  // namespace amdahl
