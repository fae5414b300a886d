"""Compiled parameters of one block type, with names in place of indices, for tests."""


def texts(names):
    return [bytes(name).rstrip(b"\x00").decode() for name in names]


class Block:
    """One compiled block type: slices of the tensors that belong to it."""

    def __init__(self, compiled, index):
        self.tensors = compiled.tensors
        self.index = index
        self.atoms = self._slice("atom")
        self.names = texts(self.tensors["atom.name"][self.atoms])

    def _slice(self, kind):
        return self._own(f"block_type.{kind}_offset")

    def of(self, kind, what, listed=None):
        """Rows of tensor `kind.what`; `listed` names rows whose offsets are the tensor's own."""
        rows = self._slice(kind) if listed is None else self._own(f"{kind}.{listed}_offset")
        return self.tensors[f"{kind}.{what}"][rows]

    def of_atoms(self, tensor):
        return self.tensors[tensor][self.atoms]

    def _own(self, offset):
        return slice(*self.tensors[offset][self.index : self.index + 2])

    def value(self, what):
        return self.tensors[f"block_type.{what}"][self.index]

    def named(self, uaid):
        """An atom id as TMol's residue types write it: a name, or (connection, depth)."""
        atom, connection, depth = (int(i) for i in uaid)
        if atom >= 0:
            return self.names[atom]
        return texts(self.of("connection", "name"))[connection], depth
