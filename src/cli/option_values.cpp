#include "cli/option_values.h"
#include "amdahl/report.h"
#include "cli/offers.h"

#include "cli/environment.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <optional>

#include "cli/color.h"
#include "cli/output.h"

namespace amdahl::cli {
namespace {

/// Options whose numbers are neither counts nor plain.
struct OptionUnit {
  const char* name;
  Unit unit;
};
constexpr OptionUnit kOptionUnits[] = {
    {"timeout", Unit::seconds},
    {"transport-timeout", Unit::seconds},
    {"seconds", Unit::seconds},
    {"rel-ci", Unit::fraction},
    {"validation", Unit::fraction},
    {"min-gbps", Unit::rate},
    {"min-bytes", Unit::bytes},
    {"max-bytes", Unit::bytes},
    {"step-bytes", Unit::bytes},
    {"buffer-size", Unit::bytes},
    {"fail-on-regression", Unit::percent},
};

/// Whether the text is a number of 64 bits as std::to_string writes it: seeds may exceed what parse_whole reads.
bool is_plain(const std::string& text) {
  uint64_t value = 0;
  return std::from_chars(text.data(), text.data() + text.size(), value).ec == std::errc{} &&
         text == std::to_string(value);
}

}  // namespace

std::optional<Unit> unit_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const bool fraction = type.starts_with("FLOAT"), whole = type.starts_with("INT") || type.starts_with("UINT");
  if (!(fraction || whole) || option.get_items_expected_max() == 0) return std::nullopt;
  for (const OptionUnit& known : kOptionUnits)
    if (option.check_lname(known.name)) return known.unit;
  return fraction ? Unit::number : Unit::count;
}

void read_numbers(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const std::optional<Unit> unit = unit_of(*option);
    if (!unit) continue;
    const bool fraction = option->get_type_name().starts_with("FLOAT");
    option->transform(CLI::Validator(
        [name = option->get_name(), unit = *unit, fraction](std::string& text) {
          if (fraction)
            text = fmt::format("{}", parse_quantity(text, unit, name));
          else if (!is_plain(text))
            text = std::to_string(parse_whole(text, unit, name));
          return std::string();
        },
        "", "number"));
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) read_numbers(*command);
}

std::vector<std::string> split_list(const std::string& list) {
  std::vector<std::string> items;
  bool quoted = false;
  for (size_t i = 0; i < list.size(); ++i) {
    if (i == 0) items.emplace_back();
    if (list[i] == '"')
      quoted = !quoted;
    else if (list[i] == ',' && !quoted)
      items.emplace_back();
    else
      items.back() += list[i];
  }
  return items;
}

std::vector<int> parse_gpus(const std::string& list) {
  std::vector<int> gpus;
  if (list.empty()) return gpus;
  for (const int64_t gpu : parse_count_list(list, "--gpus", 0)) gpus.push_back(static_cast<int>(gpu));
  return gpus;
}

std::array<int64_t, 3> parse_grid(const std::string& text) {
  const bool cube = text.find('x') == std::string::npos;
  const std::vector<int64_t> axes = parse_like(cube ? "128" : "200x200x40", text, "--grid");
  return {axes[0], axes[cube ? 0 : 1], axes[cube ? 0 : 2]};
}

void require_one_of(const std::string& option, const std::string& text, const std::vector<std::string>& names) {
  std::vector<std::pair<std::string, int>> choices;
  for (const std::string& name : names) choices.emplace_back(name, 0);
  one_of<int>(option, text, choices);
}

void refuse_options(const CLI::App& app, std::initializer_list<const char*> options, const std::string& with,
                    const std::string& remedy) {
  for (const char* option : options)
    if (app.count(option) > 0) throw Error(Cause::usage, fmt::format("{} {}", option, with), remedy);
}

void require_positive(const CLI::App& app, const std::string& option, int64_t value) {
  if (app.count(option) > 0 && value < 1)
    throw Error(Cause::usage, fmt::format("{} is {}", option, value), "at least 1");
}

void add_output_options(CLI::App* app, OutputOptions& output) {
  app->add_flag("--json", output.json, "Machine-readable result on stdout");
  app->add_flag("--quiet,-q", output.quiet, "No plan and no progress");
}

void add_html(CLI::App* app, OutputOptions& output) {
  app->add_option("--html", output.html, "Page to write, one file that needs no network");
  offer_files(app, {"--html"});
}

void finish_html(const OutputOptions& output, std::string& output_dir, const char* verb) {
  require_place("--html", output.html);
  if (!output.html.empty() && output_dir.empty()) output_dir = default_run_dir(verb);
}

void add_backend(CLI::App* app, std::string& backend, std::string& gpus) {
  app->add_option("--backend", backend, "auto, cpu (virtual devices) or cuda")->capture_default_str();
  app->add_option("--gpus", gpus, "CUDA devices to use, for example 0,2 (default: all)");
  offer(app, "--backend", {"auto", "cpu", "cuda"});
  offer_lists(app, {"--gpus"});
}

void add_device_speeds(CLI::App* app, std::string& speeds) {
  app->add_option("--device-speeds", speeds,
                  "Limit the devices to these fractions of their speed, for example 1,0.5 (virtual devices wait, GPUs "
                  "use that share of their SMs)");
  offer_lists(app, {"--device-speeds"});
}

std::vector<double> parse_speeds(const std::string& speeds) {
  return speeds.empty() ? std::vector<double>() : parse_quantities(speeds, Unit::fraction, "--device-speeds");
}

