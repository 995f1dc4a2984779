// Reports of runs: pages, tables for other programs, cost; and the verb that measures everything and reports it. Prices
// come from a file of the user: amdahl has no built-in prices, docs/cost.md has the formulas. Plain data; amounts are
// in the price table's currency.
//
// Example:
//   amdahl::PageConfig config;
//   config.runs = {"runs/study"};
//   config.html = "study.html";
//   amdahl::run_page_report(config);
//
// Example:
//   amdahl::CostConfig config;
//   config.runs = {"runs/study"};
//   config.prices = "prices.toml";
//   std::puts(to_text(amdahl::run_cost(config)).c_str());
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "amdahl/error.h"
#include "amdahl/machine.h"
#include "amdahl/record.h"
#include "amdahl/summary.h"

namespace amdahl {

/// Expands names to runs: a folder that is no run folder becomes the run folders and the runs in .jsonl and .jsonl.gz
/// files below it, at any depth, sorted by name; every other name stays. Error{usage} for a folder without runs.
AMDAHL_API std::vector<std::string> find_runs(const std::vector<std::string>& names);

/// A run's report.
struct ReportOutcome {
  StudySummary summary;  // of a study only
  std::string markdown;  // of a study or training only
  std::string text;
  std::string json;
  std::string report_path;
  std::vector<std::string> notes;  // what could not be read
};
/// Makes the report of a run from its records; `text` has at most `width` columns (0: any). `write`: also replaces the
/// report in the folder (summary.json and report.md of a study, report.md of a training, else report.txt and drawings).
/// Error{usage} for kinds of run without a report, Error{store_corrupt} for a run without usable records.
AMDAHL_API ReportOutcome run_report(const std::string& run_dir, bool write, int width = 0);

struct PageConfig {
  std::vector<std::string> runs;  // run folders, folders of run folders, or records.jsonl files
  std::string html;               // file to write; empty: none
  std::string markdown;           // file to write, with pictures in the folder FILE_charts; empty: none
  /// Python interpreters, of which the first with vl_convert draws the pictures of Markdown. An empty name stands for
  /// the interpreter of this build.
  std::vector<std::string> picture_pythons;
};

struct PageOutcome {
  std::string title, qualifier, verdict;
  std::vector<std::string> written;  // files
  std::vector<std::string> notes;    // what could not be read or drawn
  std::optional<Error> problem;      // of the first unreadable run, when other runs were readable
};
/// Writes one page about all runs, from their files alone: equal files give an identical page. Runs that cannot be read
/// are named in `problem` and `notes` while at least one run can be read; otherwise it throws as run_report does.
AMDAHL_API PageOutcome run_page_report(const PageConfig& config);

/// Records in the Prometheus text format for node_exporter's textfile collector: medians and means as gauges in base
/// units, with the number of samples.
AMDAHL_API std::string metrics_text(const std::vector<Record>& records);
/// The metrics of a run folder, with the verdicts of a study. Errors as run_export, and as run_report for a study.
AMDAHL_API std::string run_metrics(const std::string& run_dir);

enum class ExportFormat {
  csv,   // one row per sample
  jsonl  // one line per record, each with its complete provenance
};
struct ExportOutcome {
  std::string text;
  std::vector<std::string> notes;  // what could not be read
};
/// The records of a run folder. Error{usage} when the folder holds no run, Error{store_corrupt} for damaged records,
/// Error{version_refused} for an unknown schema version.
AMDAHL_API ExportOutcome run_export(const std::string& run_dir, ExportFormat format);

/// Breaks the lines of a text that are wider than `width` columns (0: none) at spaces. What follows a break is indented
/// by `indent` spaces more than its line. A word that is longer than a line stays whole.
AMDAHL_API std::string fitted_lines(std::string_view text, size_t width, size_t indent = 2);

/// Replaces a text file atomically: readers see the old or the new contents, never a part. Symbolic links are followed
/// and stay. A character device, a pipe or /dev/stdout is written to directly. Error{usage} for a folder, a block
/// device, a socket and a path that cannot be created; Error{disk_full}.
AMDAHL_API void save_text(const std::string& path, const std::string& text);
/// Whether save_text could write to `path` now. Writes nothing.
AMDAHL_API Availability check_output(const std::string& path);
/// Whether `path` is a character device, a pipe or /dev/stdout, whose name does not tell the format.
AMDAHL_API bool is_stream(const std::string& path);

/// Price of one device: hourly, purchase or both.
struct DevicePrice {
  std::string match;                     // part of the device's name, case ignored
  std::optional<double> hourly_price;    // rent, above 0
  std::optional<double> purchase_price;  // of one device
  std::optional<double> watts;           // power under load
  std::string note;                      // source of the numbers
};

/// Price of a machine for a number of bought devices, without them: board, power supply, case.
struct MachinePrice {
  int64_t devices = 0;  // at least 1; unique in the table
  double purchase_price = 0;
  std::string note;
};

/// An alternative to additional devices. Its gain is an assumption of the table, never measured.
struct AlternativePrice {
  std::string name;
  double purchase_price = 0;
  std::optional<double> watts;      // additional power; total power when it replaces the device
  std::optional<double> gain_low;   // share that it adds to throughput, 0.15 is 15 %; absent when not given
  std::optional<double> gain_high;  // at least gain_low
  bool replaces_device = false;     // a larger device that replaces the existing one
  std::string instead_of;           // with replaces_device: part of the name of the replaced device
  std::optional<double> memory_gb;  // with replaces_device: its memory; 1 GB = 10^9 bytes
  std::string part = "all";         // the part of a step that it accelerates: "all" or "input"
  std::string note;
};

struct PriceTable {
  std::string source;  // price file
  std::string currency = "USD";
  std::string as_of;                          // date of the prices, free text
  std::optional<double> electricity_per_kwh;  // in `currency`
  std::optional<double> amortisation_months;  // period over which a purchase is written off, above 0
  double utilisation = 1;                     // share of that period in which the device works, in (0, 1]
  std::vector<DevicePrice> devices;
  std::vector<MachinePrice> machines;
  std::vector<AlternativePrice> alternatives;
};

/// Reads a price table from a TOML file. Error{usage} that names file, line and key when the file cannot be read, a
/// price is missing, negative or not a number, or a key is unknown. Thread-safe.
AMDAHL_API PriceTable load_prices(const std::string& path);

/// An option that a file gives a value.
struct OptionSetting {
  std::string command;              // the table it is in: "study", "sensor bench"; empty: of every command that has it
  std::string option;               // without hyphens before it: "batch-sizes"
  std::vector<std::string> values;  // as a user types them; of a flag "true" or "false"
  std::string where;                // "FILE:LINE"
};
/// Reads options from a TOML file: keys are options, tables commands. Error{usage} that names file, line and key when
/// the file cannot be read, or a value is neither a text, a number, true or false, nor a list of such.
AMDAHL_API std::vector<OptionSetting> load_settings(const std::string& path);

/// Whether several devices do more work per price than one.
enum class Payoff { unclear, pays, does_not_pay };

/// "pays", "does not pay", "unclear".
constexpr std::string_view to_string(Payoff payoff) {
  switch (payoff) {
    case Payoff::pays:
      return "pays";
    case Payoff::does_not_pay:
      return "does not pay";
    case Payoff::unclear:
      break;
  }
  return "unclear";
}

/// Several devices against the best single device of their kind at the same work and size.
struct CostGain {
  size_t baseline = 0;  // index in CostReport::rows
  double speedup = 1;
  std::optional<Interval> speedup_ci;
  Recommendation recommendation = Recommendation::unclear;  // by the speedup alone
  std::optional<double> break_even_speedup;                 // hourly price of these devices / hourly price of one
  Payoff payoff = Payoff::unclear;                          // by the interval of the speedup; unclear without prices
  std::optional<double> break_even_price;  // highest hourly price of the additional hardware: (speedup - 1) x one's
  std::optional<Interval> break_even_price_ci;
  std::optional<double> further_price;   // hourly price of the additional hardware
  std::optional<double> further_invest;  // purchase price of the additional hardware, when all of it is bought
  std::optional<double> payback_months;  // until it is paid back; absent when it never is, or when nothing was bought
  bool never_paid_back = false;
};

/// One configuration of one run.
struct CostRow {
  std::string run;
  std::string work;           // rows with equal work are compared: "large, 2,021,379 parameters, fp32, ..."
  std::string configuration;  // "2x NVIDIA H200, ddp, graph"
  std::string size_name;      // "global_batch", or "items" for a sensor call
  int64_t size = 0;
  int64_t num_parameters = 0;  // 0: no model
  int64_t devices = 1;
  std::vector<std::string> device_names;
  std::string device_kind;
  Origin origin = Origin::measured;
  std::string unit;       // of work: "samples", "batches", "points"
  int64_t n = 0;          // runs or samples
  double throughput = 0;  // unit/s: work / time, the median over runs
  std::optional<Interval> throughput_ci;
  double work_per_hour = 0;
  std::optional<double> hourly_price;  // of devices and machine
  bool owned = false;                  // true: purchase and electricity divided by the hours of use
  std::optional<double> work_per_price;
  std::optional<Interval> work_per_price_ci;
  std::optional<double> joule_per_work;  // median over runs; absent: energy was not measured
  std::optional<CostGain> gain;          // only for several devices with a baseline
};

/// Size from which the speedup reaches a threshold, between measured sizes only.
struct BreakEven {
  enum class Answer { never, always, at };  // within the measured range
  double at_speedup = 1;                    // threshold: 1, or the ratio of prices
  Answer answer = Answer::never;
  std::optional<double> value;  // interpolated between `below` and `above`; a measured size when they are equal
  double below = 0, above = 0;  // measured neighbours of `value`; 0 without it
  bool at_jump = false;         // `value` is `above`: the time of one device jumps in between, nothing is interpolated
  std::optional<double> until;  // size above which several devices no longer pay
  std::optional<double> low;    // size at which the upper ends of the speedups' intervals reach the threshold
  std::optional<double> high;   // size at which the lower ends reach it
  bool has_interval = false;    // every speedup has an interval; then an absent low or high is outside the range
  double measured_low = 0, measured_high = 0;
  int64_t num_sizes = 0;
};

/// Several devices over the sizes of one kind of work.
struct CostBreakEven {
  std::string size_name;  // "global_batch", "items", "num_parameters"
  std::string work;       // common to all sizes
  std::string configuration;
  int64_t devices = 2;
  int64_t largest = 0;                  // largest measured size
  std::optional<SizeCrossover> faster;  // where they are recommended by time; absent: not at the largest size
  std::optional<BreakEven> by_price;    // where the speedup is the ratio of prices; absent without prices
};

/// An alternative purchase: computed from an assumption, never measured.
struct CostAlternative {
  std::string name;
  size_t baseline = 0;  // index in CostReport::rows
  double purchase_price = 0;
  std::optional<Interval> gain;  // share that it adds to the throughput of the whole step; absent: no figure
  std::optional<Interval> work_per_hour;
  std::optional<double> hourly_price;
  std::optional<Interval> work_per_price;
  std::string why_absent;  // why figures are absent
  std::string note;
};

struct CostReport {
  std::string prices;  // price file
  std::string currency;
  std::string as_of;
  std::vector<CostRow> rows;
  std::vector<CostBreakEven> break_evens;
  std::vector<CostAlternative> alternatives;
  std::vector<std::string> notes;
};

struct CostConfig {
  std::vector<std::string> runs;  // run folders or JSON files of studies and sensor benchmarks
  std::string prices;             // TOML file
  std::string html;               // page to write; empty: none
};
struct CostOutcome {
  CostReport report;
};
AMDAHL_API std::string to_text(const CostOutcome& outcome, int width = 0);
AMDAHL_API std::string to_markdown(const CostOutcome& outcome);
/// JSON, schema docs/schema/cost.schema.json.
AMDAHL_API std::string to_json(const CostOutcome& outcome);
/// Computes the cost of the measured work and the size from which several devices pay. Error{usage} for a price file
/// that cannot be read, and for runs of other kinds, without a result, or with different device kinds.
AMDAHL_API CostOutcome run_cost(const CostConfig& config);

struct AllConfig {
  std::string backend = "auto";  // auto, cpu, cuda
  std::vector<int> gpus;         // CUDA device indices; empty: all, in order
  int devices = 0;               // number of devices; 0: all GPUs, or 2 virtual devices
  bool quick = false;            // fewer samples and sizes
  uint64_t seed = 42;
  double timeout_seconds = 60;                          // deadline of every wait, s
  std::string nccl_log;                                 // as in DoctorConfig
  std::string output_dir;                               // receives one folder per part
  std::string html;                                     // page to write; empty: report.html in output_dir
  std::map<std::string, std::string> environment;       // the process environment
  std::map<std::string, std::string> user_environment;  // `environment` without the variables added for NCCL's log
  std::string command_line;                             // recorded
  void (*on_fatal)(const Error&) = nullptr;             // as in EngineConfig
};

struct AllPart {
  enum class End { done, problems, failed, skipped };  // problems: machine faults or wrong results
  std::string name;                                    // "topology", "sensor bench"
  End end = End::done;
  std::string result;   // one line: the finding, or why it failed
  std::string run_dir;  // folder of its Records, or its machine file; empty: nothing was written
  double seconds = 0;
};

struct AllOutcome {
  std::vector<AllPart> parts;  // in the order they ran
  std::string page;            // HTML report of all parts; empty: nothing was measured
  bool failed = false;         // a part found problems or failed
};
/// The end and the result of each part, for a terminal of `width` columns (0: any).
AMDAHL_API std::string to_text(const AllOutcome& outcome, int width = 0);

/// Runs topology, doctor, links, collectives, study and sensor bench. A part that fails is reported and the next one
/// starts. Before anything is measured, Error{environment_missing} for devices that are not present and Error{usage}
/// for a job of several processes and an `output_dir` that cannot be written or holds parts. Error{interrupted} ends
/// all parts; finished Records are kept. Not thread-safe: one at a time per process.
AMDAHL_API AllOutcome run_all(const AllConfig& config, Observer& observer);

}  // namespace amdahl
