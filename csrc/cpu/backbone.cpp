// Loads the tables of the backbone terms, and adds their energies up.
#include "cpu/backbone.h"

#include <cmath>
#include <string>

#include "cpu/torsion_tables.h"

namespace tmol_plugin {
namespace {

constexpr size_t kPoints = size_t(kGrid) * kGrid;

// The first points of `n` tables, whose steps must make a whole turn.
std::vector<float> starts(const Arrays& arrays, const std::string& term, size_t n) {
  for (float step : arrays.get<float>(term + ".step", 2 * n)) {
    refuse_unless(std::abs(step * kGrid - 2 * kPi) < 1e-3, term + ".step");
  }
  const auto start = arrays.get<float>(term + ".start", 2 * n);
  for (float angle : start) refuse_unless(std::abs(angle) <= 2 * kPi, term + ".start");
  return {start.begin(), start.end()};
}

// Coefficients [n, kGrid, kGrid, parts] of splines through tables, part by part.
std::vector<float> splines(const std::vector<std::span<const float>>& parts) {
  const size_t n_parts = parts.size();
  std::vector<double> values(parts[0].size() * n_parts);
  for (size_t i = 0; i < values.size(); ++i) values[i] = parts[i % n_parts][i / n_parts];
  fit_spline(values, n_parts);
  fit_spline(values, n_parts * kGrid);
  return {values.begin(), values.end()};
}

}  // namespace

BackboneTorsions::BackboneTorsions(const Arrays& arrays, const BlockTypes& types)
    : types_(types.view()), torsions_(torsion_atoms(arrays, types, "rama.torsions", 3)) {
  const size_t n_types = types.n_types();
  const auto up = arrays.get<int32_t>("block_type.up_connection", n_types);
  for (size_t t = 0; t < n_types; ++t) {
    refuse_unless(up[t] < types.n_connections(int(t)), "block_type.up_connection");
  }
  up_connection_.assign(up.begin(), up.end());
  for (uint8_t flag : arrays.get<uint8_t>("rama.is_proline", n_types)) {
    is_proline_.push_back(flag != 0);
  }

  const auto rama = arrays.get<float>("rama.tables");
  refuse_unless(rama.size() % kPoints == 0, "rama.tables");
  rama_ = splines({rama});
  rama_start_ = starts(arrays, "rama", rama.size() / kPoints);
  const auto means = arrays.get<float>("omega.means");
  refuse_unless(means.size() % kPoints == 0, "omega.means");
  omega_ = splines({means, arrays.get<float>("omega.deviations", means.size())});
  omega_start_ = starts(arrays, "omega", means.size() / kPoints);

  const auto rama_table = arrays.get<int32_t>("rama.table", 2 * n_types);
  const auto omega_table = arrays.get<int32_t>("omega.table", 2 * n_types);
  const auto rama_mirrored = arrays.get<uint8_t>("rama.is_mirrored", 2 * n_types);
  const auto omega_mirrored = arrays.get<uint8_t>("omega.is_mirrored", 2 * n_types);
  for (size_t i = 0; i < 2 * n_types; ++i) {
    refuse_unless(rama_table[i] < int(rama.size() / kPoints), "rama.table");
    refuse_unless(omega_table[i] < int(means.size() / kPoints), "omega.table");
    tables_.push_back(
        {rama_table[i], omega_table[i], rama_mirrored[i] != 0, omega_mirrored[i] != 0});
  }
  view_ = {up_connection_.data(), is_proline_.data(), tables_.data(), torsions_.data(),
           rama_.data(),          rama_start_.data(), omega_.data(),  omega_start_.data()};
}

void BackboneTorsions::score(const PoseView& pose, int block, BlockEnergies& energies) const {
  const auto found = backbone_energies(types_, view_, pose, block);
  if (found.next < 0) return;
  energies.add_pair(kRama, found.next, found.rama);
  energies.add_pair(kOmega, found.next, found.omega);
}

}  // namespace tmol_plugin
