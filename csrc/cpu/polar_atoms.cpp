// Finds the bases of acceptors, as TMol does (score/hbond/identification.hh).
#include "cpu/polar_atoms.h"

#include <stdexcept>
#include <string>

#include "energy/hbond.h"

namespace tmol_plugin {
namespace {

constexpr AtomId kNone = {-1, -1, -1};

bool is_none(AtomId id) { return id.atom < 0 && id.connection < 0; }

// The atoms bonded to one of a block type, in TMol's order.
class Bonds {
 public:
  Bonds(const Arrays& arrays, const BlockTypes& types)
      : types_(types),
        offset_(arrays.get<int32_t>("atom.neighbor_offset",
                                    size_t(types.atom_begin(types.n_types())) + 1)),
        atom_(arrays.get<int32_t>("neighbor.atom", size_t(offset_.back()))),
        connection_(arrays.get<int32_t>("neighbor.connection", size_t(offset_.back()))),
        is_hydrogen_(arrays.get<uint8_t>("atom.is_hydrogen", offset_.size() - 1)) {}

  // The first that `wanted` takes of the atoms bonded to `atom`; kNone if there is none. Atoms
  // beyond connections are heavy.
  template <class Wanted>
  AtomId find(int type, int atom, Wanted wanted) const {
    const int row = types_.atom_begin(type) + atom;
    for (int i = offset_[row]; i < offset_[row + 1]; ++i) {
      const AtomId id = {atom_[i], atom_[i] >= 0 ? -1 : connection_[i], 0};
      const bool is_hydrogen = id.atom >= 0 && is_hydrogen_[types_.atom_begin(type) + id.atom];
      if (wanted(id, is_hydrogen)) return id;
    }
    return kNone;
  }

 private:
  const BlockTypes& types_;
  std::span<const int32_t> offset_, atom_, connection_;
  std::span<const uint8_t> is_hydrogen_;
};

// sp2: an atom bonded to the base. sp3: a hydrogen bonded to the acceptor, else any other atom
// that is. Ring: the other heavy atom that is.
AtomId second_base(const Bonds& bonds, int type, int atom, int base, int hybridization) {
  if (hybridization == kSp2) {
    return bonds.find(type, base, [&](AtomId id, bool) { return id.atom != atom; });
  }
  const AtomId found = bonds.find(type, atom, [&](AtomId id, bool is_hydrogen) {
    return id.atom != base && is_hydrogen == (hybridization == kSp3);
  });
  if (hybridization == kRing || !is_none(found)) return found;
  return bonds.find(type, atom, [&](AtomId id, bool) { return id.atom != base; });
}

}  // namespace

PolarAtoms::PolarAtoms(const Arrays& arrays, const BlockTypes& types) {
  n_donor_types_ = int(arrays.get<float>("hbond.donor_weight").size());
  n_acceptor_types_ = int(arrays.get<float>("hbond.acceptor_weight").size());
  const auto check = [](bool holds) {
    if (!holds) throw std::invalid_argument("arrays 'hbond.*' refer beyond a block type");
  };
  const size_t n_types = size_t(types.n_types());
  const auto offsets = [&](const char* name, std::vector<int32_t>& copy) {
    const auto values = arrays.get<int32_t>(name, n_types + 1);
    copy.assign(values.begin(), values.end());
    check(copy[0] == 0);
    for (size_t t = 0; t < n_types; ++t) check(copy[t] <= copy[t + 1]);
    return size_t(copy.back());
  };
  const size_t n_donors = offsets("hbond.donor_offset", donor_offset_);
  const auto hydrogen = arrays.get<int32_t>("hbond.donor_hydrogen", n_donors);
  const auto heavy = arrays.get<int32_t>("hbond.donor_heavy", n_donors);
  const auto ordinal = arrays.get<int32_t>("hbond.donor_ordinal", n_donors);
  const auto donor_type = arrays.get<int32_t>("hbond.donor_type", n_donors);
  const size_t n_acceptors = offsets("hbond.acceptor_offset", acceptor_offset_);
  const auto acceptor = arrays.get<int32_t>("hbond.acceptor_atom", n_acceptors);
  const auto hybridization = arrays.get<int32_t>("hbond.acceptor_hybridization", n_acceptors);
  const auto n_hydrogens = arrays.get<int32_t>("hbond.acceptor_hydrogens", n_acceptors);
  const auto acceptor_type = arrays.get<int32_t>("hbond.acceptor_type", n_acceptors);
  const Bonds bonds(arrays, types);
  for (int t = 0; t < types.n_types(); ++t) {
    const auto is_atom = [&](int atom) { return atom >= 0 && atom < types.n_atoms(t); };
    for (int d = donor_offset_[t]; d < donor_offset_[t + 1]; ++d) {
      check(is_atom(heavy[d]) && is_atom(hydrogen[d]) && ordinal[d] >= 0 && donor_type[d] >= 0 &&
            donor_type[d] < n_donor_types_ &&
            (d == donor_offset_[t] || hydrogen[d - 1] < hydrogen[d]));
      donors_.push_back({heavy[d], hydrogen[d], ordinal[d], donor_type[d]});
    }
    for (int a = acceptor_offset_[t]; a < acceptor_offset_[t + 1]; ++a) {
      const int atom = acceptor[a], kind = hybridization[a];
      check(is_atom(atom) && kind >= kSp2 && kind <= kRing && n_hydrogens[a] >= 0 &&
            acceptor_type[a] >= 0 && acceptor_type[a] < n_acceptor_types_ &&
            (a == acceptor_offset_[t] || acceptor[a - 1] < atom));
      // No amino acid accepts with an atom whose only heavy neighbour is in another block.
      const int base = bonds.find(t, atom, [](AtomId, bool is_h) { return !is_h; }).atom;
      const AtomId second = base < 0 ? kNone : second_base(bonds, t, atom, base, kind);
      acceptors_.push_back({atom, acceptor_type[a], kind, n_hydrogens[a], base, second});
    }
  }
}

}  // namespace tmol_plugin
