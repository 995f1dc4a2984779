#include "chart/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "amdahl/error.h"
#include "chart/spec_parts.h"

namespace amdahl {
namespace {

using nlohmann::json;

// Drawn kinds in legend order. The host's row is left to trace viewers, because the host runs steps ahead.
constexpr std::pair<TraceKind, const char*> kDrawn[] = {{TraceKind::compute, "compute"},
                                                        {TraceKind::communication, "communication"},
                                                        {TraceKind::waiting, "waiting"},
                                                        {TraceKind::optimizer, "optimizer"},
                                                        {TraceKind::input, "input"}};

const char* word_of(TraceKind kind) {
  for (const auto& [drawn, word] : kDrawn)
    if (drawn == kind) return word;
  return nullptr;
}

bool works(TraceKind kind) {
  return kind == TraceKind::compute || kind == TraceKind::optimizer || kind == TraceKind::input;
}

using Piece = std::pair<double, double>;  // begin, end in us

// Sorts the pieces and merges those that touch.
std::vector<Piece> joined(std::vector<Piece> pieces) {
  std::sort(pieces.begin(), pieces.end());
  std::vector<Piece> apart;
  for (const Piece& piece : pieces) {
    if (!apart.empty() && piece.first <= apart.back().second)
      apart.back().second = std::max(apart.back().second, piece.second);
    else
      apart.push_back(piece);
  }
  return apart;
}

double length(const std::vector<Piece>& apart) {
  double sum = 0;
  for (const Piece& piece : apart) sum += piece.second - piece.first;
  return sum;
}

double common_length(const std::vector<Piece>& a, const std::vector<Piece>& b) {
  double sum = 0;
  for (const Piece& one : a)
    for (const Piece& other : b)
      sum += std::max(0.0, std::min(one.second, other.second) - std::max(one.first, other.first));
  return sum;
}

// Position of a stream within its rank, from the top.
int place_of(const std::string& stream) {
  constexpr std::string_view kOrder[] = {"compute", "weights", "comm"};
  return static_cast<int>(std::find(std::begin(kOrder), std::end(kOrder), stream) - std::begin(kOrder));
}

std::vector<const TraceEvent*> drawn_events(const StepTrace& trace, int64_t step) {
  std::vector<const TraceEvent*> events;
  for (const TraceEvent& event : trace.events)
    if (event.step == step && word_of(event.kind) != nullptr) events.push_back(&event);
  std::stable_sort(events.begin(), events.end(), [](const TraceEvent* a, const TraceEvent* b) {
    return std::make_tuple(a->rank, place_of(a->stream), a->start_us) <
           std::make_tuple(b->rank, place_of(b->stream), b->start_us);
  });
  return events;
}

DataTable table_of(const std::vector<const TraceEvent*>& events) {
  DataTable table;
  table.columns = {{"row", "Rank and stream"},  {"kind", "Kind"},       {"piece", "Piece"},
                   {"start_us", "Start (us)"},  {"end_us", "End (us)"}, {"duration_us", "Duration (us)"},
                   {"bytes", "Payload (bytes)"}};
  double zero = std::numeric_limits<double>::infinity();
  for (const TraceEvent* event : events) zero = std::min(zero, event->start_us);
  for (const TraceEvent* event : events) {
    const double start = event->start_us - zero;
    table.rows.push_back({fmt::format("rank {}, {}", event->rank, event->stream), std::string(word_of(event->kind)),
                          event->name, start, start + event->duration_us, event->duration_us,
                          event->bytes > 0 ? TableValue{event->bytes} : TableValue{}});
  }
  return table;
}

std::string spec_of(const DataTable& table, double span_us) {
  constexpr int kRowHeight = 26;
  constexpr int kWidth = 560;          // width of the plot, pixels
  constexpr double kLettersWide = 85;  // number of label letters that fit into that width
  std::set<std::string> rows, present;
  for (const auto& row : table.rows) {
    rows.insert(std::get<std::string>(row[0]));
    present.insert(std::get<std::string>(row[1]));
  }
  json kinds = json::array(), tips = json::array();
  for (const auto& [kind, word] : kDrawn)
    if (present.contains(word)) kinds.push_back(word);
  for (const TableColumn& column : table.columns) tips.push_back({{"field", column.name}, {"title", column.title}});
  const json y{{"field", "row"}, {"type", "nominal"}, {"sort", nullptr}, {"title", nullptr}};
  const json x{{"field", "start_us"},
               {"type", "quantitative"},
               {"title", "Time since the step began (us)"},
               {"axis", {{"tickCount", 8}}},
               {"scale", {{"domain", {0, span_us}}, {"nice", false}}}};
  const json color{{"field", "kind"},
                   {"type", "nominal"},
                   {"title", nullptr},
                   {"scale", step_part_scale()},
                   {"legend", {{"values", kinds}}}};
  // A label is shown only if its bar is wide enough.
  const std::string fits = fmt::format("datum.duration_us > length(datum.piece) * {:.6g}", span_us / kLettersWide);
  // Pale bars keep labels readable on every colour; waiting is nearly hollow, because it is not work.
  const json fill{{"condition", {{"test", "datum.kind === 'waiting'"}, {"value", 0.08}}}, {"value", 0.42}};
  const json bars{{"mark", {{"type", "bar"}, {"height", {{"band", 0.78}}}, {"strokeWidth", 1}}},
                  {"encoding",
                   {{"x", x},
                    {"x2", {{"field", "end_us"}}},
                    {"y", y},
                    {"color", color},
                    {"stroke", color},
                    {"fillOpacity", fill},
                    {"tooltip", tips}}}};
  const json labels{
      {"transform", {{{"filter", fits}}, {{"calculate", "(datum.start_us + datum.end_us) / 2"}, {"as", "middle_us"}}}},
      {"mark", {{"type", "text"}, {"style", "mark-label"}, {"fontSize", 10}, {"tooltip", nullptr}}},
      {"encoding",
       {{"x", {{"field", "middle_us"}, {"type", "quantitative"}}},
        {"y", y},
        {"text", {{"field", "piece"}, {"type", "nominal"}}}}}};
  return json{{"data", {{"name", "table"}}},
              {"width", kWidth},
              {"height", static_cast<int>(rows.size()) * kRowHeight},
              {"layer", {bars, labels}}}
      .dump();
}

std::string summary_of(const StepTrace& trace, int64_t step) {
  const StepOverlap overlap = step_overlap(trace, step);
  std::string text =
      fmt::format("Step {} of {} at global batch {} on {} device{} took {:.0f} us on its slowest rank.", step,
                  trace.strategy, trace.global_batch, trace.devices, trace.devices == 1 ? "" : "s", overlap.step_us);
  const double communication = overlap.hidden_us + overlap.exposed_us;
  if (communication <= 0) return text + " No rank communicated.";
  return text + fmt::format(
                    " A rank communicated for {:.0f} us ({} bucket{}, {}): {:.0f} us ({:.0f} %) hidden behind its own "
                    "compute, {:.0f} us ({:.0f} %) exposed.",
                    communication, overlap.num_buckets, overlap.num_buckets == 1 ? "" : "s",
                    format_bytes(static_cast<double>(overlap.bytes)), overlap.hidden_us,
                    100 * overlap.hidden_us / communication, overlap.exposed_us,
                    100 * overlap.exposed_us / communication);
}

}  // namespace

StepOverlap step_overlap(const StepTrace& trace, int64_t step) {
  struct Rank {
    std::vector<Piece> work, communication;
    int64_t bytes = 0, num_buckets = 0;
  };
  std::map<int, Rank> ranks;
  for (const TraceEvent* event : drawn_events(trace, step)) {
    Rank& rank = ranks[event->rank];
    const Piece piece{event->start_us, event->start_us + event->duration_us};
    if (works(event->kind)) rank.work.push_back(piece);
    if (event->kind != TraceKind::communication) continue;
    rank.communication.push_back(piece);
    rank.bytes += event->bytes;
    ++rank.num_buckets;
  }
  StepOverlap overlap;
  for (const TraceEvent& event : trace.events)
    if (event.step == step && event.kind == TraceKind::step)
      overlap.step_us = std::max(overlap.step_us, event.duration_us);
  const double share = ranks.empty() ? 0 : 1.0 / static_cast<double>(ranks.size());
  for (auto& [number, rank] : ranks) {
    const std::vector<Piece> communication = joined(rank.communication);
    const double hidden = common_length(communication, joined(rank.work));
    overlap.hidden_us += share * hidden;
    overlap.exposed_us += share * (length(communication) - hidden);
    overlap.bytes = std::max(overlap.bytes, rank.bytes);
    overlap.num_buckets = std::max(overlap.num_buckets, rank.num_buckets);
  }
  return overlap;
}

std::optional<Chart> timeline_chart(const StepTrace& trace) {
  const int64_t step = trace.end_step - 1;
  const std::vector<const TraceEvent*> events = drawn_events(trace, step);
  if (events.empty()) return std::nullopt;
  Chart chart;
  chart.id = "timeline";
  chart.title = fmt::format("Timeline of step {} (us)", step);
  chart.table = table_of(events);
  double span_us = 0;
  for (const auto& row : chart.table.rows) span_us = std::max(span_us, std::get<double>(row[4]));
  chart.summary = summary_of(trace, step);
  chart.spec = spec_of(chart.table, span_us);
  return chart;
}

}  // namespace amdahl
