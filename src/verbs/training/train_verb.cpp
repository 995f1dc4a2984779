// Training for a given number of epochs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <set>

#include "amdahl/report.h"
#include "amdahl/training.h"
#include "base/limited_devices.h"
#include "base/record_values.h"
#include "files/safetensors.h"
#include "measure/training/train_run.h"
#include "parallel/data/strategy.h"
#include "plan/gpu_kinds.h"
#include "plan/plan_rules.h"
#include "plan/shares.h"
#include "setup/backends.h"
#include "setup/data_files.h"
#include "setup/failure_watch.h"
#include "setup/provenance.h"
#include "setup/training_setup.h"
#include "setup/weight_files.h"
#include "spec/run_folder.h"
#include "train/foreign_names.h"
#include "train/named_weights.h"
#include "verbs/training/shrink.h"
#include "verbs/training/study_identity.h"
#include "verbs/training/training_checkpoints.h"

namespace amdahl {
namespace {

constexpr int64_t kSyntheticRows = 10'000;

constexpr const char *kOwnNames = "amdahl", *kForeignNames = "huggingface";

/// Before anything is trained: the file of the weights can be written.
void check_save(const std::string& path, const std::string& names, const ModelSpec& model) {
  if (names != kOwnNames && names != kForeignNames)
    throw Error(Cause::usage, fmt::format("`save_names`: unknown names '{}'", names),
                choices_hint(names, {kOwnNames, kForeignNames}));
  if (names == kForeignNames) foreign_parts(model);
  if (path.empty()) return;
  if (!path.ends_with(".safetensors"))
    throw Error(Cause::usage, fmt::format("`save`: '{}' does not end in .safetensors", path),
                "a name like model.safetensors");
  if (const Availability place = check_output(path); !place.ok)
    throw Error(Cause::usage, fmt::format("`save`: {}", place.reason), place.remedy);
}

TrainSettings make_settings(const TrainConfig& config, const ModelSpec& model) {
  if (config.epochs < 1) throw Error(Cause::usage, fmt::format("`epochs` is {}", config.epochs), "at least 1");
  if (config.devices < 1) throw Error(Cause::usage, fmt::format("`devices` is {}", config.devices), "at least 1");
  if (config.check_every < 0)
    throw Error(Cause::usage, fmt::format("`check_every` is {}", config.check_every), "a number of steps, or 0");
  check_save(config.save, config.save_names, model);
  if (config.batch_size < 1)
    throw Error(Cause::usage, fmt::format("`batch_size` is {}", config.batch_size), "at least 1");
  if (!(config.validation_fraction >= 0 && config.validation_fraction < 1))
    throw Error(Cause::usage, fmt::format("`validation_fraction` is {}", config.validation_fraction),
                "a fraction like 0.2, or 0 for none");
  TrainSettings settings;
  settings.epochs = config.epochs;
  settings.check_every = config.check_every;
  settings.checkpoint_every = config.checkpoint_every;
  settings.validation_fraction = config.validation_fraction;
  settings.trainer = make_trainer_options(config.engine, config.training, model);
  ParallelPlan& plan = settings.trainer.plan;
  plan.strategy = config.devices == 1 ? "single" : config.training.strategy;
  plan.mesh.dp = config.devices;
  plan.global_batch = config.batch_size;
  if (config.training.mesh.dp > 0) {
    plan.strategy = config.training.strategy;
    plan.mesh = config.training.mesh;
    require_plan_feasible(plan, model);
    return settings;
  }
  const Feasibility feasible = find_strategy(settings.trainer.plan.strategy).feasible(settings.trainer.plan);
  if (!feasible.ok) throw Error(Cause::usage, feasible.reason, "a larger batch, fewer devices, or another `strategy`");
  return settings;
}

/// A name that no other job has.
std::string new_job_name() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

/// What must be equal on all ranks of a launched job.
JobFacts job_facts(const TrainConfig& config, const TrainingSetup& setup) {
  JobFacts facts = training_identity(config.engine, config.training, setup.model, setup.data);
  if (config.training.mesh.dp > 0) facts["mesh"] = mesh_text(config.training.mesh);
  facts.insert({{"command", "train"},
                {"devices", std::to_string(config.devices)},
                {"batch_size", std::to_string(config.batch_size)},
                {"epochs", std::to_string(config.epochs)},
                {"validation", fmt::format("{}", config.validation_fraction)},
                {"check_every", std::to_string(config.check_every)},
                {"checkpoint_every", std::to_string(config.checkpoint_every)},
                {"resume", config.resume ? "yes" : "no"},
                {"on_failure", config.on_failure},
                {"timeout", config.engine.auto_timeout ? "auto" : "given"}});
  if (config.on_failure == "stop") return facts;
  // A rank that becomes rank 0 goes on with the files of the one before.
  const auto whole = [](const std::string& path) {
    return path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
  };
  facts["output_dir"] = config.rank_chose_output_dir ? "" : whole(config.output_dir);
  facts["checkpoint_dir"] = whole(config.checkpoint_dir);
  facts["save"] = whole(config.save);
  if (!config.weights.empty()) facts["weights"] = whole(config.weights);
  return facts;
}

/// The strategy as an axis of Records: its name, or a plan that divides the model.
std::string strategy_text(const TrainConfig& config) {
  const Mesh mesh = config.training.mesh.dp > 0 ? config.training.mesh : Mesh{.dp = config.devices};
  const bool is_named = config.training.plan != plain_sync(config.training.plan);
  if (mesh.tp > 1 || mesh.pp > 1 || is_named)
    return format_plan({config.training.plan, config.devices == 1 ? "single" : config.training.strategy, mesh, 0});
  return config.devices == 1 ? "single" : config.training.strategy;
}

/// Sets the number of devices: that of the plan's mesh, which must be the job's.
void choose_devices(TrainConfig& config) {
  const int launched = detect_launch(config.engine.environment).world_size;
  const Mesh& mesh = config.training.mesh;
  if (mesh.dp == 0) {
    if (config.devices == 0) config.devices = launched;
    return;
  }
  const int given = config.devices > 0 ? config.devices : launched > 1 ? launched : mesh.size();
  if (given != mesh.size())
    throw Error(Cause::usage,
                fmt::format("plan {} has {} devices, and there are {}", mesh_text(mesh), mesh.size(), given),
                fmt::format("a plan whose sizes have the product {}", given));
  config.devices = given;
}

/// 0 for a model of anything but tokens.
double tokens_per_second(const EpochResult& epoch, const ModelSpec& model) {
  return model.vocabulary() > 0 ? epoch.samples_per_second * static_cast<double>(model.input_width) : 0;
}

Record epoch_record(const EpochResult& epoch, const TrainConfig& config, const ModelSpec& model,
                    const MemoryParts& modelled, const Provenance& provenance) {
  Record record;
  record.kind = "train-epoch";
  record.provenance = provenance;
  record.axes = {{"model", model.name},
                 {"num_parameters", model.num_parameters()},
                 {"global_batch", config.batch_size},
                 {"devices", static_cast<int64_t>(config.devices)},
                 {"strategy", strategy_text(config)},
                 {"epoch", static_cast<int64_t>(epoch.epoch)}};
  record.series = {{"train_loss", "1", {epoch.train_loss}},
                   {"memory_peak", "bytes", {static_cast<double>(epoch.memory_peak_bytes)}},
                   {"memory_modelled", "bytes", {static_cast<double>(modelled.total())}}};
  if (epoch.samples_per_second > 0) {
    record.series.push_back({"seconds", "s", {epoch.seconds}});
    record.series.push_back({"throughput", "samples/s", {epoch.samples_per_second}});
  }
  if (const double tokens = tokens_per_second(epoch, model); tokens > 0)
    record.series.push_back({"token_throughput", "tokens/s", {tokens}});
  const auto peak =
      peak_flops(first_devices(provenance, config.devices), config.devices, to_string(config.engine.math));
  if (peak && epoch.samples_per_second > 0) {
    const double flops = epoch.samples_per_second * step_flops(model, 1);
    record.series.push_back({"model_flop_rate", "TFLOP/s", {flops / 1e12}});
    record.series.push_back({"model_flop_share", "1", {flops / *peak}});
  }
  if (epoch.loss_scale > 0) {
    record.series.push_back({"loss_scale", "1", {epoch.loss_scale}});
    record.series.push_back({"skipped_steps", "1", {static_cast<double>(epoch.skipped_steps)}});
  }
  if (config.validation_fraction > 0) record.series.push_back({"validation_loss", "1", {epoch.validation_loss}});
  if (epoch.validation_mae >= 0) record.series.push_back({"validation_mae", "1", {epoch.validation_mae}});
  if (epoch.validation_accuracy >= 0)
    record.series.push_back({"validation_accuracy", "1", {epoch.validation_accuracy}});
  return record;
}

/// What a row of the batch is.
std::string_view rows_word(const ModelSpec& model) {
  if (model.input_shape.size() == 2) return "windows";
  return model.input_shape.size() == 3 ? "images" : "samples";
}

/// `share`: MFU, where it is known.
std::string epoch_line(const EpochResult& epoch, const TrainConfig& config, const ModelSpec& model,
                       std::optional<double> share) {
  std::string line = fmt::format("epoch {:>3}/{}  train loss {:.4f}", epoch.epoch, config.epochs, epoch.train_loss);
  if (config.validation_fraction > 0) line += fmt::format("  validation loss {:.4f}", epoch.validation_loss);
  if (epoch.validation_mae >= 0) line += fmt::format("  MAE {:.4f}", epoch.validation_mae);
  if (epoch.validation_accuracy >= 0) line += fmt::format("  accuracy {:.2f} %", 100 * epoch.validation_accuracy);
  line += epoch.samples_per_second > 0 ? fmt::format("  {:.0f} {}/s", epoch.samples_per_second, rows_word(model))
                                       : std::string("  trained before, no step was left");
  if (const double tokens = tokens_per_second(epoch, model); tokens > 0)
    line += fmt::format(" = {:.0f} tokens/s", tokens);
  if (share) line += fmt::format(", MFU {:.1f} %", 100 * *share);
  if (epoch.loss_scale > 0)
    line += fmt::format("  loss scale {:.0f}, {} step{} skipped", epoch.loss_scale, epoch.skipped_steps,
                        epoch.skipped_steps == 1 ? "" : "s");
  return line;
}

/// When a stopped training ends wherever it is: with checkpoints it first has time to come to the end of a step and to
/// write one, less than the program's own deadline after a signal.
std::function<bool()> end_of_patience(const TrainConfig& config, Observer& observer) {
  using Clock = std::chrono::steady_clock;
  if (config.checkpoint_every == 0) return [&observer] { return observer.cancelled(); };
  auto since = std::make_shared<std::atomic<Clock::rep>>(0);
  return [&observer, since] {
    constexpr std::chrono::seconds kPatience{5};
    if (!observer.cancelled()) return false;
    Clock::rep first = 0;
    const Clock::rep now = Clock::now().time_since_epoch().count();
    if (since->compare_exchange_strong(first, now)) first = now;
    return Clock::duration(now - first) >= kPatience;
  };
}

/// Opens the run folder: a new one, or on resuming the one that is there, whose epochs are put into `recorded`.
RunFolder open_folder(const TrainConfig& config, const RunHeader& header, std::set<int64_t>& recorded) {
  std::error_code ignored;
  if (!config.resume || !std::filesystem::exists(std::filesystem::path(config.output_dir) / kRecordsFile, ignored))
    return RunFolder::create(config.output_dir, header);
  RunContents earlier;
  RunFolder folder = RunFolder::resume(config.output_dir, header, &earlier);
  for (const Record& record : earlier.records) recorded.insert(axis<int64_t>(record, "epoch", 0));
  return folder;
}

/// `shrunk`: of a training that goes on after a rank died.
TrainOutcome train(const TrainConfig& given, Observer& observer, FailureWatch& watch, TrainingSoFar& so_far,
                   const Shrunk* shrunk) {
  TrainConfig config = given;
  if (config.training.strategy == "replicated" || config.training.plan.virtual_shards > 0)
    config.engine.deterministic = true;  // otherwise the replicas diverge
  check_engine(config.engine);
  check_training(config.training);
  choose_backend(config.engine);
  choose_devices(config);
  TrainingSetup setup = load_training_setup(config.training, kSyntheticRows, config.engine.seed);
  TrainSettings settings = make_settings(config, setup.model);
  const Split split = split_data(setup.data, config.validation_fraction, config.engine.seed);
  if (static_cast<int64_t>(split.train.size()) < config.batch_size)
    throw Error(Cause::usage,
                fmt::format("batch {} is larger than the {} training rows", config.batch_size, split.train.size()),
                "a smaller `batch_size`");
  set_total_steps(settings.trainer.hyper,
                  config.epochs * (static_cast<int64_t>(split.train.size()) / config.batch_size));
  const JobFacts facts = job_facts(config, setup);
  if (has_table_features(config.training.data)) standardise(setup.data, split.train);
  TrainingCheckpoints checkpoints(config, setup.model, settings.trainer.hyper, facts);
  const std::unique_ptr<Fleet> fleet = make_fleet(config.engine, config.devices, facts);
  watch.met();
  fleet->end_runs_when(end_of_patience(config, observer));
  require_launch_mode(*fleet, config.engine.launch);
  if (fleet->is_root()) tell_about_data(setup.data, observer);
  const Provenance provenance = make_provenance(config.engine, *fleet);
  TrainOutcome outcome;
  outcome.model = setup.model;
  outcome.devices = config.devices;
  outcome.device_kind = fleet->device_kind();
  outcome.run_dir = config.output_dir;
  outcome.is_root = fleet->is_root();
  checkpoints.load(*fleet, settings, observer);
  settings.has_weights = !config.weights.empty() && settings.start.step == 0;
  if (settings.has_weights && fleet->is_root()) {
    settings.state.parameters = read_weights(setup.model, config.weights);
    observer.note(fmt::format("weights from {}", config.weights));
  }
  if (shrunk && fleet->is_root()) {
    observer.warning(shrunk_text(*shrunk, settings.start.step));
    if (const std::string dropped = drop_unused_feedback(settings.trainer.plan, settings.state); !dropped.empty())
      observer.warning(dropped);
  }
  so_far = {setup.model, settings.trainer.plan, settings.start.step, {}, {}};
  if (config.on_failure == "shrink") {
    so_far.job = fleet->agree(new_job_name());
    so_far.output_dir = fleet->agree(config.output_dir);
  }
  std::optional<RunFolder> folder;
  std::set<int64_t> recorded;  // epochs that the folder holds already
  if (fleet->is_root() && !config.output_dir.empty())
    folder = open_folder(config, {"train", {{"model", setup.model.name}, {"data", setup.data.name}}}, recorded);
  watch.begin(fleet->record_flights(folder ? config.output_dir : ""));
  MemoryParts modelled = training_memory(settings, setup.data, backend_of(*fleet), config.engine.math);
  fleet->run(config.devices, [&](RankContext& rank) {
    if (rank.rank == 0) modelled = with_groups(modelled, settings.trainer, rank.communicator);
  });
  if (fleet->is_root())
    observer.note(fmt::format("memory per device: {} (modelled): {}",
                              format_bytes(static_cast<double>(modelled.total())), memory_text(modelled)));
  if (fleet->is_root() && config.checkpoint_every > 0 && settings.trainer.plan.async_steps > 0)
    observer.note("checkpoints are written at the ends of epochs: within them updates are outstanding (async)");
  TrainEvents events;
  events.finished = [&](const EpochResult& epoch) {
    outcome.records.push_back(epoch_record(epoch, config, setup.model, modelled, provenance));
    if (folder && !recorded.contains(epoch.epoch)) folder->append(outcome.records.back());
    observer.note(epoch_line(epoch, config, setup.model, outcome.records.back().value("model_flop_share")));
  };
  events.shares = [&](const ParallelPlan& plan, const std::vector<double>& speeds) {
    std::string rows;
    for (int rank = 0; rank < plan.mesh.dp; ++rank)
      rows += fmt::format("{}{}", rank == 0 ? "" : ":", data_share(plan, rank).rows());
    observer.note(fmt::format("shares auto: {} rows of {}, by speeds of {:.0f} samples/s", rows, plan.global_batch,
                              fmt::join(speeds, ", ")));
  };
  events.stop_asked = [&observer] { return observer.cancelled(); };
  if (config.on_failure == "shrink") events.stepped = [&so_far](int64_t step) { so_far.steps = step; };
  events.checkpoint = [&](const TrainingPoint& point, const TrainerState& state) { checkpoints.save(point, state); };
  TrainedModel trained = run_training(*fleet, setup.data, settings, events);
  if (!trained.epochs.empty())
    observer.note(fmt::format("memory per device: {} at its peak (measured)",
                              format_bytes(static_cast<double>(trained.epochs.back().memory_peak_bytes))));
  outcome.epochs = std::move(trained.epochs);
  if (fleet->is_root()) outcome.weights = name_weights(setup.model, trained.parameters);
  outcome.weights.insert(outcome.weights.end(), trained.buffers.begin(), trained.buffers.end());
  if (fleet->is_root() && !config.save.empty())
    save_safetensors(config.save,
                     config.save_names == kForeignNames ? arrays_of(foreign_parts(setup.model), trained.parameters)
                                                        : outcome.weights,
                     {{"format", "pt"}, {"model", setup.model.name}});
  if (folder) folder->end();
  if (folder) outcome.report_path = run_report(config.output_dir, true).report_path;
  fleet->agree("done");  // no process exits while a peer still works
  return outcome;
}

}  // namespace

TrainOutcome run_train(const TrainConfig& config, Observer& observer) {
  check_on_failure(config);
  TrainConfig now = config;
  // It ends a process that is slow to leave a failed job, which here has more to do.
  if (config.on_failure == "shrink") now.engine.on_fatal = nullptr;
  std::optional<Shrunk> shrunk;
  for (;;) {
    TrainingSoFar so_far;
    try {
      return FailureWatch::over(
          [&](FailureWatch& watch) { return train(now, observer, watch, so_far, shrunk ? &*shrunk : nullptr); },
          now.engine.environment);
    } catch (const Error& error) {
      if (!goes_on_after(now, error, so_far)) throw;
      shrunk.emplace();
      const std::optional<TrainConfig> smaller = shrink_training(now, error, so_far, &*shrunk);
      if (smaller) {
        now = *smaller;
        continue;
      }
      observer.note(
          fmt::format("rank {} died, and plan {} has no use for this process", shrunk->dead, shrunk->new_plan));
      TrainOutcome idle;
      idle.is_root = false;
      return idle;
    }
  }
}

}  // namespace amdahl
