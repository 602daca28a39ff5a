"""Control characters become escapes; everything that people write stays as typed."""

from __future__ import annotations

import pytest

from ablate.files.printable import escape_controls


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("\x1b[2Jgone\x07", r"\x1b[2Jgone\x07"),
        ("half \udcff of a letter", r"half \udcff of a letter"),
        ("back\r\x08\x9b", r"back\r\x08\x9b"),
        ("a\tb\nשלום ñ 🙂 \\x1b", "a\tb\nשלום ñ 🙂 \\x1b"),
    ],
)
def test_controls_are_escaped_and_letters_are_not(typed: str, shown: str) -> None:
    assert escape_controls(typed) == shown
