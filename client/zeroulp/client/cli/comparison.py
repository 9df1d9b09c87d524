"""Logit rows that a generation gave, against those of one full forward over the whole sequence."""

from __future__ import annotations

from dataclasses import dataclass

from zeroulp.client.bits import differing_bits
from zeroulp.client.cli.failure import CommandFailed
from zeroulp.client.client import Client
from zeroulp.client.logits import LogitsScope
from zeroulp.client.token import Token


@dataclass(frozen=True, slots=True)
class Comparison:
    """How many rows were compared, and how many of all their bits differ."""

    rows: int
    bits: int


def compare_with_full_forward(client: Client, token_ids: tuple[int, ...], tokens: list[Token]) -> Comparison:
    """Compare the rows that ``tokens`` were drawn from with Score's over ``token_ids``, (T,).

    The row of a token at position p follows position p - 1. Raises CommandFailed when the tokens are
    not those of the sequence, when a row is missing, and when there is nothing to compare.
    """
    if not tokens:
        raise CommandFailed("no token was generated, so there is nothing to compare")
    full = client.score(token_ids, logits=LogitsScope.ALL).sequences[0].logits  # (T, V)
    if full is None or full.rows != len(token_ids):
        raise CommandFailed("the full forward came without its rows")
    bits = 0
    for token in tokens:
        if token.logits is None or token_ids[token.position : token.position + 1] != (token.token_id,):
            raise CommandFailed(f"the token at position {token.position} is not the session's, or has no row")
        bits += differing_bits(token.logits.row(0), full.row(token.position - 1))
    return Comparison(len(tokens), bits)
