// Reads measured iterations, and prints what `validate_planner` found.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "amdahl/planner.h"
#include "planner/validate.h"

namespace amdahl {
namespace {

struct Column {
  std::string_view name;
  int64_t MeasuredIteration::*member;  // null: iteration_ms
  bool needed = true;
};
constexpr Column kColumns[] = {{"gpus", &MeasuredIteration::gpus},
                               {"global_batch", &MeasuredIteration::global_batch},
                               {"micro_batch", &MeasuredIteration::micro_batch},
                               {"hidden", &MeasuredIteration::hidden},
                               {"heads", &MeasuredIteration::heads},
                               {"layers", &MeasuredIteration::layers},
                               {"sequence", &MeasuredIteration::sequence},
                               {"tp", &MeasuredIteration::tp},
                               {"dp", &MeasuredIteration::dp},
                               {"pp", &MeasuredIteration::pp},
                               {"iteration_ms", nullptr},
                               {"node_gpus", &MeasuredIteration::node_gpus, false},
                               {"recompute", &MeasuredIteration::recompute, false}};

std::vector<std::string_view> cells_of(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  std::vector<std::string_view> cells;
  for (size_t start = 0; start <= line.size();) {
    const size_t end = std::min(line.find(',', start), line.size());
    cells.push_back(line.substr(start, end - start));
    start = end + 1;
  }
  return cells;
}

[[noreturn]] void refuse(const std::string& name, size_t line, const std::string& what) {
  throw Error(Cause::data_corrupt, fmt::format("{}:{}: {}", name, line, what),
              "columns gpus,global_batch,micro_batch,hidden,heads,layers,sequence,tp,dp,pp,iteration_ms, and if known "
              "node_gpus,recompute");
}

template <typename Number>
bool parse(std::string_view text, Number& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::string line_of(const ErrorSummary& s) {
  return fmt::format("  {:<32} {:>5}  {:>6.2f} %  {:>6.2f} %  {:>6.1f} %  {:>+6.2f} %\n", s.name, s.rows, 100 * s.mean,
                     100 * s.p95, 100 * s.worst, 100 * s.bias);
}

}  // namespace

std::vector<MeasuredIteration> parse_iterations(std::string_view text, const std::string& name) {
  std::vector<const Column*> columns;
  std::vector<MeasuredIteration> rows;
  size_t number = 0;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::vector<std::string_view> cells = cells_of(text.substr(start, end - start));
    start = end + 1, ++number;
    if (cells.size() == 1 && cells[0].empty()) continue;
    if (columns.empty()) {
      for (const std::string_view cell : cells) {
        const Column* found = nullptr;
        for (const Column& column : kColumns)
          if (column.name == cell) found = &column;
        if (!found) refuse(name, number, fmt::format("unknown column '{}'", cell));
        columns.push_back(found);
      }
      for (const Column& column : kColumns)
        if (const auto held = std::count(columns.begin(), columns.end(), &column); held > 1 || held < column.needed)
          refuse(name, number, fmt::format("{} columns '{}'", held, column.name));
      continue;
    }
    if (cells.size() != columns.size())
      refuse(name, number, fmt::format("{} cells of {}", cells.size(), columns.size()));
    MeasuredIteration row;
    for (size_t i = 0; i < cells.size(); ++i) {
      int64_t value = 0;
      const bool ok = columns[i]->member ? parse(cells[i], value) && value >= columns[i]->needed
                                         : parse(cells[i], row.iteration_ms) && row.iteration_ms > 0 &&
                                               std::isfinite(row.iteration_ms);
      if (!ok) refuse(name, number, fmt::format("'{}' in column {}", cells[i], columns[i]->name));
      if (columns[i]->member) row.*columns[i]->member = value;
    }
    if (row.tp * row.dp * row.pp != row.gpus)
      refuse(name, number, fmt::format("tp {} x dp {} x pp {} is not {} GPUs", row.tp, row.dp, row.pp, row.gpus));
    if (row.global_batch % (row.dp * row.micro_batch) != 0)
      refuse(name, number,
             fmt::format("global batch {} is not a multiple of dp {} x micro-batch {}", row.global_batch, row.dp,
                         row.micro_batch));
    rows.push_back(row);
  }
  if (rows.empty()) refuse(name, number, "no rows");
  return rows;
}

std::string to_text(const PlanValidation& v) {
  std::string text = fmt::format("{} measured iterations, {} fitted constants\n{}\n", v.rows, v.fitted_constants,
                                 v.recompute.empty() ? "" : v.recompute + "\n");
  text += fmt::format("  {:<32} {:>5}  {:>8}  {:>8}  {:>8}  {:>8}\n", "|predicted / measured - 1|", "rows", "mean",
                      "p95", "worst", "bias");
  for (const ErrorSummary& one : v.baselines) text += line_of(one);
  text += line_of(v.in_sample) + line_of(v.left_out_layout);
  text += "each left out\n";
  for (const ErrorSummary& one : v.layouts) text += line_of(one);
  for (const ErrorSummary& one : v.sizes) text += line_of(one);
  text += fmt::format(
      "\nrank correlation of the layouts of a shape: {:.3f} (equal rows per replica), {:.3f} (equal global batch), "
      "worst "
      "{:.2f}\n",
      v.rank_by_replica_batch, v.rank_by_global_batch, v.rank_worst);
  text += fmt::format("95 % interval: {:.1f} % of the left-out rows inside, factor {:.2f}\n", 100 * v.coverage,
                      v.calibration.interval_factor);
  text +=
      fmt::format("bound of the pipeline and its simulation differ by at most {:.2f} %\n", 100 * v.bound_to_simulation);
  if (v.also.rows > 0)
    text += "\nrows of a further file, in no fit\n" + line_of(v.also) +
            fmt::format("  {:.1f} % inside the 95 % interval\n", 100 * v.also_coverage);
  text += "\nconstants\n";
  for (const CalibrationConstant& c : v.calibration.constants)
    text += fmt::format("  {:<22} {:>10.4g} {:<8} {}\n", c.name, c.value, c.unit, to_string(c.origin));
  return text;
}

}  // namespace amdahl
