// Donor hydrogens and acceptors of block types, and the atoms that orient them.
#pragma once

#include <span>
#include <vector>

#include "cpu/separations.h"

namespace tmol_plugin {

struct DonorHydrogen {
  int heavy, hydrogen;  // atoms of the block type
  int ordinal;          // which of the donor's hydrogens
  int type;
};

struct Acceptor {
  int atom, type, hybridization;
  int n_hydrogens;  // its own
  int base;         // heavy atom that it is bonded to; -1 if none within the block
  AtomId second_base;
};

class PolarAtoms {
 public:
  // Throws std::invalid_argument naming an array that is missing or does not fit.
  PolarAtoms(const Arrays& arrays, const BlockTypes& types);

  std::span<const DonorHydrogen> donors(int type) const {
    return {donors_.data() + donor_offset_[type], donors_.data() + donor_offset_[type + 1]};
  }
  std::span<const Acceptor> acceptors(int type) const {
    return {acceptors_.data() + acceptor_offset_[type],
            acceptors_.data() + acceptor_offset_[type + 1]};
  }
  int n_donor_types() const { return n_donor_types_; }
  int n_acceptor_types() const { return n_acceptor_types_; }

 private:
  int n_donor_types_, n_acceptor_types_;
  std::vector<int32_t> donor_offset_, acceptor_offset_;
  std::vector<DonorHydrogen> donors_;
  std::vector<Acceptor> acceptors_;
};

}  // namespace tmol_plugin
