// Rows across connections that TMol's own database has none of, and the sums over multiples.
#include <doctest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "cpu/cart.h"

using namespace tmol_plugin;

namespace {

// Parameters of one block type: atom 0 has a connection and two neighbours, 1 and 2. Wildcard ids
// 0, 1, 2; cross ids 3, 4, 5; the unique id of atom 1 is 6; 7 is in no key.
struct Parameters {
  std::map<std::string, std::vector<int32_t>> ints = {
      {"block_type.atom_offset", {0, 3}},
      {"block_type.connection_offset", {0, 1}},
      {"block_type.path_offset", {0, 9}},
      {"connection.atom", {0}},
      {"connection.downstream", {0, 1, 2}},
      {"connection.paths", std::vector<int32_t>(39, -1)},
      {"atom.type", {0, 0, 0}},
      {"cart.offset", {0, 0}},
      {"cart.atoms", {}},
      {"cart.parameter", {}},
      {"cart.connection_key", {}},
      {"cart.connection_parameter", {}},
      {"cart.unique_id", {7, 6, 7}},
      {"cart.wildcard_id", {0, 1, 2}},
      {"cart.cross_id", {3, 4, 5}},
  };
  std::map<std::string, std::vector<uint8_t>> bytes = {
      {"block_type.path_distance", {0, 1, 1, 1, 0, 2, 1, 2, 0}},
      {"atom_type.is_rosetta", {1}},
      {"cart.parameter_type", {}},
  };
  std::vector<float> values;

  Parameters() {
    auto& paths = ints["connection.paths"];
    paths[0] = paths[3] = paths[6] = 0;
    paths[4] = 1;
    paths[7] = 2;
  }

  void add_key(std::vector<int32_t> key, uint8_t kind, std::vector<float> row) {
    key.resize(4, -1);
    row.resize(6);
    auto& keys = ints["cart.connection_key"];
    keys.insert(keys.end(), key.begin(), key.end());
    ints["cart.connection_parameter"].push_back(int(bytes["cart.parameter_type"].size()));
    bytes["cart.parameter_type"].push_back(kind);
    values.insert(values.end(), row.begin(), row.end());
  }

  std::array<double, kNScoreTypes> energies() const {
    std::vector<tp_array> given;
    for (const auto& [name, of] : ints)
      given.push_back({name.c_str(), of.data(), int64_t(4 * of.size())});
    for (const auto& [name, of] : bytes)
      given.push_back({name.c_str(), of.data(), int64_t(of.size())});
    given.push_back({"cart.parameter_values", values.data(), int64_t(4 * values.size())});
    // An empty vector may have no memory, which an array must have.
    for (tp_array& array : given) array.data = array.n_bytes > 0 ? array.data : &values;
    const Arrays arrays(given);
    const BlockTypes types(arrays);
    const Cart cart(arrays, types);
    BlockEnergies sums(true);
    std::array<double, kNScoreTypes> totals = {};
    for (int block = 0; block < 2; ++block) {
      sums.clear();
      cart.score(pose, block, sums);
      for (int t = 0; t < kNScoreTypes; ++t) totals[t] += sums.sums()[t];
      for (const BlockEnergies::Half& half : sums.halves()) totals[half.type] += half.energy;
    }
    return totals;
  }

  static constexpr float coords[] = {0,    0, 0, 1.5f, 0.2f, 0,    -0.4f, 1.3f, 0.3f,
                                     0.1f, 0, 2, 1.4f, 0.3f, 2.1f, -0.5f, 1.2f, 2.6f};
  static constexpr int32_t block_types[] = {0, 0}, atom_offsets[] = {0, 3, 6},
                           connection_offsets[] = {0, 1, 2}, connections[] = {1, 0, 0, 0};
  static constexpr PoseView pose = {
      2, coords, block_types, atom_offsets, connection_offsets, connections};
};

Vec3<double> at(int atom) { return Parameters::pose.position<double>(atom); }

double torsion_energy(std::array<int, 4> atoms, std::array<double, 3> k,
                      std::array<double, 3> phi) {
  const Vec3<double> b1 = at(atoms[1]) - at(atoms[0]), b2 = at(atoms[2]) - at(atoms[1]),
                     b3 = at(atoms[3]) - at(atoms[2]);
  const Vec3<double> n1 = cross(b1, b2), n2 = cross(b2, b3);
  const double x = std::atan2(dot(cross(n1, n2), b2) / norm(b2), dot(n1, n2));
  double sum = 0;
  for (int n = 1; n <= 3; ++n) sum += k[n - 1] * (std::cos(n * x - phi[n - 1]) + 1);
  return sum;
}

}  // namespace

