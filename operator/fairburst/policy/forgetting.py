"""The choice of names to forget, where something is learned by name and only so many are kept."""

from __future__ import annotations

from collections.abc import Mapping


def kept_fairly(seen: Mapping[str, float], most: int) -> list[str]:
    """Return the names to keep, `most` at the most, in order. `seen`: when each was seen last.

    The namespaces (the part before "/") with the most names give up theirs first, those seen longest ago: the many names of one namespace
    push out none of another.
    """
    if len(seen) <= most:
        return sorted(seen)
    places: dict[str, int] = {}
    ranked = []
    for name in sorted(seen, key=lambda name: (-seen[name], name)):
        namespace = name.partition("/")[0]
        places[namespace] = place = places.get(namespace, -1) + 1
        ranked.append((place, -seen[name], name))
    return sorted(name for _, _, name in sorted(ranked)[:most])
