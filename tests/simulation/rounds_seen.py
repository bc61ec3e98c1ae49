"""A look at every round of a simulated process, in each of its terms of leadership."""

from __future__ import annotations

from collections.abc import Callable

from fairburst.kube.process import Operator
from fairburst.kube.rounds.view import RoundPlan
from fairburst.kube.term import Term


def before_each_round_is_shown(operator: Operator, look: Callable[[RoundPlan], None]) -> None:
    """Call `look` at the end of each round, before the round's metrics and what follows them."""
    next_term = operator._next_term

    def looked_at(term: Term) -> Term:
        show = term.loop.after_round
        assert show is not None

        def after_round(plan: RoundPlan) -> None:
            look(plan)
            show(plan)

        term.loop.after_round = after_round
        return term

    operator._next_term = lambda: looked_at(next_term())  # type: ignore[method-assign]
    looked_at(operator.term)
