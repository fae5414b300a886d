// Loads the rotamer libraries, and adds their energies up.
#include "cpu/dunbrack.h"

#include <algorithm>
#include <cmath>

#include "cpu/torsion_tables.h"

namespace tmol_plugin {
namespace {

constexpr size_t kPoints = size_t(kGrid) * kGrid;
constexpr double kDegree = kPi / 180;

// Offsets of `n` parts of `total` rows.
std::span<const int32_t> offsets(const Arrays& arrays, const char* name, size_t n, size_t total) {
  const auto found = arrays.get<int32_t>(name, n + 1);
  refuse_unless(
      found[0] == 0 && std::is_sorted(found.begin(), found.end()) && size_t(found[n]) == total,
      name);
  return found;
}

double energy(float probability) { return -std::log(probability == 0 ? 1e-6 : probability); }

void append(std::vector<float>& all, const std::vector<double>& values) {
  all.insert(all.end(), values.begin(), values.end());
}

}  // namespace

Dunbrack::Dunbrack(const Arrays& arrays, const BlockTypes& types)
    : types_(types.view()),
      torsions_(torsion_atoms(arrays, types, "dunbrack.torsions", 2 + kMaxChi)) {
  const size_t n_types = types.n_types();
  const size_t n_libraries = arrays.get<int32_t>("dunbrack.n_chi").size();
  const auto library = arrays.get<int32_t>("dunbrack.library", n_types);
  for (int32_t at : library) refuse_unless(at < int(n_libraries), "dunbrack.library");
  library_.assign(library.begin(), library.end());
  const auto is_mirrored = arrays.get<uint8_t>("dunbrack.is_mirrored", n_types);
  is_mirrored_.assign(is_mirrored.begin(), is_mirrored.end());
  for (size_t at = 0; at < n_libraries; ++at) load_library(arrays, int(at));
  view_ = {library_.data(), is_mirrored_.data(), torsions_.data(),     libraries_.data(),
           wells_.data(),   tables_.data(),      semirotameric_.data()};
}

void Dunbrack::load_library(const Arrays& arrays, int at) {
  const auto n_chi = arrays.get<int32_t>("dunbrack.n_chi");
  const size_t n = n_chi.size();
  const auto n_rotameric = arrays.get<int32_t>("dunbrack.n_rotameric_chi", n);
  const auto start = arrays.get<float>("dunbrack.start", 2 * n);
  const auto step = arrays.get<float>("dunbrack.step", 2 * n);
  const auto grid = arrays.get<float>("dunbrack.semirotameric_grid", 3 * n);
  const auto probabilities = arrays.get<float>("dunbrack.probabilities");
  const auto means = arrays.get<float>("dunbrack.means");
  const auto deviations = arrays.get<float>("dunbrack.deviations", means.size());
  const auto semirotameric = arrays.get<float>("dunbrack.semirotameric_probabilities");
  const auto well_rotamer = arrays.get<int32_t>("dunbrack.well_rotamer");
  const auto well_row = arrays.get<int32_t>("dunbrack.well_semirotameric", well_rotamer.size());
  const auto rotamers =
      offsets(arrays, "dunbrack.rotamer_offset", n, probabilities.size() / kPoints);
  const auto chis = offsets(arrays, "dunbrack.chi_offset", n, means.size() / kPoints);
  const auto wells = offsets(arrays, "dunbrack.well_offset", n, well_rotamer.size());
  const auto rows =
      offsets(arrays, "dunbrack.semirotameric_offset", n, semirotameric.size() / (kPoints * kGrid));

  const float* const last = &grid[3 * at];
  const RotamerLibrary library = {
      n_chi[at],
      n_rotameric[at],
      {float(start[2 * at] * kDegree), float(start[2 * at + 1] * kDegree)},
      float(last[0] * kDegree),
      float(last[1] * kDegree),
      wells[at],
      int64_t(tables_.size()),
      int64_t(semirotameric_.size())};
  const bool is_rotameric = library.is_rotameric();
  const int n_rotamers = rotamers[at + 1] - rotamers[at];
  refuse_unless(n_chi[at] >= 1 && n_chi[at] <= kMaxChi, "dunbrack.n_chi");
  refuse_unless(n_rotameric[at] == n_chi[at] || n_rotameric[at] == n_chi[at] - 1,
                "dunbrack.n_rotameric_chi");
  refuse_unless(chis[at + 1] - chis[at] == n_rotamers * n_chi[at], "dunbrack.chi_offset");
  for (int i : {2 * at, 2 * at + 1}) {
    refuse_unless(std::abs(start[i]) <= 360, "dunbrack.start");
    refuse_unless(step[i] * kGrid == 360, "dunbrack.step");
  }
  refuse_unless(is_rotameric || (std::abs(last[0]) <= 360 && last[1] * kGrid == last[2] &&
                                 (last[2] == 180 || last[2] == 360)),
                "dunbrack.semirotameric_grid");
  int n_combinations = 1;
  for (int i = 0; i < n_rotameric[at]; ++i) n_combinations *= 3;
  refuse_unless(wells[at + 1] - wells[at] == n_combinations, "dunbrack.well_offset");

  // Of a semirotameric library only those rotamers are read that are the first of their wells:
  // their tables are put in the order of the semirotameric ones.
  const int n_tables = is_rotameric ? n_rotamers : rows[at + 1] - rows[at];
  std::vector<int> rotamer_of(n_tables, 0);
  for (int w = wells[at]; w < wells[at + 1]; ++w) {
    const int rotamer = well_rotamer[w], table = is_rotameric ? rotamer : well_row[w];
    refuse_unless(rotamer >= 0 && rotamer < n_rotamers, "dunbrack.well_rotamer");
    refuse_unless(table >= 0 && table < n_tables, "dunbrack.well_semirotameric");
    rotamer_of[table] = rotamer;
    wells_.push_back(table);
  }
  const size_t n_values = library.n_values();
  std::vector<double> values(n_tables * kPoints * n_values);
  for (int t = 0; t < n_tables; ++t) {
    const size_t rotamer = rotamers[at] + rotamer_of[t];
    const size_t first_chi = chis[at] + size_t(rotamer_of[t]) * n_chi[at];
    for (size_t p = 0; p < kPoints; ++p) {
      double* const point = &values[(t * kPoints + p) * n_values];
      for (int i = 0; i < n_rotameric[at]; ++i) {
        const float mean = means[(first_chi + i) * kPoints + p];
        point[2 * i] = (mean < -120 ? mean + 360.0 : mean) * kDegree;
        point[2 * i + 1] = deviations[(first_chi + i) * kPoints + p] * kDegree;
      }
      if (is_rotameric) point[n_values - 1] = energy(probabilities[rotamer * kPoints + p]);
    }
  }
  fit_spline(values, n_values);
  fit_spline(values, n_values * kGrid);
  append(tables_, values);

  const size_t size = kPoints * kGrid;
  values.assign((rows[at + 1] - rows[at]) * size, 0);
  const auto own = semirotameric.subspan(rows[at] * size, values.size());
  std::transform(own.begin(), own.end(), values.begin(), energy);
  for (size_t stride : {size_t(1), size_t(kGrid), kPoints}) fit_spline(values, stride);
  append(semirotameric_, values);
  libraries_.push_back(library);
}

void Dunbrack::score(const PoseView& pose, int block, BlockEnergies& energies) const {
  const auto found = dunbrack_energies(types_, view_, pose, block);
  energies.add(kDunbrackRot, found.rot);
  energies.add(kDunbrackRotDev, found.rotdev);
  energies.add(kDunbrackSemiRot, found.semirot);
}

}  // namespace tmol_plugin
