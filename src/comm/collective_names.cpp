// Names of collectives, types and operations as users write them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "amdahl/error.h"
#include "comm/collective_table.h"

namespace amdahl {
namespace {

constexpr std::array<DType, 8> kTypes{DType::f32, DType::f64, DType::f16, DType::bf16,
                                      DType::i32, DType::i64, DType::u8,  DType::u32};
constexpr std::array<ReduceOp, 5> kOps{ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg};

/// The values of all names, without duplicates; "all" stands for `every`.
template <class T, class Find>
std::vector<T> each_once(const std::vector<std::string>& names, const std::vector<T>& every, const Find& find) {
  std::vector<T> found;
  for (const std::string& name : names)
    for (const T& one : name == "all" ? every : std::vector<T>{find(name)})
      if (std::find(found.begin(), found.end(), one) == found.end()) found.push_back(one);
  return found;
}

}  // namespace

const CollectiveRow& find_collective(std::string_view name) {
  std::vector<std::string> names;
  for (const CollectiveRow& row : collective_table()) {
    if (row.name == name || row.peer_program == name) return row;
    names.emplace_back(row.name);
  }
  throw Error(Cause::usage, fmt::format("unknown collective '{}'", name), choices_hint(std::string(name), names));
}

DType parse_dtype(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, DType>, 16> kNames{{{"f32", DType::f32},
                                                                              {"f64", DType::f64},
                                                                              {"f16", DType::f16},
                                                                              {"bf16", DType::bf16},
                                                                              {"i32", DType::i32},
                                                                              {"i64", DType::i64},
                                                                              {"u8", DType::u8},
                                                                              {"u32", DType::u32},
                                                                              {"float", DType::f32},
                                                                              {"double", DType::f64},
                                                                              {"half", DType::f16},
                                                                              {"bfloat16", DType::bf16},
                                                                              {"int32", DType::i32},
                                                                              {"int64", DType::i64},
                                                                              {"uint8", DType::u8},
                                                                              {"uint32", DType::u32}}};
  std::vector<std::string> names;
  for (const auto& [known, type] : kNames) {
    if (known == name) return type;
    names.emplace_back(known);
  }
  throw Error(Cause::usage, fmt::format("unknown data type '{}'", name), choices_hint(std::string(name), names));
}

ReduceOp parse_reduce_op(std::string_view name) {
  std::vector<std::string> names;
  for (const ReduceOp op : kOps) {
    if (to_string(op) == name) return op;
    names.emplace_back(to_string(op));
  }
  throw Error(Cause::usage, fmt::format("unknown operation '{}'", name), choices_hint(std::string(name), names));
}

std::vector<const CollectiveRow*> find_collectives(const std::vector<std::string>& names) {
  std::vector<const CollectiveRow*> every;
  for (const CollectiveRow& row : collective_table()) every.push_back(&row);
  return each_once(names, every, [](const std::string& name) { return &find_collective(name); });
}

std::vector<DType> parse_dtypes(const std::vector<std::string>& names) {
  return each_once(names, std::vector<DType>(kTypes.begin(), kTypes.end()), parse_dtype);
}

std::vector<ReduceOp> parse_reduce_ops(const std::vector<std::string>& names) {
  return each_once(names, std::vector<ReduceOp>(kOps.begin(), kOps.end()), parse_reduce_op);
}

}  // namespace amdahl
