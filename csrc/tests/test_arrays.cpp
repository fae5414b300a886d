// Arrays by name: elements of the right type and number, or an error that names the array.
#include <doctest.h>

#include <array>
#include <string>
#include <vector>

#include "prepare/arrays.h"

namespace tmol_plugin {
namespace {

TEST_CASE("elements are read where they lie") {
  const std::vector<std::int32_t> numbers = {1, 2, 3};
  const std::array<tp_array, 2> given = {{{"numbers", numbers.data(), 12}, {"none", nullptr, 0}}};
  const Arrays arrays(given);
  const auto read = arrays.get<std::int32_t>("numbers");
  CHECK(read.data() == numbers.data());
  CHECK(read.size() == 3);
  CHECK(arrays.get<double>("none").empty());
}

TEST_CASE("what does not fit is refused by name") {
  alignas(8) const std::array<char, 16> bytes = {};
  const std::array<tp_array, 2> given = {
      {{"odd", bytes.data(), 13}, {"shifted", bytes.data() + 1, 8}}};
  const Arrays arrays(given);
  CHECK_THROWS_WITH(arrays.get<float>("absent"), "array 'absent' is missing");
  CHECK_THROWS_WITH(arrays.get<float>("odd"), "array 'odd' ends within an element");
  CHECK_THROWS_WITH(arrays.get<float>("shifted"), "array 'shifted' is not aligned");
  CHECK(arrays.get<char>("odd").size() == 13);
}

}  // namespace
}  // namespace tmol_plugin
