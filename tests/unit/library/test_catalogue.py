import math

from zeroulp.model.configuration import Configuration
from zeroulp.model.library.catalogue import BUILT_IN, PULLED


def learned_scalars(configuration: Configuration) -> int:
    return sum(math.prod(shape) for shape in configuration.parameter_shapes().values())


def test_the_reference_fixture_has_its_sizes_and_seed() -> None:
    model = BUILT_IN["boundary-39"]
    assert model.configuration == Configuration(258, 4, 1, 1, 8, 2, 8, 10000.0, 1e-6)
    assert model.seed == 39
    assert learned_scalars(model.configuration) == 1372
    assert len(model.configuration.parameter_shapes()) == 20


def test_the_second_reference_model_has_its_sizes() -> None:
    model = BUILT_IN["glass-default"]
    assert model.configuration == Configuration(1024, 128, 4, 2, 341, 4, 512, 10000.0, 1e-6)
    assert learned_scalars(model.configuration) == 852_608


def test_every_model_has_one_name() -> None:
    assert not BUILT_IN.keys() & PULLED.keys()
    assert [model.name for model in BUILT_IN.values()] == list(BUILT_IN)
    assert [model.name for model in PULLED.values()] == list(PULLED)
    for name in (*BUILT_IN, *PULLED):
        # A name can never be meant as a path.
        assert "/" not in name
        assert not name.endswith(".gguf")


def test_pulled_models_are_pinned() -> None:
    for model in PULLED.values():
        assert "==" in model.requirement
        assert model.size > 0
        assert len(bytes.fromhex(model.wheel_sha256)) == len(bytes.fromhex(model.sha256)) == 32
