// Options and command of `amdahl cost`.
#include <fmt/format.h>

#include <memory>

#include "cli/option_values.h"
#include "cli/output.h"

namespace amdahl::cli {

int cost_command(const CostArgs& args) {
  const CostOutcome outcome = run_cost(args.config);
  if (args.talk.json)
    show_data(to_json(outcome) + "\n");
  else
    show(stdout, args.markdown ? to_markdown(outcome) : to_text(outcome));
  if (!args.config.html.empty()) show(stderr, fmt::format("page: {}\n", args.config.html));
  return 0;
}

Command define_cost(CLI::App& app) {
  auto args = std::make_shared<CostArgs>();
  CLI::App* cost = app.add_subcommand("cost", "What measured work costs, and the break-even sizes of several devices");
  cost->footer(
      "examples:\n  amdahl cost results/my-study --prices data/prices.toml\n  amdahl cost results/h200/* --prices "
      "my-prices.toml "
      "--md\nA run is the folder or summary.json of a study, or the folder or JSON of amdahl sensor bench. "
      "data/prices.toml has examples to edit, not prices.");
  cost->add_option("runs", args->config.runs, "Runs, all on the same kind of device")->required();
  cost->add_option("--prices", args->config.prices, "TOML file of what devices cost, like data/prices.toml")
      ->required();
  cost->add_option("--html", args->config.html, "Page to write, one file that needs no network");
  cost->add_flag("--md,--markdown", args->markdown, "Markdown on stdout, the verdict first");
  add_talk(cost, args->talk);
  offer_files(cost, {"runs", "--prices", "--html"});
  return {cost, [args](const std::string&) {
            if (args->markdown && args->talk.json) throw Error(Cause::usage, "--md with --json", "one of them");
            return cost_command(*args);
          }};
}

}  // namespace amdahl::cli
