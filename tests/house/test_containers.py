from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
import yaml

from house.dockerfile import instructions, only
from house.tree import ROOT, source_files

SCHEMA = json.loads((ROOT / "tests" / "data" / "compose-spec" / "compose-spec.json").read_text())


@pytest.fixture(scope="module")
def compose() -> Any:
    return yaml.safe_load((ROOT / "docker-compose.yml").read_text())


def test_the_compose_file_follows_the_compose_schema(compose: Any) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(compose)


def test_the_schema_refuses_a_misspelt_key(compose: Any) -> None:
    daemon = compose["services"]["daemon"]
    broken = {**compose, "services": {"daemon": {**daemon, "stop_grace": "45s"}}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(broken)


def test_services_use_the_volume_and_the_services_that_exist(compose: Any) -> None:
    for service in compose["services"].values():
        assert set(service.get("depends_on", {})) <= set(compose["services"])
        assert {volume.split(":")[0] for volume in service.get("volumes", [])} <= set(compose["volumes"])


def test_compose_and_dockerfile_say_the_same(compose: Any) -> None:
    daemon = compose["services"]["daemon"]
    assert daemon["command"] == only("CMD").words()
    assert daemon["healthcheck"]["test"] == ["CMD", *only("HEALTHCHECK").words()]
    assert daemon["volumes"] == [f"cache:{only('VOLUME').text}"]
    assert daemon["ports"] == [f"127.0.0.1:{only('EXPOSE').text}:{only('EXPOSE').text}"]


def test_the_image_is_slim_and_runs_as_a_user() -> None:
    names = [instruction.name for instruction in instructions()]
    assert only("FROM").text.endswith("-slim")
    assert only("USER").text not in {"root", "0"}
    assert names.index("USER") > max(i for i, name in enumerate(names) if name == "RUN")


def test_what_the_image_copies_is_in_the_tree_and_in_the_build_context() -> None:
    tracked = source_files()
    kept = (ROOT / ".dockerignore").read_text().splitlines()
    for instruction in instructions():
        for source in instruction.text.split()[:-1] if instruction.name == "COPY" else []:
            assert f"!{source}" in kept
            assert any(name == source or name.startswith(f"{source}/") for name in tracked), source
