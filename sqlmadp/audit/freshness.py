"""Freshness: noise is drawn anew for every measurement, in one process or in several.

Two measurements with the same noise are one subtraction away from exact answers.  Counts are
measured with so little epsilon that two equal draws would be a wonder (below one in a
million), in this process and in two that are started from it; all draws must differ.
"""

from __future__ import annotations

import multiprocessing
from fractions import Fraction

from sqlmadp.audit.cases import Case, plain_count
from sqlmadp.private.measure import calibrate, noisy_answers

DRAWS = 200
"""Measurements that every process makes."""

_EPSILON = Fraction(1, 2**48)


def repeated_noise() -> str:
    """Return what is wrong with the noise's freshness; empty if nothing is."""
    case = plain_count()
    # Before and after the others start: a state that they inherit would show in both.
    noise = _draws(case) + _in_two_processes(case) + _draws(case)
    repeated = len(noise) - len(set(noise))
    if repeated:
        return f"of {len(noise)} measurements, {repeated} have the noise of another one"
    return ""


def _draws(case: Case) -> list[int]:
    strategy = calibrate(case.blocks, domain=case.domain, epsilon=_EPSILON)
    noise = []
    for number in range(DRAWS):
        table = number % 2
        answers = noisy_answers(strategy, case.sums[table])
        noise.append(int(answers[0][0]) - int(case.exact(table)[0]))
    return noise


def _in_two_processes(case: Case) -> list[int]:
    # A forked process starts with the state of this one, which is what must not repeat.
    context = multiprocessing.get_context("fork")
    receivers = []
    for _ in range(2):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_send_draws, args=(case, sender))
        process.start()
        sender.close()
        receivers.append((receiver, process))
    noise = []
    for receiver, process in receivers:
        noise += receiver.recv()
        process.join()
    return noise


def _send_draws(case: Case, sender: multiprocessing.connection.Connection) -> None:
    sender.send(_draws(case))
    sender.close()
