"""What several tests compare with: compiled parameters, and TMol's context of them."""

import pytest


@pytest.fixture(scope="session")
def compiled():
    """Parameters of beta2016, as a chunk loads them."""
    from tmol_plugin.parameters import compile_parameters

    return compile_parameters()


@pytest.fixture(scope="session")
def context():
    """TMol's context of its own database; the order of its block types is that of `compiled`."""
    import torch
    from biotite.structure import AtomArray
    from tmol import ParameterDatabase
    from tmol.io import build_context_from_atom_array

    database = ParameterDatabase.get_default()
    return build_context_from_atom_array(AtomArray(0), torch.device("cpu"), database)
