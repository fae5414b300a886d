"""Files damaged at random, from a fixed seed: as disks, editors and scripts damage them."""

import random
from collections.abc import Iterator

SEED = 20160
_ODD_NUMBERS = [
    b"     nan",
    b"     inf",
    b"********",
    b"99999999",
    b" 1.0e+03",
    b"-0.00000",
    b"   1_0.0",
]


def mutants(text: bytes, count: int, seed: int = SEED) -> Iterator[bytes]:
    """Copies with one to four faults each.

    Bytes flipped, lines cut, columns shifted, fields blanked, lines dropped, repeated or
    swapped, numbers that are none or too large, carriage returns, fields of one line in another.
    """
    chance = random.Random(seed)
    for _ in range(count):
        lines = text.split(b"\n")
        for _ in range(chance.randint(1, 4)):
            _damage(lines, chance)
        yield b"\n".join(lines)


def _damage(lines: list[bytes], chance: random.Random) -> None:
    i, j = chance.randrange(len(lines)), chance.randrange(len(lines))
    line = lines[i]
    k = chance.randrange(len(line) or 1)
    match chance.randrange(11):
        case 0:
            lines[i] = line[:k] + bytes([chance.randrange(256)]) + line[k + 1 :]
        case 1:
            lines[i] = line[:k]
        case 2:
            lines[i] = line[:k] + b" " * chance.randint(1, 3) + line[k:]
        case 3:
            lines[i] = line[:k] + b" " * 8 + line[k + 8 :]
        case 4:
            del lines[i : i + chance.randint(1, 5)]
            lines[:] = lines or [b""]
        case 5:
            lines[i:i] = lines[j : j + chance.randint(1, 30)]
        case 6:
            lines[i], lines[j] = lines[j], line
        case 7:
            k = chance.choice([k, 22, 30, 38, 46, 54])
            lines[i] = line[:k] + chance.choice(_ODD_NUMBERS) + line[k + 8 :]
        case 8:
            lines[i] = line + chance.choice([b"\r", b"\t", b"\x00", b" " * 40])
        case 9:
            # The columns of another line: its name, number, chain or coordinates.
            width = chance.randint(1, 30)
            lines[i] = line[:k] + lines[j][k : k + width] + line[k + width :]
        case 10:
            # An altloc, a chain, an insertion code: one letter where there was another.
            k = chance.choice([16, 20, 21, 26])
            lines[i] = line[:k] + chance.choice([b"A", b"B", b" ", b"1"]) + line[k + 1 :]
