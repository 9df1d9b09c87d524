"""Generate: draw, commit, then tell, token after token."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from zeroulp.model.errors import InvalidArgument
from zeroulp.model.kernels.arrays import F64
from zeroulp.model.probabilities import log_probabilities
from zeroulp.model.sampling import draw
from zeroulp.model.session import Session
from zeroulp.model.work import Work
from zeroulp.server.engine.calls import (
    Finished,
    FinishReason,
    GenerateCall,
    Generated,
    GenerationEvent,
    Scope,
    Started,
    Wanted,
)
from zeroulp.server.engine.event_channel import EventChannel
from zeroulp.server.engine.generation import Generation
from zeroulp.server.engine.hall import Hall
from zeroulp.server.engine.stop_signal import StopSignal
from zeroulp.server.jobs.append import Append
from zeroulp.server.jobs.job import Share
from zeroulp.server.jobs.stream_job import StreamJob
from zeroulp.server.jobs.utterance import Utterance

_QUIET = Wanted(Scope.NONE)


@dataclass(frozen=True, slots=True, eq=False)
class _State:
    """What a started generation works on."""

    session: Session
    generation: Generation
    utterance: Utterance


class GenerateJob(StreamJob):
    """A fresh generation and one that is taken up again tell committed tokens by the same code.

    ``told`` counts the generated tokens that have passed through the text; those before
    ``resume_position`` pass silently, because their reader has them.
    """

    def __init__(
        self,
        stop: StopSignal,
        call: GenerateCall | None,
        channel: EventChannel[GenerationEvent],
        *,
        session_id: str | None = None,
        resume_position: int | None = None,
    ) -> None:
        super().__init__(stop, channel, call.session_id if call is not None else session_id)
        self._call = call
        self._resume_position = resume_position
        self._append: Append | None = None
        self._holds_place = False
        self._work = Work()
        self._told = 0
        self._row: tuple[int, F64] | None = None
        """Logits ``[V]`` at hand, with the position of the token that is drawn from them."""
        self._state: _State | None = None

    # -- start ---------------------------------------------------------------------------------

    def start(self, hall: Hall) -> None:
        """Check everything that a refusal can be about, and hold the room for all of it."""
        if self._call is None:
            self._start_again(hall)
            return
        call = self._call
        self._check_call(hall, call)
        session = self.opened.session if self.opened is not None else hall.new_session()
        hall.model.check_room(session.position, len(call.ids), field="token_ids")
        ids = hall.model.check_tokens(call.ids, field="token_ids", allow_empty=session.position > 0)
        hall.model.check_room(session.position, ids.size + (call.max_new_tokens or 0), field="max_new_tokens")
        utterance = Utterance(hall.tokenizer, call.stop)  # refuses what cannot be a stop string
        if self.opened is None:
            hall.sessions.take_place()
            self._holds_place = True
        session.cache.check_parameters()
        generation = Generation(call, session.position + ids.size)
        self._state = _State(session, generation, utterance)
        reused = hall.reuse(session, ids) if self.opened is None else 0
        session.cache.reserve(ids.size - reused + (call.max_new_tokens or 0))
        if ids.size:
            self._append = Append(hall, session, ids[reused:], Wanted(Scope.LAST), reused=reused)
        else:
            self._input_committed(hall)

    @property
    def _session(self) -> Session:
        return self._started.session

    @property
    def _generation(self) -> Generation:
        return self._started.generation

    @property
    def _started(self) -> _State:
        if self._state is None:
            raise RuntimeError("the generation has not started")
        return self._state

    def _start_again(self, hall: Hall) -> None:
        opened, position = self.writing, self._resume_position
        generation = opened.generation
        if generation is None:
            raise InvalidArgument(
                "the session's newest tokens were not generated; there is nothing to resume",
                field="resume_position",
            )
        start, end = generation.start, opened.session.position
        if position is None or not start <= position <= end:
            raise InvalidArgument(
                f"resume_position is {position}; the generation can be resumed from {start} to {end}",
                field="resume_position",
            )
        opened.session.cache.check_parameters()
        self._state = _State(opened.session, generation, Utterance(hall.tokenizer, generation.call.stop))
        self._tell_start()

    def _check_call(self, hall: Hall, call: GenerateCall) -> None:
        limits = hall.limits
        if call.wanted.scope is Scope.ALL:
            raise InvalidArgument(
                "logits_scope ALL is not for Generate; LAST gives each token's row", field="logits_scope"
            )
        if len(call.stop) > limits.max_stop_strings:
            raise InvalidArgument(
                f"stop has {len(call.stop)} strings; {limits.max_stop_strings} are allowed", field="stop"
            )
        size = sum(len(text.encode()) for text in call.stop)
        if size > limits.max_stop_bytes:
            raise InvalidArgument(f"stop has {size} bytes; {limits.max_stop_bytes} are allowed", field="stop")
        if call.stop and hall.tokenizer is None:
            raise InvalidArgument(
                "the model has no tokenizer, so it cannot look for stop strings", field="stop"
            )
        hall.check_entries(call.wanted.top_entries)
        rows = 1 if call.wanted.scope is Scope.LAST else 0
        hall.check_answer_size(rows, call.wanted.top_entries, 1)

    # -- steps ---------------------------------------------------------------------------------

    def share(self, hall: Hall, room: int) -> Share | None:
        """Return the next chunk of the input, or the next drawn token; None while the reader is behind."""
        if self._append is None:
            self._tell(hall)
            if self.ended or self.channel.full:
                return None
            self._append = self._drawn(hall)
        return self._append.share(room)

    def take(self, hall: Hall, share: Share, hidden: F64, logits: F64) -> None:
        """Commit the input, or a drawn token, and tell it."""
        append = self._append
        if append is None or not append.take(hidden, logits):
            return
        self._work += append.commit(self.stop)
        self._append = None
        if self.opened is not None:
            hall.sessions.changed(self.opened)
        if append.first_position < self._generation.start:
            self._row = self._session.position, append.logit_rows()[-1]
            self._input_committed(hall)
            return
        self._tell(hall)
        self._row = self._session.position, append.logit_rows()[-1]

    def _drawn(self, hall: Hall) -> Append:
        if self._row is None:
            self._row = self._session.position, hall.newest_logits(self._session)
        call = self._generation.call
        token = draw(self._row[1], call.sampling, call.seed, self._session.tokens, self._generation.start)
        return Append(hall, self._session, np.array([token], np.int64), Wanted(Scope.LAST))

    def _input_committed(self, hall: Hall) -> None:
        if self.opened is None:
            self.opened = hall.sessions.open(self._session)
            self._holds_place = False
            self.opened.writers.append(self)
        self.opened.generation = self._generation
        self._tell_start()
        self._tell(hall)

    # -- telling -------------------------------------------------------------------------------

    def _tell_start(self) -> None:
        generation = self._generation
        ids = () if self._call is None else self._call.ids
        self.channel.put(Started(self.writing.id, ids, generation.start, generation.call.seed))

    def _tell(self, hall: Hall) -> None:
        """Tell committed tokens while the reader takes them, and the end when it is reached."""
        committed = self._session.position - self._generation.start
        while not self.channel.full:
            reason = self._finished(hall)
            if reason is not None:
                self._tell_end(reason)
                return
            if self._told == committed:
                return
            event = self._generated(hall, self._told)
            self._told += 1
            if self._resume_position is None or event.position >= self._resume_position:
                self.channel.put(event)

    def _generated(self, hall: Hall, index: int) -> Generated:
        generation = self._generation
        call, position = generation.call, generation.start + index
        token = self._session.tokens[position]
        event = Generated(token, position, self._started.utterance.push(token), None, None, ())
        if call.wanted == _QUIET and not call.log_probabilities:
            return event
        if self._row is not None and self._row[0] == position:
            z = self._row[1]
        else:
            z = hall.model.logits(hall.context, self._session.cache.hidden(position - 1, 1))[0]
        table = log_probabilities(hall.context, z[None])
        return replace(
            event,
            log_probability=table.of(0, token) if call.log_probabilities else None,
            logits=z if call.wanted.scope is Scope.LAST else None,
            top=table.top(0, call.wanted.top_entries) if call.wanted.top_entries else (),
        )

    def _finished(self, hall: Hall) -> FinishReason | None:
        """Return why nothing follows the told tokens; None if something does."""
        generation, call = self._generation, self._generation.call
        position = generation.start + self._told
        ends = (
            hall.tokenizer.end_ids
            if hall.tokenizer is not None and not call.ignore_end_tokens
            else frozenset()
        )
        if self._told and self._started.utterance.stopped is not None:
            return FinishReason.STOP_STRING
        if self._told and self._session.tokens[position - 1] in ends:
            return FinishReason.END_TOKEN
        if self._told == call.max_new_tokens:
            return FinishReason.LENGTH
        if position == hall.model.configuration.max_positions:
            return FinishReason.CONTEXT_FULL
        return None

    def _tell_end(self, reason: FinishReason) -> None:
        session = self._session
        text, stop = self._started.utterance.finish(), self._started.utterance.stopped
        end = Finished(reason, text, session.position, self._told, stop, self._work, session.total_work)
        self.answer(end)

    # -- end -----------------------------------------------------------------------------------

    def release(self, hall: Hall) -> None:
        """Give back the room that was not used, and the session if that was asked for."""
        if self._append is not None:
            self._append.rollback()
        if self._holds_place:
            hall.sessions.give_place()
        if self._state is None:
            return
        if self.opened is None:
            self._session.cache.release()
            return
        self._session.cache.trim()
        if self._generation.call.close_session:
            hall.sessions.close(self.opened)
