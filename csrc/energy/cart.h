// Energies of bonded geometry: lengths, angles and torsions about their ideal values.
//
// Angstroms and radians. A length or an angle x: K / 2 (x - x0)^2; a torsion: the sum over
// n = 1, 2, 3 of k_n (cos(n x - phi_n) + 1). As TMol's score/cartbonded.
#pragma once

#include "energy/angles.h"
#include "energy/pose_view.h"

namespace tmol_plugin {

// Rows of one kind side by side.
inline constexpr int kCartLanes = 4;

template <class Kind>
struct CartPack {
  int32_t atoms[Kind::kAtoms][kCartLanes];
  float values[Kind::kValues][kCartLanes];
};

// Values: x0, K / 2.
struct CartLength {
  static constexpr int kAtoms = 2, kValues = 2;

  template <class S>
  static TP_FN S energy(const Vec3<S>* at, const S* values) {
    const S off = norm(at[0] - at[1]) - values[0];
    return values[1] * off * off;
  }
};

// Values: x0, K / 2.
struct CartAngle {
  static constexpr int kAtoms = 3, kValues = 2;

  template <class S>
  static TP_FN S energy(const Vec3<S>* at, const S* values) {
    const S off = bond_angle(at[0], at[1], at[2]) - values[0];
    return values[1] * off * off;
  }
};

// The sum over n is a polynomial of third degree in the cosine of x, and the sine times one of
// second. Values: coefficients of both, lowest power first.
struct CartTorsion {
  static constexpr int kAtoms = 4, kValues = 7;

  template <class S>
  static TP_FN S energy(const Vec3<S>* at, const S* values) {
    const auto [c, s] = torsion(at[0], at[1], at[2], at[3]);
    const S even = values[0] + c * (values[1] + c * (values[2] + c * values[3]));
    return even + s * (values[4] + c * (values[5] + c * values[6]));
  }
};

// Lengths, angles, torsions, impropers, hydroxyl torsions: as the score types follow each other.
inline constexpr int kCartKinds = 5;

// Packs of each kind, from begin up to end; the last three kinds are all torsions.
struct CartRows {
  int32_t begin[kCartKinds], end[kCartKinds];
};

// The paths of up to 3 atoms that enter a block through a connection.
inline constexpr int kPaths = 13;

// Rows of block types name atoms of the block. Rows of crossings, across the connection of two
// blocks, name the ends of paths: p of the first block, kPaths + p of the second.
struct CartView {
  const CartPack<CartLength>* lengths;
  const CartPack<CartAngle>* angles;
  const CartPack<CartTorsion>* torsions;
  const CartRows* rows;             // of each block type, then of crossings
  const int32_t* path_ends;         // [n_connections, kPaths] atom of the block type; -1
  const int32_t* connection_class;  // [n_connections]
  const int32_t* crossings;         // [n_classes, n_classes] into rows; -1
  int32_t n_classes;
};

}  // namespace tmol_plugin
