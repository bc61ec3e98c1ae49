"""The properties of a mode of enforcement that other modules read. One value for each mode, no state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Mode:
    """One value of spec.enforcement.

    declaration: its part of the field's description in the CRD. sentence: message of the condition Enforced. enforced: whether the
    operator writes anything but statuses. holds: the new objects that the admission policies hold (status.holds), until
    `enforce/holds.py` releases them. entitled: whether the quota of an idle queue admits its entitlement at once. divided: whether quotas
    for small and large jobs divide the level.
    """

    name: str
    declaration: str
    sentence: str
    enforced: bool = True
    holds: Literal["Pods", "Jobs"] | None = None
    entitled: bool = False
    divided: bool = False

    @property
    def unlimited(self) -> bool:
        """Whether the quota has no limits, because every new pod is held."""
        return self.holds == "Pods"
