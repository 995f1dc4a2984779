#include "verbs/report/chart_pictures.h"

#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "base/child_process.h"
#include "chart/document.h"
#include "files/whole_file.h"
#include "setup/temporary_folder.h"
#include "verbs/build_info.h"

namespace amdahl {
namespace {

namespace fs = std::filesystem;

// Reads NAME.json of the folder and writes NAME.svg for each argument. Exit code 3: vl_convert is not installed.
constexpr const char* kProgram = R"python(
import pathlib, sys
try:
    import vl_convert
except ImportError:
    sys.exit(3)
folder = pathlib.Path(sys.argv[1])
version = vl_convert.get_vegalite_versions()[-1]
for name in sys.argv[2:]:
    spec = (folder / (name + ".json")).read_text(encoding="utf-8")
    svg = vl_convert.vegalite_to_svg(spec, vl_version=version, allowed_base_urls=[])
    (folder / (name + ".svg")).write_text(svg + "\n", encoding="utf-8", newline="\n")
)python";

constexpr int kNoModule = 3;
constexpr const char* kRemedy = "pip install vl-convert-python, and AMDAHL_CHART_PYTHON naming its interpreter";

}  // namespace

ChartPictures draw_charts(const std::vector<const Chart*>& charts, const std::vector<std::string>& pythons,
                          Deadline deadline) {
  ChartPictures pictures;
  if (charts.empty()) return pictures;
  const TemporaryFolder scratch(fs::temp_directory_path());
  std::vector<std::string> arguments{"-I", "-c", kProgram, scratch.path().string()};
  for (const Chart* chart : charts) {
    write_atomic(scratch.path() / (chart->id + ".json"), chart_document(*chart, Scheme::light));
    arguments.push_back(chart->id);
  }
  pictures.why_none = fmt::format("no Python with vl_convert was found; {}", kRemedy);
  for (const std::string& name : pythons) {
    const std::string python = name.empty() ? kChartPython : name;
    if (access(python.c_str(), X_OK) != 0) continue;
    const ChildResult result = run_children({{python, arguments, {}}}, deadline, [] { return false; }).front();
    if (result.end == ChildResult::End::exited && result.code == kNoModule) continue;
    if (result.end != ChildResult::End::exited || result.code != 0) {
      pictures.why_none = result.end == ChildResult::End::late
                              ? fmt::format("{} did not draw them in time", python)
                              : fmt::format("{} could not draw them: {}", python, last_line(result.err));
      return pictures;
    }
    for (const Chart* chart : charts)
      pictures.svg[chart->id] = read_file(scratch.path() / (chart->id + ".svg"), Cause::internal);
    pictures.why_none.clear();
    return pictures;
  }
  return pictures;
}

}  // namespace amdahl
