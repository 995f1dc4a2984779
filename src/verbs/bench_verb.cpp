// Commands of the user, run in turns and compared.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <set>
#include <sstream>

#include "amdahl/bench.h"
#include "base/child_process.h"
#include "report/common/words.h"
#include "report/compare/bench.h"
#include "report/export/export.h"
#include "report/page/markdown_page.h"
#include "report/page/text_page.h"
#include "setup/provenance.h"
#include "spec/json.h"
#include "spec/run_folder.h"

namespace amdahl {
namespace {

constexpr int64_t kLeastRounds = 10, kMostRounds = 1000;
constexpr double kLeastSeconds = 3;  // of each command, without `runs`
constexpr std::string_view kShellCharacters = "|&;<>()$`\\\"'*?[]#~=%{}!\n";

std::string found_program(const std::string& word, const std::map<std::string, std::string>& environment) {
  std::string file = program_file(word, environment);
  if (!file.empty()) return file;
  throw Error(Cause::usage, fmt::format("program '{}' is not in PATH", printable(word, 60)), "a path, or another name");
}

ChildCommand child_command(const std::string& text, const std::map<std::string, std::string>& environment) {
  ChildCommand command{
      .program = "/bin/sh", .arguments = {"-c", text}, .environment = environment, .keeps_output = false};
  if (text.find_first_of(kShellCharacters) != std::string::npos) return command;
  std::istringstream words(text);
  command.arguments.clear();
  for (std::string word; words >> word;) command.arguments.push_back(word);
  if (command.arguments.empty()) throw Error(Cause::usage, "a command is empty", "a program and its arguments");
  command.program = found_program(command.arguments.front(), environment);
  command.arguments.erase(command.arguments.begin());
  return command;
}

void check(const BenchConfig& config) {
  if (config.commands.empty()) throw Error(Cause::usage, "no command is given", "amdahl bench 'COMMAND A' 'COMMAND B'");
  if (!config.names.empty() && config.names.size() != config.commands.size())
    throw Error(Cause::usage, fmt::format("{} names for {} commands", config.names.size(), config.commands.size()),
                "one for each");
  std::set<std::string> names;
  for (const std::string& name : config.names.empty() ? config.commands : config.names)
    if (!names.insert(name).second)
      throw Error(Cause::usage, fmt::format("'{}' is given twice", printable(name, 60)),
                  "`names`, one for each command, to compare a command with itself");
  if (config.runs < 0 || config.warmup < 0)
    throw Error(Cause::usage, fmt::format("`runs` is {} and `warmup` {}", config.runs, config.warmup), "0 or more");
  const std::optional<double> limit = config.fail_on_regression_percent;
  if (limit && !(*limit >= 0 && *limit <= 100))
    throw Error(Cause::usage, fmt::format("`fail_on_regression_percent` is {}", *limit), "a percentage from 0 to 100");
  if (!(config.timeout_seconds > 0))
    throw Error(Cause::usage, fmt::format("`timeout` is {} s", config.timeout_seconds), "a positive number");
}

class Bench {
 public:
  Bench(const BenchConfig& config, Observer& observer) : config_(config), observer_(observer), random_(config.seed) {
    for (const std::string& text : config.commands) commands_.push_back(child_command(text, config.environment));
    if (!config.prepare.empty()) prepare_ = child_command(config.prepare, config.environment);
    EngineConfig engine;
    engine.command_line = config.command_line, engine.seed = config.seed, engine.environment = config.environment;
    provenance_ = make_provenance(engine, "host", {});
    for (size_t i = 0; i < commands_.size(); ++i)
      if (name(i) != config.commands[i]) provenance_.facts["command." + name(i)] = config.commands[i];
    if (!config.output_dir.empty()) folder_ = RunFolder::create(config.output_dir, {"bench", {}});
  }

