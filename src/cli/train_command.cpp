#include <fmt/format.h>

#include <cstdio>

#include "amdahl/export.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace amdahl::cli {

int train_command(const TrainArgs& args) {
  TerminalObserver observer(args.talk.quiet);
  const TrainOutcome outcome = run_train(args.config, observer);
  if (!outcome.is_root) return 0;
  if (!args.metrics.empty()) save_text(args.metrics, run_metrics(outcome.run_dir));
  const EpochResult& last = outcome.epochs.back();
  if (args.talk.json) {
    show_data(to_json(outcome) + "\n");
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
  return 0;
}

}  // namespace amdahl::cli
