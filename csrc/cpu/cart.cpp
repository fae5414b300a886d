// Packs rows of bonded geometry side by side, and adds their energies up.
#include "cpu/cart.h"

#include <cmath>
#include <experimental/simd>

#include "cpu/cart_tables.h"

namespace tmol_plugin {
namespace {

namespace stdx = std::experimental;
using Lanes = stdx::simd<float, stdx::simd_abi::deduce_t<float, kCartLanes>>;

std::array<float, 2> packed_values(const CartRow& row, CartLength) {
  return {row.values[0], row.values[1] / 2};
}
std::array<float, 2> packed_values(const CartRow& row, CartAngle) {
  return {row.values[0], row.values[1] / 2};
}

// k (cos(n x - phi) + 1), with the cosine and sine of n x as polynomials (Chebyshev's).
std::array<float, 7> packed_values(const CartRow& row, CartTorsion) {
  std::array<double, 3> even, odd;
  double sum = 0;
  for (int i = 0; i < 3; ++i) {
    const double k = row.values[i], phi = row.values[3 + i];
    sum += k;
    even[i] = k * std::cos(phi);
    odd[i] = k * std::sin(phi);
  }
  return {float(sum - even[1]), float(even[0] - 3 * even[2]), float(2 * even[1]),
          float(4 * even[2]),   float(odd[0] - odd[2]),       float(2 * odd[1]),
          float(4 * odd[2])};
}

// Appends the rows of one kind. What fills the last pack up has the row's first atom throughout
// and values of 0, and no energy.
template <class Kind>
void pack(const std::vector<CartRow>& rows, int kind, std::vector<CartPack<Kind>>& packs,
          CartRows& range) {
  range.begin[kind] = int32_t(packs.size());
  int lane = kCartLanes;
  for (const CartRow& row : rows) {
    if (row.kind != kind) continue;
    if (lane == kCartLanes) {
      lane = 0;
      packs.push_back({});
      for (auto& atoms : packs.back().atoms) std::fill_n(atoms, kCartLanes, row.atoms[0]);
    }
    const auto values = packed_values(row, Kind());
    for (int i = 0; i < Kind::kAtoms; ++i) packs.back().atoms[i][lane] = row.atoms[i];
    for (int i = 0; i < Kind::kValues; ++i) packs.back().values[i][lane] = values[i];
    ++lane;
  }
  range.end[kind] = int32_t(packs.size());
}

template <class Kind>
double energy(const CartPack<Kind>* packs, int begin, int end, const float* xyz) {
  Lanes sum = 0;
  for (const CartPack<Kind>* pack = packs + begin; pack != packs + end; ++pack) {
    Vec3<Lanes> at[Kind::kAtoms];
    Lanes values[Kind::kValues];
    for (int i = 0; i < Kind::kAtoms; ++i) {
      const float* lane[kCartLanes];
      for (int l = 0; l < kCartLanes; ++l) lane[l] = xyz + 3 * pack->atoms[i][l];
      at[i] = {Lanes([&](int l) { return lane[l][0]; }), Lanes([&](int l) { return lane[l][1]; }),
               Lanes([&](int l) { return lane[l][2]; })};
    }
    for (int i = 0; i < Kind::kValues; ++i)
      values[i].copy_from(pack->values[i], stdx::element_aligned);
    sum += Kind::energy(at, values);
  }
  return stdx::reduce(sum);
}

// Calls add(score type, energy) for each kind that there is.
template <class Add>
void add_energies(const CartView& view, const CartRows& rows, const float* xyz, Add add) {
  for (int kind = 0; kind < kCartKinds; ++kind) {
    const int begin = rows.begin[kind], end = rows.end[kind];
    if (begin == end) continue;
    add(ScoreType(kCartLengths + kind), kind == 0   ? energy(view.lengths, begin, end, xyz)
                                        : kind == 1 ? energy(view.angles, begin, end, xyz)
                                                    : energy(view.torsions, begin, end, xyz));
  }
}

}  // namespace

Cart::Cart(const Arrays& arrays, const BlockTypes& types) : types_(types.view()) {
  std::vector<std::vector<CartRow>> sets = rows_of_block_types(arrays, types);
  CartCrossings found = rows_of_crossings(arrays, types);
  for (int32_t& row : found.crossings) row += row < 0 ? 0 : int32_t(sets.size());
  sets.insert(sets.end(), found.rows.begin(), found.rows.end());
  path_ends_ = std::move(found.path_ends);
  connection_class_ = std::move(found.connection_class);
  crossings_ = std::move(found.crossings);
  for (const std::vector<CartRow>& rows : sets) {
    CartRows& range = rows_.emplace_back();
    pack(rows, 0, lengths_, range);
    pack(rows, 1, angles_, range);
    for (int kind = 2; kind < kCartKinds; ++kind) pack(rows, kind, torsions_, range);
  }
  view_ = {lengths_.data(),   angles_.data(),           torsions_.data(),  rows_.data(),
           path_ends_.data(), connection_class_.data(), crossings_.data(), found.n_classes};
}

void Cart::score(const PoseView& pose, int block, BlockEnergies& energies) const {
  const int type = pose.block_types[block];
  const float* xyz = pose.coords + 3 * pose.atom_offsets[block];
  add_energies(view_, rows_[type], xyz,
               [&](ScoreType kind, double energy) { energies.add(kind, energy); });
  for (int c = 0; c < pose.n_connections(block); ++c) {
    const int other = pose.partner(block, c);
    // Blocks may share two connections, and a block be bonded to itself: as TMol, once from each
    // connection of the lower block, which of a block with itself is twice.
    if (other < block) continue;
    const int near = types_.connection_offset[type] + c;
    const int far =
        types_.connection_offset[pose.block_types[other]] + pose.partner_connection(block, c);
    const int crossing =
        crossings_[connection_class_[near] * view_.n_classes + connection_class_[far]];
    if (crossing < 0) continue;
    float ends[2 * kPaths][3] = {};
    const int rows[] = {near, far}, blocks[] = {block, other};
    for (int side = 0; side < 2; ++side) {
      const float* from = pose.coords + 3 * pose.atom_offsets[blocks[side]];
      for (int p = 0; p < kPaths; ++p) {
        const int atom = path_ends_[rows[side] * kPaths + p];
        if (atom >= 0) std::copy_n(from + 3 * atom, 3, ends[side * kPaths + p]);
      }
    }
    add_energies(view_, rows_[crossing], &ends[0][0],
                 [&](ScoreType kind, double energy) { energies.add_pair(kind, other, energy); });
  }
}

}  // namespace tmol_plugin
