// The compiled chemistry that preparation reads: names, block types, candidates, frames.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "prepare/arrays.h"

namespace tmol_plugin {

// A name of up to 8 characters, NUL padded, as one integer: compared and hashed in one step.
using Name = uint64_t;

inline Name name_at(const void* bytes) {
  Name name;
  std::memcpy(&name, bytes, sizeof name);
  return name;
}

inline Name make_name(const char* text) {
  char bytes[8] = {};
  std::memcpy(bytes, text, strnlen(text, 8));
  return name_at(bytes);
}

// Sets of a residue's atoms: bit i is atom i of its class's canonical order.
using AtomSet = uint64_t;
inline constexpr int kMaxCanonical = 64;

inline AtomSet bit(int atom) { return AtomSet{1} << atom; }

// Names to values, for the one or two look-ups that each atom of a file costs.
template <class Value>
class NameMap {
 public:
  void insert(Name name, Value value) {
    if (2 * (n_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[index(name)];
    if (slot.name == 0) {
      slot = {name, std::move(value)};
      ++n_;
    }
  }

  const Value* find(Name name) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[index(name)];
    return slot.name == 0 ? nullptr : &slot.value;
  }

 private:
  struct Slot {
    Name name = 0;  // none: no name is empty
    Value value{};
  };

  // The slot of a name, or the empty one where it would be.
  size_t index(Name name) const {
    size_t i = size_t((name * 0x9e3779b97f4a7c15u) >> 32) & (slots_.size() - 1);
    while (slots_[i].name != 0 && slots_[i].name != name) i = (i + 1) & (slots_.size() - 1);
    return i;
  }

  void grow() {
    std::vector<Slot> before(std::max<size_t>(16, 2 * slots_.size()));
    before.swap(slots_);
    for (Slot& slot : before)
      if (slot.name != 0) slots_[index(slot.name)] = std::move(slot);
  }

  std::vector<Slot> slots_;  // a power of two of them
  size_t n_ = 0;
};

// What a file may call an atom of a residue, and the atom that is meant.
struct WrittenAtom {
  int canonical;
  bool is_deuterium;
};

// What a file may call a residue: the class that is meant, its atoms' names.
struct WrittenResidue {
  int residue_class;
  bool is_renamed;
  bool is_mse;
  NameMap<WrittenAtom> atoms;
};

struct HydrogenCount {
  AtomSet hydrogens;  // on one heavy atom
  int expected;
};

// A class of block types (TMol: io_equiv_class) that a residue name stands for.
struct ResidueClass {
  AtomSet required = 0;  // heavy atoms that must be there
  int n = -1, c = -1, oxt = -1;
  AtomSet any_hydrogen = 0, titratable = 0, shared_hydrogen = 0;
  AtomSet amine_hydrogens = 0, amide_hydrogens = 0;  // on N: at a chain's end, and within
  int max_amine_hydrogens = 0;
  bool has_deprotonated = false, has_neutral_terminus = false;
  std::vector<bool> expects_titratable;        // by variant
  std::vector<HydrogenCount> fixed_hydrogens;  // the count that every form has
  std::vector<AtomSet> varying_hydrogens;      // of each atom whose count tells forms apart
  std::vector<std::pair<int, std::vector<int>>> forms;  // variant, its counts on those atoms
};

struct BlockType {
  int residue_class;
  int atom_begin, n_atoms;
  int connection_begin, n_connections;
  int down, up, disulfide;  // connections, -1 if it has none
  AtomSet absent, nonterminal;
  bool is_non_default_terminus;
};

// Terminus states, in TMol's order.
enum Terminus { kDown = 0, kMid = 1, kUp = 2, kBoth = 3 };

class Tables {
 public:
  // Throws std::invalid_argument naming the array that is missing or of a wrong size.
  explicit Tables(const Arrays& arrays);

  const WrittenResidue* written(Name residue) const { return written_.find(residue); }
  bool is_water(Name residue) const {
    for (Name water : waters_)
      if (water == residue) return true;
    return false;
  }
  const ResidueClass& residue_class(int index) const { return classes_[index]; }
  const BlockType& block_type(int index) const { return block_types_[index]; }
  std::span<const int32_t> candidates(int residue_class, int terminus, int variant) const {
    size_t row = (size_t(residue_class) * 4 + terminus) * n_variants_ + variant;
    return {candidates_.data() + candidate_offset_[row],
            candidates_.data() + candidate_offset_[row + 1]};
  }
  int deprotonated_variant() const { return deprotonated_variant_; }
  int histidine() const { return histidine_; }
  int histidine_hd1() const { return hd1_; }
  int histidine_he2() const { return he2_; }
  int cysteine() const { return cysteine_; }
  int cysteine_sg() const { return sg_; }

  // By atom of all block types: block_type(t).atom_begin + i.
  std::vector<int32_t> canonical;
  std::vector<uint8_t> is_leaf;
  std::vector<std::array<std::array<int32_t, 3>, 3>> frame, backup_frame;
  std::vector<std::array<float, 3>> frame_geometry, backup_frame_geometry;
  // By connection of all block types.
  std::vector<int32_t> downstream;  // [connection, max_atoms]
  size_t max_atoms = 0;

 private:
  // Throws std::invalid_argument if a frame or connection would be read beyond the arrays.
  void check_indices(const BlockType& type) const;

  NameMap<WrittenResidue> written_;
  std::vector<Name> waters_;
  std::vector<ResidueClass> classes_;
  std::vector<BlockType> block_types_;
  std::vector<int32_t> candidate_offset_, candidates_;
  size_t n_variants_ = 0;
  int deprotonated_variant_ = -1;
  int histidine_ = -1, hd1_ = -1, he2_ = -1, cysteine_ = -1, sg_ = -1;
};

}  // namespace tmol_plugin
