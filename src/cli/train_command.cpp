// `amdahl train`.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/output.h"
#include "cli/progress.h"
#include "cli/training_options.h"

namespace amdahl::cli {
namespace {

struct TrainArgs {
  TrainConfig config;
  TrainingTexts texts;
  std::string plan;
  OutputOptions output;
};

int train_command(const TrainArgs& args) {
  TerminalObserver observer(args.output.quiet);
  const TrainOutcome outcome = run_train(args.config, observer);
  if (!outcome.is_root) return 0;
  const EpochResult& last = outcome.epochs.back();
  if (args.output.json) {
    show_data(to_json(outcome) + "\n");
    show_place("report", outcome.report_path, args.output);
    write_page(std::filesystem::path(outcome.report_path).parent_path(), args.output);
    return 0;
  }
  std::string text = fmt::format("{} ({} parameters), {} device(s), {}: {} epochs, train loss {:.4f}",
                                 outcome.model.name, with_thousands(outcome.model.num_parameters()), outcome.devices,
                                 outcome.device_kind, last.epoch, last.train_loss);
  if (args.config.validation_fraction > 0) text += fmt::format(", validation loss {:.4f}", last.validation_loss);
  if (last.validation_mae >= 0) text += fmt::format(", validation MAE {:.4f}", last.validation_mae);
  if (last.validation_accuracy >= 0)
    text += fmt::format(", validation accuracy {:.2f} %", 100 * last.validation_accuracy);
  show(stdout, fmt::format("{}\nreport: {}\n", text, outcome.report_path));
  write_page(std::filesystem::path(outcome.report_path).parent_path(), args.output);
  return 0;
}

int run_parsed_train(TrainArgs& args, const CLI::App& app, const std::string& command_line) {
  TrainConfig& config = args.config;
  if (app.count("--devices") > 0 && config.devices == 0)  // without the option: all ranks
    throw Error(Cause::usage, "--devices is 0", "at least 1");
  if (has_mesh(args.plan))
    use_plan(config.training, parse_plan(args.plan));
  else if (!args.plan.empty())
    use_options(config.training, args.plan);
  finish_training_options(args.texts, command_line, config.engine, config.training);
  if (config.resume && config.checkpoint_dir.empty() && config.output_dir.empty())
    throw Error(Cause::usage, "--resume does not say which training",
                "--checkpoint-dir DIR, or --output-dir DIR of the run to go on with");
  config.rank_chose_output_dir = config.output_dir.empty();
  if (config.rank_chose_output_dir) config.output_dir = default_run_dir("train");
  finish_html(args.output, config.output_dir, "train");
  return train_command(args);
}

}  // namespace

Command define_train(CLI::App& app) {
  auto args = std::make_shared<TrainArgs>();
  TrainConfig& config = args->config;
  CLI::App* train = app.add_subcommand("train", "Train a model to an end");
  train->footer(
      "example:\n  amdahl train --model medium --data data/digits.csv --target label --devices 2 --epochs 30");
  add_training_options(train, config.training, args->texts);
  train->add_option("--devices", config.devices, "Number of devices (default: 1, or all ranks of a launched job)");
  train->add_option("--plan", args->plan,
                    "How devices share the work (parts: amdahl plan --help-all), as in zero1,m2 or dp2.pp2,1f1b,m4");
  add_engine_options(train, config.engine, args->texts);
  train->add_option("--batch-size", config.batch_size, "Global batch")->capture_default_str();
  train->add_option("--epochs", config.epochs)->capture_default_str();
  train->add_option("--validation", config.validation_fraction, "Fraction of the rows held out for validation")
      ->capture_default_str();
  train
      ->add_option("--check-every", config.check_every,
                   "Steps between comparisons of the devices' weights, bit by bit; 0: after the last step alone")
      ->capture_default_str();
  add_output_dir(train, config.output_dir, "results/local/train-TIME");
  train->add_option("--weights", config.weights,
                    "Weights to begin with: a folder or file of safetensors, also as transformers saves them");
  train->add_option("--save-names", config.save_names, "Names of the tensors in --save: amdahl or huggingface")
      ->capture_default_str();
  train->add_option("--save", config.save, "File for the weights after the last epoch, FILE.safetensors");
  train->add_option("--checkpoint-every", config.checkpoint_every, "Steps between checkpoints (default: none)");
  train->add_option("--checkpoint-dir", config.checkpoint_dir, "Folder of the checkpoints (default: in --output-dir)");
  train->add_flag("--resume", config.resume, "Go on from the newest intact checkpoint, if there is one");
  train
      ->add_option("--on-failure", config.on_failure,
                   "When a process of a launched job dies: stop, or shrink: the others go on from the last checkpoint "
                   "with a plan of fewer ranks")
      ->capture_default_str();
  add_output_options(train, args->output);
  add_html(train, args->output);
  offer(train, "--on-failure", {"stop", "shrink"});
  offer(train, "--save-names", {"amdahl", "huggingface"});
  offer_files(train, {"--weights", "--save", "--checkpoint-dir"});
  arrange(train,
          {{"Model", kModelOptions},
           {"Data", kDataOptions},
           {"Data", "--validation"},
           {"Parallel", "--devices --plan"},
           {"Parallel", kEngineOptions},
           {"Training", "--batch-size --epochs --weights +--check-every"},
           {"Output",
            "--output-dir --html --save +--save-names --checkpoint-every +--checkpoint-dir --resume +--on-failure"}});
  return {train,
          [args, train](const std::string& command_line) { return run_parsed_train(*args, *train, command_line); }};
}

}  // namespace amdahl::cli
