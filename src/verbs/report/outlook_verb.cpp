// Predicted results of several devices, from records of one.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "amdahl/comparison.h"
#include "files/whole_file.h"
#include "planner/scaling_model.h"
#include "spec/json.h"
#include "verbs/report/evidence.h"

namespace amdahl {
namespace {

LinkModel find_link(const std::string& name) {
  std::vector<std::string> names;
  for (const LinkModel& link : link_models()) {
    if (link.name == name) return link;
    names.push_back(link.name);
  }
  if (name.ends_with(".json") || name.find('/') != std::string::npos)
    return link_of_machine(machine_from_json(read_file(name, Cause::usage), name), name);
  throw Error(Cause::usage, name.empty() ? "`devices` without `link`" : fmt::format("unknown link '{}'", name),
              choices_hint(name, names) + ", or the machine file of ``links machine=FILE``");
}

}  // namespace

OutlookOutcome run_outlook(const OutlookConfig& config) {
  if (config.evidence.empty())
    throw Error(Cause::usage, "`devices` without `evidence`", "`evidence=DIR` of a study that measured one device");
  for (const int64_t devices : config.question.devices)
    if (devices < 2)
      throw Error(Cause::usage, fmt::format("`devices` {}: that is what was measured", devices),
                  "2 or more, for example 2,4");
  const LinkModel link = find_link(config.link);
  const StudySummary summary = read_evidence(config.evidence);
  if (summary.device_kind != "cuda")
    throw Error(
        Cause::usage,
        fmt::format("{} was measured on CPU virtual devices: their steps and a link between GPUs have nothing in "
                    "common",
                    config.evidence),
        "a study on a GPU, for example `study backend=cuda mode=single`");
  OutlookOutcome outcome;
  outcome.outlook = predict_scaling(summary, link, config.question);
  return outcome;
}

}  // namespace amdahl
