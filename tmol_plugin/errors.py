"""What can go wrong with a structure or a run, as exceptions that help.

A `StructureError` concerns one structure and becomes a row of the failures table; a
`RunError` concerns the run (config, parameters, mixed results) and ends the command.
"""

# A chunk whose failures have one of these reasons is scored anew whenever the plan is made
# anew: what was wrong may have been the moment or the machine.
RETRIED = frozenset({"unreadable", "changed", "too_large", "device_fault"})
_RETRY = " with `snakemake --forcerun plan`"

# Why a structure has no score. This is the closed list: the failures table accepts no
# other, and the comment beside a reason is the remedy given when no better one is known.
REASONS = {
    "unreadable": "Check the file: it must hold a PDB or mmCIF structure, plain or gzipped.",
    "no_polymer": "Give a file with at least one protein or nucleic acid residue.",
    "no_such_model": "Name a model that the file holds, or set `models: all`.",
    "unrecognized_residue": (
        "Set `prepare_ligands: true`, give TMol parameters in `ligand_params`, or set"
        " `on_unrecognized: drop` to score without these residues."
    ),
    "unrecognized_atom": "Rename the atoms to the wwPDB's names, or remove them.",
    "ligand_preparation": (
        "Give TMol parameters for the residue in `ligand_params`, or an mmCIF that declares"
        " its atoms and bonds in `_chem_comp_atom` and `_chem_comp_bond`."
    ),
    "incomplete_backbone": "Rebuild N, CA and C of each residue, or remove the residue.",
    "missing_atoms": "Complete the side chains, or set `missing_side_chains: rebuild`.",
    "bad_coordinates": "Correct the coordinates of the atoms named.",
    "bad_geometry": "Correct the geometry at the residues named.",
    "duplicate_atom": "Give each atom of a residue its own name, or mark alternatives as altlocs.",
    "unsupported_chemistry": "TMol cannot build this structure; see its words in the message.",
    "changed": f"Run again{_RETRY}; the file was changed between the scan and the scoring.",
    "too_large": f"Run again{_RETRY} on a device with more memory.",
    "device_fault": (
        f"Look at the structure; if it is sound, run again{_RETRY}, on another device: the process"
        " that scored it died of it, twice."
    ),
    "not_finite": "Look at the coordinates: TMol gives no finite energy for them.",
    "engine_error": "Report this structure: the engine failed in a way that is not expected.",
}


class StructureError(Exception):
    """One structure that cannot be scored.

    Args:
        reason: a key of `REASONS`.
        message: what is wrong and where (residue, atom or line), for a person.
        remedy: what to do; that of `REASONS` if None.
    """

    def __init__(self, reason: str, message: str, remedy: str | None = None):
        if reason not in REASONS:
            raise ValueError(f"unknown failure reason {reason!r}; add it to errors.REASONS")
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.remedy = remedy or REASONS[reason]


class RunError(Exception):
    """Something about the run as a whole; its text names the value and the remedy."""
