#include "train/csv_columns.h"

#include <fmt/format.h>

#include <algorithm>

#include "amdahl/error.h"

namespace amdahl {
namespace {

constexpr size_t kMaxCategories = 1000;

using Role = CsvColumn::Role;

std::vector<std::string> names_of(const FileTable& table) {
  std::vector<std::string> names;
  for (const FileColumn& column : table.columns) names.push_back(column.name);
  return names;
}

std::string list_of(const std::vector<std::string>& names) {
  constexpr size_t kShown = 20;
  const auto shown = static_cast<std::ptrdiff_t>(std::min(kShown, names.size()));
  std::string text = fmt::format("{}", fmt::join(names.begin(), names.begin() + shown, ", "));
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

void assign_role(const FileTable& table, const std::vector<std::string>& names, Role role, std::vector<Role>& roles) {
  for (const std::string& name : names) {
    const auto found = std::find_if(table.columns.begin(), table.columns.end(),
                                    [&](const FileColumn& column) { return column.name == name; });
    if (found == table.columns.end()) {
      const std::vector<std::string> known = names_of(table);
      const std::string near = nearest_name(name, known);
      throw Error(Cause::usage,
                  fmt::format("{} has no column '{}' (given as {})", table.text.path, name,
                              role == Role::target ? "a target" : "a column to ignore"),
                  fmt::format("{}one of: {}{}", near.empty() ? "" : fmt::format("'{}'? or ", near), list_of(known),
                              table.has_header ? "" : " (the file has no header line; `header=yes` takes its first)"));
    }
    Role& given = roles[found->index];
    if (given != Role::feature)
      throw Error(Cause::usage, fmt::format("column '{}' is named twice among targets and ignored columns", name),
                  "name it once");
    given = role;
  }
}

std::vector<Role> assign_roles(const FileTable& table, const CsvOptions& options) {
  if (options.target_columns.empty())
    throw Error(Cause::usage, fmt::format("{}: no target column was named", table.text.path),
                fmt::format("name one of: {}", list_of(names_of(table))));
  std::vector<Role> roles(table.columns.size(), Role::feature);
  assign_role(table, options.target_columns, Role::target, roles);
  assign_role(table, options.ignore_columns, Role::ignored, roles);
  if (std::find(roles.begin(), roles.end(), Role::feature) == roles.end())
    throw Error(Cause::usage, fmt::format("{}: no column is left as a feature", table.text.path),
                table.columns.size() == 1 ? "`delimiter` with what divides the columns"
                                          : "a file with at least one column besides the targets");
  return roles;
}

/// Decides whether the column is numeric or categorical; throws when its fields are inconsistent.
void decide_type(CsvTable& csv, CsvColumn& column, CsvOptions::Missing missing) {
  const auto refuse = [&](Cause cause, const CellTally& at, const std::string& what, const std::string& remedy) {
    refuse_cell(cause, csv.path(), at.first_line, column, what, remedy);
  };
  const ColumnKind kind = decide_kind(csv.table, column);
  if (kind == ColumnKind::nothing)
    refuse(Cause::data_corrupt, column.missing, "no row has a value", "`ignored` this column");
  column.categorical = kind == ColumnKind::words;
  if (!column.categorical && column.non_finite.count > 0)
    refuse(Cause::non_finite, column.non_finite,
           fmt::format("'{}' is not a finite 32-bit number", column.non_finite.first_text),
           "correct the value, or leave it empty and use `missing=drop` or `missing=mean`");
  if (column.missing.count == 0) return;
  const bool target = column.role == Role::target;
  if (missing == CsvOptions::Missing::refuse || (target && missing == CsvOptions::Missing::mean))
    refuse(
        Cause::data_corrupt, column.missing,
        fmt::format(
            "{}a missing value ({} in this column{})",
            column.missing.first_text.empty() ? "" : fmt::format("'{}' is ", printable(column.missing.first_text, 40)),
            with_thousands(column.missing.count), target ? ", a target" : ""),
        target ? "`missing=drop`" : "`missing=drop` or `missing=mean`");
}

void collect_categories(CsvTable& csv) {
  std::vector<CsvColumn*> categorical;
  for (CsvColumn& column : csv.columns)
    if (column.categorical) categorical.push_back(&column);
  if (categorical.empty()) return;
  size_t words = 0;  // each becomes a feature
  csv.for_each_row([&](const CsvRow& row) {
    for (CsvColumn* column : categorical) {
      const std::string_view cell = row.fields[column->index];
      double value = 0;
      if (csv.read(*column, row, value) == CellKind::missing ||
          column->categories.find(cell) != column->categories.end())
        continue;
      if (column->categories.size() == kMaxCategories)
        refuse_cell(Cause::data_corrupt, csv.path(), row.line, *column,
                    fmt::format("more than {} different words", kMaxCategories),
                    "`ignored` this column (an identifier?), or merge rare values");
      column->categories.emplace(cell, 0);
      if (++words > kMostCsvFields)
        refuse_cell(Cause::data_corrupt, csv.path(), row.line, *column,
                    fmt::format("more than {} different words in all columns, each of which becomes a feature",
                                with_thousands(static_cast<int64_t>(kMostCsvFields))),
                    "`ignored` columns of identifiers, or merge rare values");
    }
  });
  for (CsvColumn* column : categorical) {
    int position = 0;
    for (auto& [text, index] : column->categories) index = position++;
  }
}

}  // namespace

bool CsvTable::is_complete(const CsvRow& row) const {
  return std::none_of(columns.begin(), columns.end(), [&](const CsvColumn& column) {
    return column.role != Role::ignored && column.missing.count > 0 && table.markers.contains(row.fields[column.index]);
  });
}

CsvTable scan_csv(const CsvOptions& options) {
  CsvTable csv;
  csv.drop_incomplete = options.missing == CsvOptions::Missing::drop_row;
  std::vector<std::string> named = options.target_columns;
  named.insert(named.end(), options.ignore_columns.begin(), options.ignore_columns.end());
  csv.table = open_table(options.path, options.table, named);
  const std::vector<Role> roles = assign_roles(csv.table, options);
  tally_fields(csv.table);
  for (FileColumn& column : csv.table.columns) {
    CsvColumn& typed = csv.columns.emplace_back();
    typed.role = roles[column.index];
    static_cast<FileColumn&>(typed) = std::move(column);
  }
  for (CsvColumn& column : csv.columns)
    if (column.role != Role::ignored) decide_type(csv, column, options.missing);
  collect_categories(csv);
  return csv;
}

}  // namespace amdahl