  BenchOutcome run() {
    double slowest_us = 0;
    int64_t done = 0;
    for (int64_t round = 0; round < config_.warmup; ++round)
      for (const size_t i : order()) slowest_us = std::max(slowest_us, run_once(i, "warm-up", done, 0).wall_us);
    int64_t rounds = config_.runs;
    for (int64_t round = 0; round < std::max<int64_t>(rounds, 1); ++round) {
      for (const size_t i : order()) {
        const ChildResult result = run_once(i, fmt::format("round {}", round + 1), done, rounds);
        slowest_us = std::max(slowest_us, result.wall_us);
        keep(i, round, result);
        ++done;
      }
      if (rounds == 0)
        rounds = std::clamp<int64_t>(std::llround(std::ceil(kLeastSeconds * 1e6 / std::max(slowest_us, 1.0))),
                                     kLeastRounds, kMostRounds);
    }
    if (folder_) folder_->end();
    BenchOutcome outcome{std::move(records_), {}, false};
    outcome.commands = bench_commands(outcome.records, config_.names.empty() ? config_.commands : config_.names);
    for (const BenchedCommand& command : outcome.commands)
      if (config_.fail_on_regression_percent && command.against_first && is_regression(*command.against_first))
        outcome.regression = true;
    return outcome;
  }

 private:
  const std::string& name(size_t i) const { return config_.names.empty() ? config_.commands[i] : config_.names[i]; }

  std::vector<size_t> order() {
    std::vector<size_t> all(commands_.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    std::shuffle(all.begin(), all.end(), random_);
    return all;
  }

  bool is_regression(const PairTest& against_first) const {
    return against_first.verdict == Verdict::slower && against_first.ci &&
           1 / against_first.ci->high > 1 + *config_.fail_on_regression_percent / 100;
  }

  ChildResult run_child(const ChildCommand& command, const std::string& what) {
    ChildResult result = run_children({command}, Deadline::after_seconds(config_.timeout_seconds), [&] {
                           return observer_.cancelled();
                         }).front();
    if (observer_.cancelled())
      throw Error(Cause::interrupted, fmt::format("stopped by the user after {} runs", records_.size()),
                  folder_ ? fmt::format("amdahl report {} for those", folder_->path().string()) : "fewer runs");
    if (result.end == ChildResult::End::late)
      throw Error(Cause::rank_hung, fmt::format("{} takes more than {:g} s", what, config_.timeout_seconds),
                  "a longer `timeout`");
    if (result.end == ChildResult::End::signalled || (result.code != 0 && !config_.ignore_failure)) {
      throw Error(
          Cause::check_failed,
          fmt::format("{} ended {} {}: {}", what, result.end == ChildResult::End::signalled ? "by signal" : "with code",
                      result.code, last_line(result.err)),
          "a command that works by itself, or `ignore_failure`");
    }
    return result;
  }

  ChildResult run_once(size_t i, const std::string& round, int64_t done, int64_t rounds) {
    if (prepare_) run_child(*prepare_, "the preparing command");
    observer_.progress(static_cast<int>(done), static_cast<int>(rounds * std::ssize(commands_)),
                       fmt::format("{}, {}", round, printable(name(i), 40)));
    const std::string what = fmt::format("'{}', {},", printable(name(i), 60), round);
    return run_child(commands_[i], what);
  }

  void keep(size_t i, int64_t round, const ChildResult& result) {
    Record record;
    record.kind = kBenchRecord, record.axes = {{kCommandAxis, name(i)}, {kProcessAxis, round}};
    record.series = {{"time", "us", {result.wall_us}},
                     {"user_time", "us", {result.user_us}},
                     {"system_time", "us", {result.system_us}},
                     {"peak_memory", "bytes", {static_cast<double>(result.peak_bytes)}},
                     {"exit_code", "1", {static_cast<double>(result.code)}},
                     {"place", "1", {static_cast<double>(i)}}};
    record.provenance = provenance_;
    if (folder_) folder_->append(record);
    records_.push_back(std::move(record));
  }

  const BenchConfig& config_;
  Observer& observer_;
  std::mt19937_64 random_;
  std::vector<ChildCommand> commands_;
  std::optional<ChildCommand> prepare_;
  Provenance provenance_;
  std::optional<RunFolder> folder_;
  std::vector<Record> records_;
};

}  // namespace

BenchOutcome run_bench(const BenchConfig& config, Observer& observer) {
  check(config);
  return Bench(config, observer).run();
}

std::string to_text(const BenchOutcome& outcome, int width) { return text_page(bench_page(outcome.records), {width}); }
std::string to_markdown(const BenchOutcome& outcome) { return markdown_page(bench_page(outcome.records)); }
std::string to_csv(const BenchOutcome& outcome) { return records_csv(outcome.records); }
std::string to_json(const BenchOutcome& outcome) { return bench_to_json(outcome, bench_verdict(outcome.commands)); }

}  // namespace amdahl
