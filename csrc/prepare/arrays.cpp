// Arrays by name: taking them over and finding them.
#include "prepare/arrays.h"

namespace tmol_plugin {

Arrays::Arrays(std::span<const tp_array> arrays) {
  for (const tp_array& array : arrays) {
    if (array.name == nullptr) throw std::invalid_argument("an array has no name");
    if (array.n_bytes < 0 || (array.data == nullptr && array.n_bytes > 0)) {
      fail(array.name, "has no memory");
    }
    const std::span bytes(static_cast<const std::byte*>(array.data),
                          static_cast<std::size_t>(array.n_bytes));
    if (!arrays_.emplace(array.name, bytes).second) fail(array.name, "is there twice");
  }
}

void Arrays::fail(std::string_view name, std::string_view problem) {
  throw std::invalid_argument("array '" + std::string(name) + "' " + std::string(problem));
}

std::span<const std::byte> Arrays::find(std::string_view name) const {
  const auto found = arrays_.find(name);
  if (found == arrays_.end()) fail(name, "is missing");
  return found->second;
}

void refuse_unless(bool holds, std::string_view name) {
  if (!holds) {
    throw std::invalid_argument("array '" + std::string(name) + "' does not fit the others");
  }
}

}  // namespace tmol_plugin
