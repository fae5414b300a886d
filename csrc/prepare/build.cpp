// Places missing hydrogens and OXT by distance, angle and dihedral from atoms that are there.
#include "prepare/build.h"

#include <cmath>

#include "prepare/geometry.h"

namespace tmol_plugin {
namespace {

class Builder {
 public:
  Builder(const Tables& tables, const Residues& residues, const Typing& typing)
      : tables_(tables), residues_(residues.residues), typing_(typing) {}

  Built build() {
    Built out;
    out.block_atom_offsets.reserve(typing_.blocks.size() + 1);
    out.block_atom_offsets.push_back(0);
    for (const Block& block : typing_.blocks)
      out.block_atom_offsets.push_back(out.block_atom_offsets.back() +
                                       tables_.block_type(block.type).n_atoms);
    out.coords.resize(3 * size_t(out.block_atom_offsets.back()));
    float* target = out.coords.data();
    for (size_t b = 0; b < typing_.blocks.size(); ++b) {
      const BlockType& type = tables_.block_type(typing_.blocks[b].type);
      for (int a = 0; a < type.n_atoms; ++a, target += 3) {
        Vector position;
        if (is_given(b, a)) {
          position = given(b, a);
        } else {
          if (!tables_.is_leaf[size_t(type.atom_begin + a)])
            throw Stop{TP_NOT_COVERED, "a missing atom that others are built from"};
          position = built(b, a);
          ++out.n_atoms_built;
        }
        target[0] = float(position.x);
        target[1] = float(position.y);
        target[2] = float(position.z);
      }
    }
    return out;
  }

 private:
  struct Place {
    size_t block;
    int atom;
  };

  int canonical(size_t b, int atom) const {
    return tables_.canonical[size_t(tables_.block_type(typing_.blocks[b].type).atom_begin + atom)];
  }
  bool is_given(size_t b, int atom) const { return residues_[b].has(canonical(b, atom)); }
  // In single precision, as a pose has it.
  Vector given(size_t b, int atom) const {
    const Position& p = residues_[b].positions[size_t(canonical(b, atom))];
    return {double(float(p[0])), double(float(p[1])), double(float(p[2]))};
  }

  // A frame's atom: one of the block, or one across a connection, `steps` bonds behind it.
  bool resolve(size_t b, const std::array<int32_t, 3>& reference, Place& place) const {
    auto [atom, connection, steps] = reference;
    if (atom >= 0) {
      place = {b, atom};
      return is_given(b, atom);
    }
    if (connection < 0) return false;
    const Block& block = typing_.blocks[b];
    if (connection >= tables_.block_type(block.type).n_connections) return false;
    const Connection& other = typing_.connections[size_t(block.connection_begin + connection)];
    if (other.block < 0) return false;
    const BlockType& type = tables_.block_type(typing_.blocks[size_t(other.block)].type);
    int behind =
        tables_.downstream[size_t(type.connection_begin + other.connection) * tables_.max_atoms +
                           size_t(steps)];
    if (behind < 0) return false;
    place = {size_t(other.block), behind};
    return is_given(place.block, place.atom);
  }

  bool place_by(size_t b, const std::array<std::array<int32_t, 3>, 3>& frame,
                const std::array<float, 3>& geometry, Vector& position) const {
    std::array<Place, 3> at;
    for (size_t i = 0; i < 3; ++i)
      if (!resolve(b, frame[i], at[i])) return false;
    auto [dihedral, angle, distance] = geometry;
    position =
        place(given(at[0].block, at[0].atom), given(at[1].block, at[1].atom),
              given(at[2].block, at[2].atom), double(distance), double(angle), double(dihedral));
    return true;
  }

  Vector built(size_t b, int atom) const {
    size_t i = size_t(tables_.block_type(typing_.blocks[b].type).atom_begin + atom);
    Vector position;
    if (!place_by(b, tables_.frame[i], tables_.frame_geometry[i], position) &&
        !place_by(b, tables_.backup_frame[i], tables_.backup_frame_geometry[i], position))
      throw Stop{TP_NOT_COVERED, "an atom without three others to build it from"};
    if (!std::isfinite(position.x + position.y + position.z))
      throw Stop{TP_NOT_COVERED, "three atoms on a line, from which to build one"};
    return position;
  }

  const Tables& tables_;
  const std::vector<Residue>& residues_;
  const Typing& typing_;
};

}  // namespace

Built build_coordinates(const Tables& tables, const Residues& residues, const Typing& typing) {
  return Builder(tables, residues, typing).build();
}

}  // namespace tmol_plugin
