"""The client library against a real server."""

from __future__ import annotations

from array import array

import pytest

from wire.serving import Serving
from zeroulp.client import (
    GREEDY,
    ChatMessage,
    Client,
    ContextFull,
    FinishReason,
    InvalidInput,
    LogitsScope,
    Sampling,
    ScoreSequence,
    SessionUnknown,
    bits_of,
    differing_bits,
)


@pytest.fixture
def client(boundary: Serving) -> Client:
    return Client(boundary.target)


@pytest.fixture
def texts(glass: Serving) -> Client:
    return Client(glass.target)


def test_the_reference_session(client: Client, boundary: Serving) -> None:
    scores = client.score(ScoreSequence([0, 99, 100], targets=[99, 100, 1]), logits=LogitsScope.ALL)
    (score,) = scores.sequences
    assert score.mean_nll is not None
    assert bits_of(score.mean_nll) == "4016ac70bf03b620"
    with client.prefill([0, 99]) as session:
        commit = session.decode([100])
        assert (commit.position, commit.total_work.cache_appends) == (3, 6)
        assert commit.total_work.attention_score_values == 12
        assert commit.logits is not None
        assert score.logits is not None
        assert differing_bits(commit.logits.row(0), score.logits.row(2)) == 0
        assert bytes(commit.logits.row(0)) == boundary.full_rows([0, 99, 100])[-1]
        state = session.state()
        assert (state.token_ids, state.cache_bytes > 0) == ((0, 99, 100), True)
    with pytest.raises(SessionUnknown):
        session.state()


def test_errors_are_typed(client: Client) -> None:
    with pytest.raises(InvalidInput) as bad:
        client.prefill([0, 258])
    assert (bad.value.reason, bad.value.violations[0].field) == ("TOKEN_OUT_OF_RANGE", "token_ids[1]")
    with pytest.raises(ContextFull) as full:
        client.generate([0], max_new_tokens=8)
    assert full.value.metadata == {"requested_positions": "9", "max_positions": "8"}
    with pytest.raises(InvalidInput):
        client.generate([ChatMessage("user", "Hi")])


def test_a_generation_and_its_resumption(texts: Client) -> None:
    options = Sampling(temperature=1.0, seed=3)
    with texts.generate("The ", keep_session=True, max_new_tokens=12, sampling=options) as whole:
        tokens = list(whole)
    with texts.generate("The ", keep_session=True, max_new_tokens=12, sampling=options) as broken:
        seen = [next(broken) for _ in range(5)]
    with texts.session(broken.session_id) as session:
        resumed = session.resume(broken.first_position + 5)
        assert seen + list(resumed) == tokens
        assert resumed.finished.reason is FinishReason.LENGTH
        assert session.state().token_ids == (*whole.prompt_ids, *(token.token_id for token in tokens))


def test_drafts_from_outside_give_the_greedy_tokens(texts: Client) -> None:
    """The README's recipe, with a draft that copies what followed the same token before."""
    prompt = "The cat and the dog and the cat"
    with texts.generate(prompt, max_new_tokens=32, sampling=GREEDY, ignore_end_tokens=True) as whole:
        want = [token.token_id for token in whole]

    def greedy(row: array[float]) -> int:
        return row.index(max(row))

    def draft(tokens: list[int]) -> list[int]:
        places = [place for place, token in enumerate(tokens[:-1]) if token == tokens[-1]]
        return tokens[places[-1] + 1 :][:4] if places else []

    drafted = accepted = 0
    with texts.prefill(prompt) as session:
        assert session.prefilled.logits is not None
        tokens = [*session.prefilled.token_ids, greedy(session.prefilled.logits.floats(0))]
        start = session.prefilled.position
        while len(tokens) < start + 32:
            guess = draft(tokens)
            commit = session.decode([tokens[-1], *guess], logits=LogitsScope.ALL)
            assert commit.logits is not None
            chosen = [greedy(commit.logits.floats(row)) for row in range(commit.logits.rows)]
            right = 0
            while right < len(guess) and guess[right] == chosen[right]:
                right += 1
            session.truncate(commit.position - len(guess) + right)
            tokens += chosen[: right + 1]
            drafted, accepted = drafted + len(guess), accepted + right
        assert list(session.state().token_ids) == tokens[:-1]
    assert tokens[start : start + 32] == want
    assert 0 < accepted < drafted


def test_two_ways_from_one_prompt(texts: Client) -> None:
    with texts.prefill("The ") as session, session.fork() as fork:
        position = session.prefilled.position
        assert fork.state().total_work.reused_tokens == position
        with fork.generate(max_new_tokens=4, sampling=GREEDY) as left:
            tokens = [token.token_id for token in left]
        with session.generate(max_new_tokens=4, sampling=GREEDY) as right:
            assert [token.token_id for token in right] == tokens
        cut = session.truncate(position)
        assert (cut.position, cut.total_work.token_forwards) == (position, position + 4)
        assert session.state().token_ids == session.prefilled.token_ids
        with pytest.raises(InvalidInput, match="cut to 1 up to"):
            session.truncate(0)


def test_a_generation_frees_its_session(texts: Client, glass: Serving) -> None:
    before = glass.footprint
    generation = texts.generate("The ", max_new_tokens=3, sampling=GREEDY)
    text = generation.text()
    assert text == texts.detokenize(texts.tokenize(text)[1:])
    glass.wait_until_idle()
    assert glass.footprint == before


def test_the_model_card(client: Client, boundary: Serving) -> None:
    model = client.model()
    assert (model.name, model.parameter_count, model.end_token_ids) == ("boundary-39", 1372, (1,))
    assert model.limits.cache_bytes == boundary.engine.limits.cache_bytes
    assert client.is_serving()
