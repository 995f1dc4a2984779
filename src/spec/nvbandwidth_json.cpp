// Converts nvbandwidth's -j to Records of kind "link".
#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "amdahl/error.h"
#include "spec/peer_json.h"

namespace amdahl {
namespace {

using nlohmann::json;

constexpr const char* kMatrix = "bandwidth_matrix";
constexpr const char* kDescription = "bandwidth_description";

/// What the row and column of a matrix cell mean for an end of the transfer.
enum class End { host, row, column, all };

struct TestRow {
  std::string_view name;
  End source, destination;  // direction of the data
  bool latency = false;     // ns instead of GB/s
  int blocks = 1;           // blocks of rows; only the last is used
};

constexpr End kHost = End::host, kRow = End::row, kColumn = End::column, kAll = End::all;

// The direction of the data follows nvbandwidth's code, not its descriptions: a read of row r and column c copies from
// c to r and is issued by r; a write copies from r to c and is issued by r. Bidirectional tests print three matrices,
// one per direction and their sum.
constexpr TestRow kTests[] = {
    {"host_to_device_memcpy_ce", kHost, kColumn},
    {"device_to_host_memcpy_ce", kColumn, kHost},
    {"host_to_device_bidirectional_memcpy_ce", kHost, kColumn},
    {"device_to_host_bidirectional_memcpy_ce", kColumn, kHost},
    {"device_to_device_memcpy_read_ce", kColumn, kRow},
    {"device_to_device_memcpy_write_ce", kRow, kColumn},
    {"device_to_device_bidirectional_memcpy_read_ce", kColumn, kRow, false, 3},
    {"device_to_device_bidirectional_memcpy_write_ce", kRow, kColumn, false, 3},
    {"all_to_host_memcpy_ce", kColumn, kHost},
    {"all_to_host_bidirectional_memcpy_ce", kColumn, kHost},
    {"host_to_all_memcpy_ce", kHost, kColumn},
    {"host_to_all_bidirectional_memcpy_ce", kHost, kColumn},
    {"all_to_one_write_ce", kAll, kColumn},
    {"all_to_one_read_ce", kColumn, kAll},
    {"one_to_all_write_ce", kColumn, kAll},
    {"one_to_all_read_ce", kAll, kColumn},
    {"host_to_device_memcpy_sm", kHost, kColumn},
    {"device_to_host_memcpy_sm", kColumn, kHost},
    {"host_to_device_bidirectional_memcpy_sm", kHost, kColumn},
    {"device_to_host_bidirectional_memcpy_sm", kColumn, kHost},
    {"device_to_device_memcpy_read_sm", kColumn, kRow},
    {"device_to_device_memcpy_write_sm", kRow, kColumn},
    {"device_to_device_bidirectional_memcpy_read_sm", kColumn, kRow, false, 3},
    {"device_to_device_bidirectional_memcpy_write_sm", kRow, kColumn, false, 3},
    {"all_to_host_memcpy_sm", kColumn, kHost},
    {"all_to_host_bidirectional_memcpy_sm", kColumn, kHost},
    {"host_to_all_memcpy_sm", kHost, kColumn},
    {"host_to_all_bidirectional_memcpy_sm", kHost, kColumn},
    {"all_to_one_write_sm", kAll, kColumn},
    {"all_to_one_read_sm", kColumn, kAll},
    {"one_to_all_write_sm", kColumn, kAll},
    {"one_to_all_read_sm", kAll, kColumn},
    {"host_device_latency_sm", kHost, kColumn, true},
    {"device_to_device_latency_sm", kColumn, kRow, true},
    {"device_local_copy", kColumn, kColumn},
};

bool of_pairs(const TestRow& test) { return test.source == kRow || test.destination == kRow; }

std::string label(End end, size_t row, size_t column) {
  if (end == kHost) return "host";
  if (end == kAll) return "all";
  return fmt::format("gpu {}", end == kRow ? row : column);
}

/// A cell is a text: a number, or "N/A" when nothing was measured.
std::optional<double> cell_value(const Fields& test, const json& cell, size_t row, size_t column) {
  const std::string place = fmt::format("{}[{}][{}]", kMatrix, row, column);
  if (!cell.is_string()) test.fail(place.c_str(), "is not a string");
  const std::string text = cell.get<std::string>();
  if (text == "N/A") return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0 && value < 1e9))
    test.fail(place.c_str(), fmt::format("is '{}'", text), "a positive number, or N/A");
  return value;
}

