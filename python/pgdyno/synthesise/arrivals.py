"""How transactions arrive: at a rate, or each after the one before it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pgdyno.synthesise.transactions import Activity

SHORTEST_PAUSE_US = 1_000
"""A client that pauses for less between two transactions waits for the server alone; logs have milliseconds."""
MOST_COMMITS = 0.9
"""From this part of pauses of at most 10 ms on, they are taken to be commits: in the extended protocol, a statement
outside of a block commits after the server has logged its duration, so its commit looks like a pause.
"""
HEADROOM = 3
"""Clients for each one that is in a transaction on average, so that an arrival finds a free one."""


@dataclass(frozen=True)
class Arrivals:
    """The load's clients and rate."""

    clients: int
    rate: float | None
    """Transactions per second, as a Poisson process; None: each client begins the next one at once (closed loop)."""
    reason: str
    """Why it is one or the other."""


def closed_clients(found: Activity) -> int | None:
    """Decides whether the load is closed, and returns how many clients it then has; None for an open loop.

    If sessions mostly went on at once, or paused for a commit, the server set the pace: a closed loop, with as many
    clients as sessions worked at a time. Otherwise the users did, whose number and pauses a log does not show.
    """
    if found.pause_us is not None and (found.pause_us < SHORTEST_PAUSE_US or found.at_most_10_ms >= MOST_COMMITS):
        return max(1, round(found.at_once))
    return None


def find_arrivals(found: Activity, modelled: int, span_us: int, most_sessions: int) -> Arrivals:
    """Returns the clients and the rate of a load.

    In an open loop, transactions arrive at their mean rate, as those of independent users do, however fast the server
    answers. `modelled` is the number of transactions that the scripts cover.
    """
    clients = closed_clients(found)
    if clients is not None:
        reason = (
            f"{100 * found.short:.0f} % of the pauses between the transactions of a session were shorter than "
            f"{SHORTEST_PAUSE_US / 1_000:g} ms, {100 * found.at_most_10_ms:.0f} % at most 10 ms, as commits are, so "
            f"the server set the pace: {clients} sessions, on average, went on at once"
        )
        return Arrivals(clients, None, reason)
    rate = modelled / (span_us / 1e6)
    clients = max(1, most_sessions, math.ceil(HEADROOM * found.working))
    paused = "" if found.pause_us is None else f" for {found.pause_us / 1_000:,.0f} ms (median)"
    reason = (
        f"sessions paused between transactions{paused}, so their users set the pace: the mean rate of {modelled:,} "
        f"transactions in {span_us / 1e6:,.0f} s. At most {most_sessions:,} sessions were open; "
        f"{found.working:.2f} were in a transaction on average"
    )
    return Arrivals(clients, float(f"{rate:.4g}"), reason)


def arrivals_of_totals(calls: int, total_us: float, span_us: int, most_sessions: int) -> Arrivals:
    """Returns the arrivals of a capture that has only totals: at their mean rate."""
    seconds = span_us / 1e6
    clients = max(1, most_sessions, math.ceil(HEADROOM * total_us / span_us))
    reason = f"the mean rate of {calls:,} statements in {seconds:,.0f} s; pg_stat_statements does not show pauses"
    return Arrivals(clients, float(f"{calls / seconds:.4g}"), reason)