TEST_CASE("a length across a connection is found from both sides, and each counts") {
  Parameters parameters;
  CHECK(parameters.energies()[kCartLengths] == 0);
  parameters.add_key({0, 3}, 0, {1.3f, 300});
  const double off = norm(at(0) - at(3)) - double(1.3f);
  CHECK(parameters.energies()[kCartLengths] == doctest::Approx(2 * 150 * off * off).epsilon(1e-6));
}

TEST_CASE("unique ids of the near block go before wildcard ids") {
  Parameters parameters;
  parameters.add_key({1, 0, 3}, 1, {1, 50});
  const double wildcard = parameters.energies()[kCartAngles];
  CHECK(wildcard > 0);
  // A key of unique ids alone: atom 0 is in none.
  parameters.add_key({6, 7, 3}, 1, {1, 100});
  CHECK(parameters.energies()[kCartAngles] == doctest::Approx(2 * wildcard).epsilon(1e-6));
}

TEST_CASE("a torsion across a connection sums its multiples") {
  Parameters parameters;
  parameters.add_key({1, 0, 3, 5}, 2, {1.5f, 0.7f, 2.2f, 0.4f, -1.1f, 2.9f});
  const double expected = torsion_energy({1, 0, 3, 5}, {1.5, 0.7, 2.2}, {0.4, -1.1, 2.9}) +
                          torsion_energy({4, 3, 0, 2}, {1.5, 0.7, 2.2}, {0.4, -1.1, 2.9});
  CHECK(parameters.energies()[kCartTorsions] == doctest::Approx(expected).epsilon(1e-5));
  parameters.bytes["atom_type.is_rosetta"] = {0};
  CHECK(parameters.energies()[kCartTorsions] == 0);
}

TEST_CASE("an improper across a connection has its center third, neighbours in each order") {
  Parameters parameters;
  const auto energy = [](std::array<int, 4> atoms) {
    return torsion_energy(atoms, {10, 0, 0}, {2, 0, 0});
  };
  parameters.add_key({1, 2, 0, 3}, 3, {10, 0, 0, 2});
  double expected = energy({1, 2, 0, 3}) + energy({4, 5, 3, 0});
  CHECK(parameters.energies()[kCartImpropers] == doctest::Approx(expected).epsilon(1e-5));
  parameters.add_key({3, 1, 0, 2}, 3, {10, 0, 0, 2});
  expected += energy({3, 1, 0, 2}) + energy({0, 4, 3, 5});
  CHECK(parameters.energies()[kCartImpropers] == doctest::Approx(expected).epsilon(1e-5));
  parameters.bytes["atom_type.is_rosetta"] = {0};
  CHECK(parameters.energies()[kCartImpropers] == 0);
}

TEST_CASE("rows that name other atoms than a block type has are refused by name") {
  const auto refused = [](const char* name, std::vector<int32_t> value, const char* by) {
    Parameters parameters;
    parameters.add_key({0, 3}, 0, {1.3f, 300});
    parameters.ints["cart.offset"] = {0, 1};
    parameters.ints["cart.atoms"] = {0, 1, -1, -1};
    parameters.ints["cart.parameter"] = {0};
    CHECK_NOTHROW(parameters.energies());
    parameters.ints[name] = value;
    CHECK_THROWS_WITH_AS(parameters.energies(), doctest::Contains(by), std::invalid_argument);
  };
  refused("cart.atoms", {0, 3, -1, -1}, "cart.atoms");
  refused("cart.atoms", {0, -2, -1, -1}, "cart.atoms");
  refused("cart.atoms", {-1, -1, 0, 1}, "cart.parameter");
  refused("cart.atoms", {0, 1, 2, -1}, "cart.parameter");
  refused("cart.parameter", {1}, "cart.parameter");
  refused("cart.parameter", {-1}, "cart.parameter");
  refused("cart.offset", {0, 2}, "cart.offset");
  refused("cart.connection_parameter", {1}, "cart.connection_key");
  refused("cart.unique_id", {0, 1}, "cart.unique_id");
  refused("connection.paths", std::vector<int32_t>(39, 0), "connection.paths");
  refused("connection.paths", std::vector<int32_t>(39, -1), "connection.paths");
}