void add_seed(CLI::App* app, uint64_t& seed, const std::string& help) {
  app->add_option("--seed", seed, help)->capture_default_str();
}

void add_timeout(CLI::App* app, double& seconds) {
  app->add_option("-T,--timeout", seconds, "Seconds until a wait is given up")->capture_default_str();
}

namespace {
constexpr const char* kOverwrite = "--overwrite";
constexpr const char* kSlice = "--fresh-process";  // hidden: INDEX:FIRST:END:FOLDER, passed to child processes
}  // namespace

Overwriting::Overwriting(const CLI::App& app) {
  const CLI::Option* flag = app.get_option_no_throw(kOverwrite);
  const CLI::Option* resume = app.get_option_no_throw("--resume");
  const CLI::Option* slice = app.get_option_no_throw(kSlice);
  const auto given = [](const CLI::Option* option) { return option && option->count() > 0; };
  if (!given(flag) || given(resume) || given(slice)) return;
  const CLI::Option* folder = app.get_option("--output-dir");
  if (!given(folder)) throw Error(Cause::usage, fmt::format("{} without --output-dir", kOverwrite), "both, or neither");
  dir_ = folder->results().front();
  aside_ = put_run_aside(dir_, process_environment());
}

Overwriting::~Overwriting() {
  try {
    settle_run_aside(dir_, aside_);
  } catch (const Error& error) {
    show_error(error);
  }
}

void add_output_dir(CLI::App* app, std::string& folder, const std::string& usual) {
  app->add_option("--output-dir,-o", folder, fmt::format("Run folder (default: {})", usual));
  app->add_flag(kOverwrite)
      ->description("Replace the run that --output-dir holds, once the new one has begun to be recorded")
      ->group("+Output");
  offer_files(app, {"--output-dir"});
}

void add_comm(CLI::App* app, std::string& comm) {
  app->add_option(
         "--comm", comm,
         "Collectives: auto (the backend's), symmetric (in shared memory), one of its algorithms, or symmetric with "
         "FILE.json of collectives --onesided")
      ->capture_default_str();
  offer(app, "--comm",
        {"auto", "symmetric", "symmetric-ll", "symmetric-ll128", "symmetric-one-shot", "symmetric-two-shot"});
  offer_files(app, {"--comm"});
}

void finish_comm(std::string& comm, std::string& table) {
  if (!comm.ends_with(".json") && comm.find('/') == std::string::npos) return;
  table = std::exchange(comm, "symmetric");
}

void use_machine(const std::string& file, MachineSpec& machine) {
  if (file.empty()) return;
  machine = load_machine(file);
  for (const LinkSpec& link : machine.links)
    if (!link.quarantine.empty())
      show(stderr,
           fmt::format("warning: {} to {} is quarantined: {}\n", link.source, link.destination, link.quarantine));
  for (const auto& [name, value] : safe_environment(machine)) {
    setenv(name.c_str(), value.c_str(), 1);
    show(stderr, fmt::format("warning: {}={} is set, and peers keep to their own memory\n", name, value));
  }
}

void add_fresh_processes(CLI::App* app, FreshProcesses& processes, const std::string& help) {
  app->add_option("--processes", processes.count, help)->capture_default_str();
  app->add_option(kSlice, "One process of several")->group("");
}

void finish_fresh_processes(const CLI::App& app, FreshProcesses& processes, std::string& output_dir,
                            OutputOptions& output) {
  if (app.count(kSlice) == 0) {
    if (processes.count < 2) return;
    processes.program = own_program();
    processes.arguments = own_arguments();
    processes.arguments.emplace_back(kSlice);
    return;
  }
  const std::string text = app.get_option(kSlice)->results().front();
  FreshProcesses::Slice& slice = processes.slice;
  int used = 0;
  if (std::sscanf(text.c_str(), "%d:%d:%d:%n", &slice.index, &slice.first, &slice.end, &used) < 3 || used == 0 ||
      slice.index < 0)
    throw Error(Cause::usage, fmt::format("{} '{}' is not INDEX:FIRST:END:FOLDER", kSlice, text),
                "leave it to amdahl, which starts its processes with it");
  slice.run_dir = text.substr(static_cast<size_t>(used));
  output_dir = slice.run_dir;
  output.quiet = true;
}

void end_at_once(const Error& error) {
  show_error(error);
  const bool asked = error.cause() == Cause::interrupted && signal_exit_code() != 0;
  std::_Exit(asked ? signal_exit_code() : exit_code(error.cause()));
}

void require_place(const std::string& option, const std::string& file) {
  if (file.empty()) return;
  if (const Availability place = check_output(file); !place.ok)
    throw Error(Cause::usage, fmt::format("{} {}: {}", option, printable(file), place.reason), place.remedy);
}

void require_folder(const std::string& option, const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error))
    throw Error(Cause::usage, fmt::format("{} {}: there is no such folder", option, printable(folder)),
                "a folder, or leave the option out");
}

void require_machine_place(const std::string& file) {
  require_place("--machine", file);
  if (!file.empty()) check_machine_file(file);
}

std::string default_run_dir(const char* verb) {
  char stamp[32];
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &utc);
  const std::string name = fmt::format("results/local/{}-{}", verb, stamp);
  std::string folder = name;  // runs that begin in the same second are numbered
  std::error_code error;
  for (int number = 2; std::filesystem::exists(folder, error); ++number) folder = fmt::format("{}-{}", name, number);
  return folder;
}

}  // namespace amdahl::cli
