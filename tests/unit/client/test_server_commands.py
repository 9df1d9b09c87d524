from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest

from zeroulp.client.cli import main, server_commands


def installed(monkeypatch: pytest.MonkeyPatch, **commands: str) -> None:
    points = EntryPoints(EntryPoint(name, value, server_commands.GROUP) for name, value in commands.items())

    def entry_points(**selection: Any) -> EntryPoints:
        return points.select(**selection)

    monkeypatch.setattr(server_commands, "entry_points", entry_points)


def paint(arguments: list[str]) -> int:
    print(f"painting {arguments}")
    return 7


def test_a_command_gets_its_arguments_unread(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed(monkeypatch, paint=f"{__name__}:paint")
    assert main(["paint", "--help", "--target", "x"]) == 7
    assert capsys.readouterr().out == "painting ['--help', '--target', 'x']\n"


@pytest.mark.parametrize(
    "commands", [{}, {"serve": "no_such_package.cli:serve"}], ids=["no entry point", "a package is missing"]
)
def test_without_the_server_its_commands_say_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], commands: dict[str, str]
) -> None:
    installed(monkeypatch, **commands)
    assert main(["serve", "--model", "x"]) == 1
    assert capsys.readouterr().err.startswith(
        "zeroulp: serve comes with the server: pip install 'zeroulp[server]'"
    )


def test_help_lists_all_commands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    installed(monkeypatch, paint="a:b")
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    listed = capsys.readouterr().out
    names = "generate chat score model health reload demo serve pull boundary paint"
    for name in names.split():
        assert f"\n    {name} " in listed
