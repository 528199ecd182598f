"""Transfers that record when they complete, and runs of them on a link."""

from __future__ import annotations

from typing import Any

from fluid_link import Wish
from mlusim.memory.clock import Clock
from mlusim.memory.flow import Flow, LinkCost
from mlusim.memory.link import Link


class Recorded(Flow):
    """A transfer that notes its end in `ended`, by number, and may then begin another one, after a start-up."""

    def __init__(self, link: Link, number: int, wish: Wish, ended: dict[int, int], *, start_up_ps: int = 0) -> None:
        self.cost, self.port = LinkCost(wish.work, wish.limit, wish.ratio, wish.traffic), link.ports[wish.port]
        self.link, self.number, self.ended, self.start_up_ps = link, number, ended, start_up_ps
        self.following: Recorded | None = None

    def complete(self, now: int) -> None:
        assert self.number not in self.ended
        self.ended[self.number] = now
        if self.following is not None:
            self.link.join(self.following, now + self.following.start_up_ps, now)


def ends_on(link: Link, clock: Clock, wishes: list[Wish], *, ahead: bool = False) -> dict[int, int]:
    """When each transfer is done, in that order; `ahead`: they join the link at once, before their time."""
    ended: dict[int, int] = {}

    def join(flow: Flow) -> Any:
        return lambda _: link.join(flow, clock.now, clock.now)

    for number, wish in enumerate(wishes):
        flow = Recorded(link, number, wish, ended)
        if ahead:
            link.join(flow, wish.at_ps, clock.now)
        else:
            clock.after(wish.at_ps, join(flow))
    clock.run()
    assert len(ended) == len(wishes)
    return ended
