// One pose as raw arrays, and the atoms that ids name, in it and across its connections.
#pragma once

#include <cstdint>

#include "energy/vec3.h"

namespace tmol_plugin {

// What every term asks of block types. Arrays are those of docs/parameters.md.
struct BlockTypesView {
  const int32_t* atom_offset;        // [n_types + 1]
  const int32_t* connection_offset;  // [n_types + 1]
  const int32_t* connection_atom;    // [n_connections] atom within its block type
  const int32_t* downstream;         // [n_connections, max_atoms]
  int32_t max_atoms;
};

// An atom of a block, or one beyond its connection (atom -1); none: connection -1 too.
struct AtomId {
  int32_t atom, connection, depth;
};

struct PoseView {
  int32_t n_blocks;
  const float* coords;                // of the stack, [.., 3] angstrom
  const int32_t* block_types;         // [n_blocks]
  const int32_t* atom_offsets;        // [n_blocks + 1] into coords
  const int32_t* connection_offsets;  // [n_blocks + 1] into connections
  const int32_t* connections;         // of the stack, [.., 2] block of this pose, its connection

  TP_FN int n_atoms(int block) const { return atom_offsets[block + 1] - atom_offsets[block]; }

  TP_FN int n_connections(int block) const {
    return connection_offsets[block + 1] - connection_offsets[block];
  }

  // The block beyond a connection of `block`; -1 if nothing is bonded there.
  TP_FN int partner(int block, int connection) const {
    return connections[2 * (connection_offsets[block] + connection)];
  }

  // The partner's connection that leads back.
  TP_FN int partner_connection(int block, int connection) const {
    return connections[2 * (connection_offsets[block] + connection) + 1];
  }

  template <class S = float>
  TP_FN Vec3<S> position(int atom) const {
    return {S(coords[3 * atom]), S(coords[3 * atom + 1]), S(coords[3 * atom + 2])};
  }
};

// The index into `pose.coords` of the atom that `id` names as seen from `block`; -1 if there is
// none: no id, nothing bonded there, or fewer atoms beyond the connection than `depth`.
TP_FN int find_atom(const BlockTypesView& types, const PoseView& pose, int block, AtomId id) {
  if (id.atom >= 0) return pose.atom_offsets[block] + id.atom;
  if (id.connection < 0) return -1;
  const int other = pose.partner(block, id.connection);
  if (other < 0) return -1;
  const int back = pose.partner_connection(block, id.connection);
  const int row = types.connection_offset[pose.block_types[other]] + back;
  const int atom = types.downstream[row * types.max_atoms + id.depth];
  return atom < 0 ? -1 : pose.atom_offsets[other] + atom;
}

}  // namespace tmol_plugin
