"""A text from anywhere -> the same text without control characters, or characters that no file can hold."""

import re

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # all but tab and newline; halves of letters


def escape_controls(text: str) -> str:
    """Replace control characters and lone surrogates by their escapes: `\\x1b`, `\\udcff`."""
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
