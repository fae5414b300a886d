// Arrays by name, as the compiled parameters hold them: borrowed memory, checked when taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tmol_plugin.h"

namespace tmol_plugin {

class Arrays {
 public:
  // Throws std::invalid_argument if two have one name or one has no memory.
  explicit Arrays(std::span<const tp_array> arrays);

  // The elements of an array; throws std::invalid_argument if it is missing, ends within an
  // element, or does not start where an element may.
  template <class T>
  std::span<const T> get(std::string_view name) const {
    const std::span<const std::byte> bytes = find(name);
    if (bytes.size() % sizeof(T) != 0) fail(name, "ends within an element");
    if (reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(T) != 0) {
      fail(name, "is not aligned");
    }
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }

  // The same of an array that must have `n_items`; throws also if it has not.
  template <class T>
  std::span<const T> get(std::string_view name, size_t n_items) const {
    const std::span<const T> values = get<T>(name);
    if (values.size() != n_items) {
      fail(name, "does not fit the others: " + std::to_string(values.size()) + " items, not " +
                     std::to_string(n_items));
    }
    return values;
  }

 private:
  [[noreturn]] static void fail(std::string_view name, std::string_view problem);
  std::span<const std::byte> find(std::string_view name) const;

  std::map<std::string, std::span<const std::byte>, std::less<>> arrays_;
};

// Throws std::invalid_argument naming the array, unless what others say of it holds.
void refuse_unless(bool holds, std::string_view name);

}  // namespace tmol_plugin