/// The used rows of the matrix, [row, column].
std::vector<std::vector<std::optional<double>>> cells_of(const Fields& fields, const TestRow& test) {
  const json& matrix = fields.array(kMatrix);
  std::vector<std::vector<std::optional<double>>> cells;
  for (size_t row = 0; row < matrix.size(); ++row) {
    const std::string place = fmt::format("{}[{}]", kMatrix, row);
    if (!matrix[row].is_array() || matrix[row].size() != matrix[0].size() || matrix[row].empty())
      fields.fail(place.c_str(), "is not a row as long as the first");
    cells.emplace_back();
    for (size_t column = 0; column < matrix[row].size(); ++column)
      cells.back().push_back(cell_value(fields, matrix[row][column], row, column));
  }
  const size_t rows = cells.empty() ? 0 : of_pairs(test) ? cells[0].size() : 1;
  const size_t expected = rows * static_cast<size_t>(test.blocks);
  if (cells.empty() || cells.size() != expected)
    fields.fail(kMatrix, fmt::format("has {} rows", cells.size()),
                fmt::format("{} rows", std::max<size_t>(expected, 1)));
  cells.erase(cells.begin(), cells.end() - static_cast<std::ptrdiff_t>(rows));
  return cells;
}

Series series_of(const TestRow& test, double value) {
  return test.latency ? Series{"latency", "us", {value * 1e-3}} : Series{"bandwidth", "GB/s", {value}};
}

void read_test(const Fields& fields, const TestRow& test, const Provenance& provenance, const std::string& origin,
               Measurements& found) {
  const char* unit = test.latency ? "(ns)" : "(GB/s)";
  if (const std::string text = fields.text(kDescription); !text.ends_with(unit))
    fields.fail(kDescription, fmt::format("is '{}'", text), fmt::format("a figure in {}", unit));
  const auto cells = cells_of(fields, test);
  for (size_t row = 0; row < cells.size(); ++row)
    for (size_t column = 0; column < cells[row].size(); ++column) {
      if (!cells[row][column]) continue;
      Record record;
      record.kind = "link";
      record.provenance = provenance;
      record.source = fmt::format("{}: {}[{}][{}] of {}", origin, kMatrix, row, column, test.name);
      record.axes = {{"test", std::string(test.name)},
                     {"source", label(test.source, row, column)},
                     {"destination", label(test.destination, row, column)}};
      record.series = {series_of(test, *cells[row][column])};
      add_record(found, std::move(record), origin);
    }
}

/// "0: NVIDIA H200 (00000000:18:00): (host-1)" gives the device's name and the host.
void add_device(const Fields& document, const std::string& text, Provenance& provenance) {
  const size_t colon = text.find(": "), bus = text.find(" (", colon), host = text.rfind(": (");
  if (colon == std::string::npos || bus == std::string::npos || host == std::string::npos || !text.ends_with(')'))
    document.fail("GPU Device list", fmt::format("holds '{}'", text), "INDEX: NAME (BUS): (HOST)");
  provenance.facts["device." + text.substr(0, colon)] = text.substr(colon + 2, bus - colon - 2);
  provenance.host = text.substr(host + 3, text.size() - host - 4);
}

Provenance provenance_of(const Fields& document) {
  Provenance p;
  p.tool_version = "nvbandwidth " + document.text("version");
  p.commit = document.text("git_version");
  p.device_kind = "cuda";
  p.facts = {{"tool", "nvbandwidth"},
             {"driver", document.text("Driver Version")},
             {"cuda_driver_api", fmt::format("{}", document.integer("CUDA Runtime Version"))}};
  const char* devices = "GPU Device list";  // null in versions that do not list them
  if (document.has(devices) && !document.value().at(devices).is_null())
    for (const std::string& device : document.texts(devices)) add_device(document, device, p);
  return p;
}

}  // namespace

Measurements read_nvbandwidth(const Fields& file, const std::string& origin) {
  const Fields document = file.object("nvbandwidth");
  if (document.has("error"))
    document.fail("error", fmt::format("says: {}", document.text("error")), "a run of nvbandwidth that succeeded");
  const Provenance provenance = provenance_of(document);
  Measurements found{"links", provenance.tool_version, {}, {}, true};
  const json& list = document.array("testcases");
  for (size_t i = 0; i < list.size(); ++i) {
    const Fields fields = document.element(list, "testcases", i);
    const std::string name = fields.text("name"), status = fields.text("status");
    const auto test = std::find_if(std::begin(kTests), std::end(kTests), [&](const auto& t) { return t.name == name; });
    if (test == std::end(kTests))
      found.notes.push_back(fmt::format("{}: unknown test '{}' was left out", origin, printable(name, 80)));
    else if (status != "Passed")
      found.notes.push_back(fmt::format("{}: {} has no result: {}{}", origin, name, printable(status, 40),
                                        fields.has("error") ? ": " + printable(fields.text("error"), 160) : ""));
    else
      read_test(fields, *test, provenance, origin, found);
  }
  if (found.records.empty())
    document.fail("testcases", found.notes.empty() ? "holds no result" : "holds no result: " + found.notes.front(),
                  "a run of nvbandwidth that measured something");
  return found;
}

}  // namespace amdahl
