// Pipeline schedules as CSV text.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "amdahl/units.h"
#include "parallel/pipeline/schedule.h"

namespace amdahl {
namespace {

constexpr std::string_view kHeader = "rank,index,action,stage,micro_batch";
constexpr std::array<std::string_view, 5> kColumns{"rank", "index", "action", "stage", "micro_batch"};
constexpr std::array<ActionKind, 4> kActionKinds{ActionKind::forward, ActionKind::backward, ActionKind::backward_input,
                                                 ActionKind::backward_weight};

class Reader {
 public:
  Reader(std::string_view text, ScheduleKind kind) : rest_(text) {
    schedule_.kind = kind;
    most_lines_ = std::count(text.begin(), text.end(), '\n') + 1;
  }

  PipelineSchedule read() {
    std::string_view line;
    if (!next_line(line) || line != kHeader)
      fail(fmt::format("'{}' is not the header", printable(line, 60)), fmt::format("\"{}\"", kHeader));
    while (next_line(line)) read_action(line);
    if (schedule_.num_stages == 0) fail("there is no action behind the header", "one line per action");
    const auto empty = std::find_if(schedule_.actions.begin(), schedule_.actions.end(),
                                    [](const std::vector<Action>& actions) { return actions.empty(); });
    if (empty != schedule_.actions.end())
      fail(fmt::format("the text ends without an action of rank {}", empty - schedule_.actions.begin()),
           "ranks from 0 up without a gap");
    const auto unheld = std::find(schedule_.rank_of_stage.begin(), schedule_.rank_of_stage.end(), kNoRank);
    if (unheld != schedule_.rank_of_stage.end())
      fail(fmt::format("the text ends without an action of stage {}", unheld - schedule_.rank_of_stage.begin()),
           "stages from 0 up without a gap");
    return std::move(schedule_);
  }

 private:
  static constexpr int kNoRank = -1;

  [[noreturn]] void fail(const std::string& what, const std::string& remedy) const {
    throw Error(Cause::data_corrupt, fmt::format("pipeline schedule, line {}: {}", line_, what), remedy);
  }

  bool next_line(std::string_view& line) {
    if (rest_.empty()) {
      line_ = std::max<int64_t>(line_, 1);
      return false;
    }
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    line = rest_.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++line_;
    return true;
  }

  /// The numbers of a complete schedule are smaller than its number of lines; this bounds the memory allocated for
  /// them.
  int number(std::string_view field, size_t column) const {
    int value = -1;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc() || end != field.data() + field.size() || value < 0)
      fail(fmt::format("{} '{}' is not a number from 0 up", kColumns[column], printable(field, 40)),
           "whole numbers without signs, spaces or quotes");
    if (value >= most_lines_)
      fail(fmt::format("{} {} in a text of {} lines", kColumns[column], value, most_lines_),
           "numbers from 0 up without a gap");
    return value;
  }

  ActionKind action_kind(std::string_view field) const {
    std::vector<std::string> names;
    for (const ActionKind kind : kActionKinds) {
      if (to_string(kind) == field) return kind;
      names.emplace_back(to_string(kind));
    }
    fail(fmt::format("action '{}' is unknown", printable(field, 40)), choices_hint(field, names));
  }

  void read_action(std::string_view line) {
    std::array<std::string_view, kColumns.size()> fields;
    const auto commas = static_cast<size_t>(std::count(line.begin(), line.end(), ','));
    if (commas + 1 != fields.size())
      fail(fmt::format("{} fields, where there are {} columns", line.empty() ? 0 : commas + 1, fields.size()),
           fmt::format("lines as \"{}\" names them", kHeader));
    for (std::string_view& field : fields) {
      const size_t end = std::min(line.find(','), line.size());
      field = line.substr(0, end);
      line.remove_prefix(std::min(end + 1, line.size()));
    }
    const int rank = number(fields[0], 0), index = number(fields[1], 1);
    add(rank, index, {action_kind(fields[2]), number(fields[3], 3), number(fields[4], 4)});
  }

  void add(int rank, int index, const Action& action) {
    schedule_.num_ranks = std::max(schedule_.num_ranks, rank + 1);
    schedule_.num_stages = std::max(schedule_.num_stages, action.stage + 1);
    schedule_.num_micro_batches = std::max(schedule_.num_micro_batches, action.micro_batch + 1);
    schedule_.actions.resize(static_cast<size_t>(schedule_.num_ranks));
    schedule_.rank_of_stage.resize(static_cast<size_t>(schedule_.num_stages), kNoRank);

    std::vector<Action>& actions = schedule_.actions[static_cast<size_t>(rank)];
    if (static_cast<size_t>(index) != actions.size())
      fail(fmt::format("index {} of rank {}, where {} is next", index, rank, actions.size()),
           "each rank's actions in order, counted from 0");
    int& holder = schedule_.rank_of_stage[static_cast<size_t>(action.stage)];
    if (holder != kNoRank && holder != rank)
      fail(fmt::format("stage {} is on rank {}, but on rank {} before", action.stage, rank, holder),
           "one rank for each stage");
    holder = rank;
    actions.push_back(action);
  }

  std::string_view rest_;
  int64_t line_ = 0, most_lines_ = 0;
  PipelineSchedule schedule_;
};

}  // namespace

std::string schedule_to_csv(const PipelineSchedule& schedule) {
  std::string text(kHeader);
  text += '\n';
  for (size_t rank = 0; rank < schedule.actions.size(); ++rank)
    for (size_t index = 0; index < schedule.actions[rank].size(); ++index) {
      const Action& action = schedule.actions[rank][index];
      text += fmt::format("{},{},{},{},{}\n", rank, index, to_string(action.kind), action.stage, action.micro_batch);
    }
  return text;
}

PipelineSchedule schedule_from_csv(std::string_view text, ScheduleKind kind) { return Reader(text, kind).read(); }

}  // namespace amdahl
