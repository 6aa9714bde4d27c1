"""Turns titles into the last part of a web address."""

import re
import unicodedata


def slug(title, limit=None):
    """Lower-case letters, digits and single dashes; at most `limit` characters, cut at a dash."""
    text = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    text = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if limit is not None and len(text) > limit:
        cut = text[: limit + 1].rfind("-")
        text = text[:cut] if cut > 0 else text[:limit]
    return text
