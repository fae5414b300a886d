// dunbrack_rot, dunbrack_rotdev, dunbrack_semirot: energies of side chain torsions given phi and
// psi, from rotamer libraries (TMol: score/dunbrack; the libraries: Shapovalov and Dunbrack,
// Structure 19, 844, 2011).
//
// Rotameric chi fall into wells; a combination of wells is a rotamer, with its probability and
// each chi's mean and deviation. The last chi of a semirotameric library falls into none: its
// table is a function of it, given the rotamer of the others. Radians.
#pragma once

#include "energy/geometry.h"
#include "energy/spline.h"

namespace tmol_plugin {

inline constexpr int kMaxChi = 4;

struct RotamerLibrary {
  int32_t n_chi, n_rotameric_chi;
  float start[2];               // phi and psi of the tables' first point
  float last_start, last_step;  // of the last chi, if it is not rotameric
  int32_t well_begin;           // its row of wells
  int64_t table_begin;          // its first element of tables
  int64_t semirotameric_begin;  // its first element of semirotameric

  TP_FN bool is_rotameric() const { return n_rotameric_chi == n_chi; }
  TP_FN int n_values() const { return 2 * n_rotameric_chi + is_rotameric(); }
};

struct DunbrackView {
  const int32_t* library;      // [n_types] -1: none
  const uint8_t* is_mirrored;  // [n_types] the library is that of the mirrored residue
  const AtomId* torsions;      // [n_types, 2 + kMaxChi, 4] phi, psi, chi
  const RotamerLibrary* libraries;
  const int32_t* wells;        // the table of a combination of wells, the last chi's fastest
  const float* tables;         // [.., kGrid, kGrid, n_values] means and deviations by chi,
                               // -log(probability)
  const float* semirotameric;  // [.., kGrid, kGrid, kGrid] -log(probability)
};

template <class S>
struct DunbrackEnergies {
  S rot, rotdev, semirot;
};

// 0: from 0 to below 120 degrees, 1: about 180, 2: from -120 to below 0.
template <class S>
TP_FN int rotamer_well(S chi) {
  const S third = S(2 * kPi / 3);
  if (chi < -third || chi >= third) return 1;
  return chi < 0 ? 2 : 0;
}

// Half the square of the difference of two angles less than three halves of a turn apart, in
// deviations.
template <class S>
TP_FN S chi_deviation(S chi, S mean, S deviation) {
  S difference = chi - mean;
  if (difference > S(kPi)) difference -= S(2 * kPi);
  if (difference < -S(kPi)) difference += S(2 * kPi);
  return difference * difference / (2 * deviation * deviation);
}

template <class S = float>
TP_FN DunbrackEnergies<S> dunbrack_energies(const BlockTypesView& types, const DunbrackView& view,
                                            const PoseView& pose, int block) {
  DunbrackEnergies<S> found = {0, 0, 0};
  const int type = pose.block_types[block];
  if (view.library[type] < 0) return found;
  const RotamerLibrary& library = view.libraries[view.library[type]];
  const bool is_mirrored = view.is_mirrored[type];
  const AtomId* ids = view.torsions + type * (2 + kMaxChi) * 4;
  // What is missing at the ends of a chain is -60 and 60 degrees, and a chi 0.
  S torsions[2 + kMaxChi] = {S(-kPi / 3), S(kPi / 3)};
  int wells = 0;
  for (int i = 0; i < 2 + library.n_chi; ++i) {
    const bool is_there = measure_torsion(types, pose, block, ids + 4 * i, torsions[i]);
    if (i >= 2 && i < 2 + library.n_rotameric_chi) {
      // As TMol: the well of a mirrored residue is found before its chi is negated.
      const int well = rotamer_well(torsions[i]);
      wells = 3 * wells + (is_mirrored ? 2 - well : well);
    }
    if (is_there && is_mirrored) torsions[i] = -torsions[i];
  }
  const int table = view.wells[library.well_begin + wells];
  const S step = S(float(2 * kPi / kGrid));
  const Stencil<S> phi = stencil((torsions[0] - library.start[0]) / step);
  const Stencil<S> psi = stencil((torsions[1] - library.start[1]) / step);
  const S* chi = torsions + 2;

  const int n_values = library.n_values();
  S values[2 * kMaxChi + 1];
  const int64_t size = kGrid * kGrid * n_values;
  spline(view.tables + library.table_begin + table * size, n_values, phi, psi, values);
  for (int i = 0; i < library.n_rotameric_chi; ++i) {
    found.rotdev += chi_deviation(chi[i], values[2 * i], values[2 * i + 1]);
  }
  if (library.is_rotameric()) {
    found.rot = values[n_values - 1];
  } else {
    const S last = chi[library.n_chi - 1];
    found.semirot = spline(
        view.semirotameric + library.semirotameric_begin + int64_t(table) * kGrid * kGrid * kGrid,
        phi, psi, stencil((last - library.last_start) / S(library.last_step)));
  }
  return found;
}

}  // namespace tmol_plugin
