// Reads the parameters of disulfide bonds, and finds the bonds and their atoms.
#include "cpu/disulfide.h"

#include <stdexcept>
#include <string>

namespace tmol_plugin {
namespace {

void refuse_unless(bool holds, const char* name) {
  if (!holds) {
    throw std::invalid_argument(std::string("array '") + name + "' does not fit the block types");
  }
}

}  // namespace

Disulfides::Disulfides(const Arrays& arrays, const BlockTypes& types) : types_(types.view()) {
  const auto connection = arrays.get<int32_t>("block_type.disulfide_connection");
  const auto is_mirrored = arrays.get<uint8_t>("disulfide.is_mirrored");
  const size_t n_types = types.n_types();
  refuse_unless(connection.size() == n_types, "block_type.disulfide_connection");
  refuse_unless(is_mirrored.size() == n_types, "disulfide.is_mirrored");
  for (int t = 0; t < types.n_types(); ++t) {
    refuse_unless(connection[t] >= -1 && connection[t] < types.n_connections(t),
                  "block_type.disulfide_connection");
    if (connection[t] < 0) continue;
    refuse_unless(types_.max_atoms >= 3, "connection.downstream");
    for (int depth = 0; depth < 3; ++depth) {
      const int row = types.connection_begin(t) + connection[t];
      refuse_unless(types_.downstream[row * types_.max_atoms + depth] >= 0,
                    "connection.downstream");
    }
  }
  connection_.assign(connection.begin(), connection.end());
  is_mirrored_.assign(is_mirrored.begin(), is_mirrored.end());

  // In TMol's order, which has the mean before kappa in `carbon` alone.
  const auto from = arrays.get<double>("disulfide.global");
  refuse_unless(from.size() == 32, "disulfide.global");
  const auto value = [&](int i) { return float(from[i]); };
  const auto part = [&](int i) { return VonMises{value(i), value(i + 1), value(i + 2)}; };
  const auto carbon = [&](int i) { return VonMises{value(i), value(i + 2), value(i + 1)}; };
  view_ = {
      .length = value(0),
      .length_scale = value(1),
      .length_shape = value(2),
      .angle = part(3),
      .sulfur = {part(6), part(9)},
      .mixed_sulfur = {part(26), part(29)},
      .carbon = {carbon(12), carbon(15), carbon(18)},
      .sulfur_weight = value(21),
      .carbon_weight = value(22),
      .angle_weight = value(23),
      .length_weight = value(24),
      .shift = value(25),
      .connection = connection_.data(),
      .is_mirrored = is_mirrored_.data(),
  };
}

void Disulfides::score(const PoseView& pose, int block, BlockEnergies& energies) const {
  const int connection = connection_[pose.block_types[block]];
  if (connection < 0) return;
  const int other = pose.partner(block, connection);
  if (other < block) return;
  const int other_connection = pose.partner_connection(block, connection);
  if (other_connection != connection_[pose.block_types[other]]) return;  // bonded to no cystine
  const auto half = [&](int of, int through) {
    const int type = pose.block_types[of];
    const int32_t* atoms =
        types_.downstream + (types_.connection_offset[type] + through) * types_.max_atoms;
    const int first = pose.atom_offsets[of];
    return HalfCystine<float>{pose.position(first + atoms[0]), pose.position(first + atoms[1]),
                              pose.position(first + atoms[2]), is_mirrored_[type] != 0};
  };
  const float energy =
      disulfide_energy(view_, half(block, connection), half(other, other_connection));
  energies.add_pair(kDisulfide, other, energy);
}

}  // namespace tmol_plugin
