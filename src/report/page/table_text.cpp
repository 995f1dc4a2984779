#include "report/page/table_text.h"

#include <cmath>

#include "amdahl/units.h"
#include "base/number_text.h"

namespace amdahl {

std::string table_text(const TableValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* whole = std::get_if<int64_t>(&value)) return with_thousands(*whole);
  constexpr int kDigits = 4;  // ratios near 1 differ in the third decimal place
  if (const auto* number = std::get_if<double>(&value); number && std::isfinite(*number))
    return format_number(*number, kDigits);
  return "n/a";
}

std::vector<bool> number_columns(const DataTable& table) {
  std::vector<bool> numbers(table.columns.size(), !table.rows.empty());
  for (const std::vector<TableValue>& row : table.rows)
    for (size_t i = 0; i < row.size() && i < numbers.size(); ++i)
      if (std::holds_alternative<std::string>(row[i])) numbers[i] = false;
  return numbers;
}

}  // namespace amdahl
