from __future__ import annotations

import hashlib

from house.tree import ROOT

APACHE_2_0 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
"""SHA-256 of the licence's text, with its appendix, as the Apache Software Foundation publishes it."""


def test_the_licence_is_the_apache_2_0_text() -> None:
    assert hashlib.sha256((ROOT / "LICENSE").read_bytes()).hexdigest() == APACHE_2_0
