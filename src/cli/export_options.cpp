#include "cli/export_options.h"

#include <cstdio>
#include <filesystem>
#include <memory>

#include "amdahl/export.h"
#include "cli/output.h"

namespace amdahl::cli {
namespace {

struct ExportArgs {
  std::string run_dir, csv, jsonl;
};

int export_command(const ExportArgs& args) {
  if (args.csv.empty() == args.jsonl.empty())
    throw Error(Cause::usage, args.csv.empty() ? "export does not say as what" : "export to --csv and --jsonl at once",
                "one of --csv FILE and --jsonl FILE; - is standard output");
  const bool csv = !args.csv.empty();
  const ExportOutcome outcome = run_export(args.run_dir, csv ? ExportFormat::csv : ExportFormat::jsonl);
  for (const std::string& note : outcome.notes) show(stderr, fmt::format("warning: {}\n", note));
  const std::string& file = csv ? args.csv : args.jsonl;
  if (file == "-")
    show_data(outcome.text);
  else
    save_text(file, outcome.text);
  return 0;
}

}  // namespace

void add_metrics(CLI::App* app, std::string& file) {
  app->add_option("--metrics-file", file,
                  "At the end, medians and means for Prometheus: FILE.prom in the folder of node_exporter's textfile "
                  "collector");
  offer_files(app, {"--metrics-file"});
}

void require_metrics_place(const std::string& file) {
  if (!file.empty() && std::filesystem::path(file).extension() != ".prom" && !is_stream(file))
    throw Error(Cause::usage, fmt::format("--metrics-file {}: the collector reads no such name", printable(file)),
                "a name that ends in .prom");
  require_place("--metrics-file", file);
}

Command define_export(CLI::App& app) {
  auto args = std::make_shared<ExportArgs>();
  CLI::App* sub = app.add_subcommand("export", "Records of a run as a table or as JSON lines, for other programs");
  sub->footer("examples:\n  amdahl export results/my-run --csv samples.csv\n  amdahl export results/my-run --jsonl -");
  sub->add_option("run", args->run_dir, "Run folder")->required();
  sub->add_option("--csv", args->csv, "CSV file, one row per sample (RFC 4180); - is standard output");
  sub->add_option("--jsonl", args->jsonl,
                  "JSON lines file, one line per record with its provenance; - is standard output");
  offer_files(sub, {"run", "--csv", "--jsonl"});
  return {sub, [args](const std::string&) { return export_command(*args); }};
}

}  // namespace amdahl::cli
