"""Sessions of one engine under any sequence of calls, beside what each would be if it were alone."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from unit.server.engines import ALL, LIMITS, MODEL, generated, prefill, run
from zeroulp.model.compute_team import ComputeTeam
from zeroulp.model.context import NoGrad
from zeroulp.model.full_forward import full_forward
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.kernels.cache_rows import BLOCK
from zeroulp.model.sampling import SamplingParameters
from zeroulp.model.work import Work, work_of
from zeroulp.server.engine.calls import GenerateCall
from zeroulp.server.engine.engine import Engine
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.decode import DecodeJob
from zeroulp.server.jobs.session_calls import (
    CloseSessionJob,
    ForkSessionJob,
    GetSessionJob,
    TruncateSessionJob,
)

GREEDY = SamplingParameters(temperature=0.0)
C = MODEL.configuration
PARTS = st.lists(
    st.one_of(
        st.sampled_from([[1] * BLOCK, [2] * BLOCK, [1] * (BLOCK - 1)]),
        st.lists(st.sampled_from([1, 2]), min_size=1, max_size=3),
    ),
    min_size=1,
    max_size=3,
)
"""Tokens in runs that often begin alike."""


@cache
def full(tokens: tuple[int, ...]) -> F64:
    return full_forward(MODEL, NoGrad(ComputeTeam(1)), list(tokens))


class Alone:
    """What one session must be: its tokens, and its work by the closed forms."""

    def __init__(self, id_: str, tokens: list[int], work: Work) -> None:
        self.id = id_
        self.tokens = tokens
        self.work = work


class SessionMachine(RuleBasedStateMachine):
    sessions = Bundle("sessions")

    def __init__(self) -> None:
        super().__init__()
        self.engine = Engine(MODEL, None, LIMITS, ComputeTeam(1))
        self.open: list[Alone] = []

    def teardown(self) -> None:
        self.engine.stop()

    def reused(self, tokens: list[int]) -> int:
        """Whole blocks of all tokens but the last that an open session begins with, by comparing them all."""
        most = 0
        for session in self.open:
            for count in range(BLOCK, len(tokens), BLOCK):
                if session.tokens[:count] == tokens[:count]:
                    most = max(most, count)
        return most

    def opened(self, id_: str, tokens: list[int], work: Work) -> Alone:
        session = Alone(id_, tokens, work)
        self.open.append(session)
        return session

    @rule(target=sessions, parts=PARTS)
    def prefill(self, parts: list[list[int]]) -> Alone:
        tokens = [token for part in parts for token in part]
        reused = self.reused(tokens)
        answer = prefill(self.engine, tokens)
        work = work_of(C, reused, len(tokens) - reused, prefill=True) + Work(reused_tokens=reused)
        assert (answer.work, answer.total_work) == (work, work)
        assert answer.logits is not None
        assert answer.logits.first_position == 0
        assert answer.logits.values.tobytes() == full(tuple(tokens)).tobytes()
        return self.opened(answer.session_id, tokens, work)

    @rule(target=sessions, parts=PARTS)
    def generate(self, parts: list[list[int]]) -> Alone:
        tokens = [token for part in parts for token in part]
        reused = self.reused(tokens)
        started, *told, finished = generated(self.engine, GenerateCall(None, tuple(tokens), 2, GREEDY, 0))
        work = work_of(C, reused, len(tokens) - reused, prefill=True) + Work(reused_tokens=reused)
        for event in told:
            assert event.token == int(full(tuple(tokens))[-1].argmax())
            work += work_of(C, len(tokens), 1, prefill=False)
            tokens.append(event.token)
        assert (finished.generated, finished.work, finished.total_work) == (2, work, work)
        return self.opened(started.session_id, tokens, work)

    @rule(session=sessions, parts=PARTS)
    def decode(self, session: Alone, parts: list[list[int]]) -> None:
        ids = [token for part in parts for token in part][: C.max_positions - len(session.tokens)]
        if not ids:
            return
        answer = run(self.engine, DecodeJob(StopSignal(), session.id, tuple(ids), ALL))
        session.work += work_of(C, len(session.tokens), len(ids), prefill=False)
        session.tokens += ids
        assert answer.total_work == session.work
        want = full(tuple(session.tokens))[-len(ids) :]
        assert answer.logits.values.tobytes() == want.tobytes()

    @rule(session=sessions, back=st.one_of(st.integers(0, 3), st.integers(0, 2 * BLOCK)))
    def truncate(self, session: Alone, back: int) -> None:
        position = max(1, len(session.tokens) - back)
        state = run(self.engine, TruncateSessionJob(StopSignal(), session.id, position))
        del session.tokens[position:]
        self.check_state(state, session)

    @rule(session=sessions)
    def go_on(self, session: Alone) -> None:
        """Draw from the stored row of H."""
        if len(session.tokens) == C.max_positions:
            return
        want = int(full(tuple(session.tokens))[-1].argmax())
        events = generated(self.engine, GenerateCall(session.id, (), 1, GREEDY, 0))
        assert [event.token for event in events[1:-1]] == [want]
        session.work += work_of(C, len(session.tokens), 1, prefill=False)
        session.tokens.append(want)

    @rule(target=sessions, session=sessions)
    def fork(self, session: Alone) -> Alone:
        free = self.engine._hall.pool.free
        state = run(self.engine, ForkSessionJob(StopSignal(), session.id))
        assert self.engine._hall.pool.free == free
        fork = self.opened(state.session_id, list(session.tokens), Work(reused_tokens=len(session.tokens)))
        self.check_state(state, fork)
        return fork

    @rule(session=consumes(sessions))
    def close(self, session: Alone) -> None:
        self.check_state(run(self.engine, CloseSessionJob(StopSignal(), session.id)), session)
        self.open.remove(session)

    def check_state(self, state: Any, session: Alone) -> None:
        assert (state.session_id, state.ids) == (session.id, tuple(session.tokens))
        assert (state.position, state.total_work) == (len(session.tokens), session.work)

    @invariant()
    def the_books_balance(self) -> None:
        hall = self.engine._hall
        hall.check_integrity()
        assert len(hall.sessions) == len(self.open)
        assert hall.sessions._places == 0
        if not self.open:
            assert hall.pool.free == hall.pool.capacity

    @invariant()
    def every_session_is_as_if_alone(self) -> None:
        hall = self.engine._hall
        for session in self.open:
            self.check_state(run(self.engine, GetSessionJob(StopSignal(), session.id)), session)
            cache = hall.sessions.find(session.id).session.cache
            z = hall.model.logits(NoGrad(ComputeTeam(1)), cache.hidden(0, len(session.tokens)))
            assert z.tobytes() == full(tuple(session.tokens)).tobytes()


SessionMachine.TestCase.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
TestSessions = SessionMachine.TestCase
