"""The command line: the modules that it loads, the files that it writes, and its messages if it fails."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from fairburst.cli import errors, reference
from fairburst.cli import main as command
from fairburst.cli.main import main
from fairburst.cli.progress import ProgressLine
from fairburst.config import Config
from fairburst.kube import process
from fairburst.kube.api.errors import Forbidden

ROOT = Path(__file__).parents[2]
HEAVY = {
    "rich",
    "numpy",
    "scipy",
    "pydantic",
    "kopf",
    "kubernetes",
    "aiohttp",
    "asyncio",
    "yaml",
    "msgspec",
    "matplotlib",
    "fairburst.policy",
}


@pytest.mark.parametrize("arguments", ["--help", "--version"])
def test_help_loads_none_of_what_takes_long(arguments: str) -> None:
    program = f"import sys; from fairburst.cli.main import main; main({arguments.split()!r}); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert HEAVY.isdisjoint(done.stderr.split())
    assert "typer" in done.stderr.split()


def test_the_module_and_the_command_are_the_same() -> None:
    done = subprocess.run([sys.executable, "-m", "fairburst", "--version"], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout.startswith("fairburst ")


def test_help_fits_80_columns_and_has_no_colours_in_a_pipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert max(len(line) for line in shown.splitlines()) <= 80


def test_the_page_says_what_the_commands_take() -> None:
    page = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert page.partition(reference.MARK)[2] == reference.to_markdown(), "run: make cli-page"


def test_exit_statuses_are_the_same_everywhere() -> None:
    assert process.NO_CLUSTER == errors.NO_CLUSTER


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands_and_names(shell: str) -> None:
    words = {"bash": {"COMP_WORDS": "fairburst reproduce paf-fig1", "COMP_CWORD": "2"}}
    asked = words.get(shell, {"_TYPER_COMPLETE_ARGS": "fairburst reproduce paf-fig1", "_TYPER_COMPLETE_FISH_ACTION": "get-args"})
    variables = {**os.environ, **asked, "_FAIRBURST_COMPLETE": f"complete_{shell}"}
    program = "from fairburst.cli.main import main; main([])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=variables, check=False)
    assert "paf-fig10" in done.stdout
    assert "dress" not in done.stdout


def test_kubectl_completes_the_plugin() -> None:
    program = "import sys; from fairburst.cli.kubectl_completion import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", program, "reproduce", "paf-fig1"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["paf-fig10", ":4"]
    done = subprocess.run([sys.executable, "-c", program, "exp"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["explain", ":4"]


# A shell starts background jobs with SIGINT ignored, and children inherit that: Python then installs no handler of its own.
INTERRUPTED_AT_WORK = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from fairburst.cli import simulate
from fairburst.cli.main import main
from fairburst.cli.progress import ProgressLine

def work(given):
    with ProgressLine():
        print("at work", flush=True)
        time.sleep(60)

simulate._realistic = work
sys.exit(main(["simulate", "--trace", "bb", "--trace-format", "generated"]))
"""


def test_ctrl_c_ends_with_130_and_without_a_traceback() -> None:
    started = subprocess.Popen([sys.executable, "-c", INTERRUPTED_AT_WORK], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert started.stdout is not None
    assert started.stdout.readline() == b"at work\n"
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=60)
    assert (started.returncode, said) == (errors.INTERRUPTED, b"")


def test_an_interruption_is_an_exit_status(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fairburst.cli.simulate._realistic", interrupted)
    assert main(["simulate", "--trace", "bb", "--trace-format", "generated"]) == errors.INTERRUPTED


@pytest.mark.parametrize(
    ("error", "status"),
    [
        pytest.param(Forbidden(403, "Forbidden", "no"), errors.NO_CLUSTER, id="the cluster refuses"),
        pytest.param(OSError("disk full"), errors.FAILED, id="the disk"),
        pytest.param(errors.CommandError("it is so", errors.WORSE), errors.WORSE, id="a command's own"),
    ],
)
def test_a_failure_is_one_line_and_a_status(
    error: Exception, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("fairburst.cli.simulate._realistic", fails)
    assert main(["simulate", "--trace", "bb", "--trace-format", "generated"]) == status
    assert capsys.readouterr().err.splitlines() == [f"fairburst simulate: {error}"]


def test_a_defect_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairburst.cli.simulate._realistic", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["simulate", "--trace", "bb", "--trace-format", "generated"])


def test_an_unknown_command_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulat"]) == errors.WRONG_ARGUMENTS
    assert capsys.readouterr().err == "fairburst simulat: No such command 'simulat'. Did you mean 'simulate'?\nTry `fairburst --help`.\n"


def test_no_command_at_all_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == errors.WRONG_ARGUMENTS
    assert "simulate" in "".join(capsys.readouterr())


def test_an_api_server_that_cannot_be_reached_is_one_line(tmp_path: Path) -> None:
    server = {"name": "c", "cluster": {"server": "http://127.0.0.1:9"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    content = {"current-context": "c", "clusters": [server], "contexts": [context], "users": [{"name": "u", "user": {}}]}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(content))
    (tmp_path / "fairburst.yaml").write_text("metrics: {host: 127.0.0.1, port: 0}\n")
    chosen = ["--config", str(tmp_path / "fairburst.yaml"), "--kubeconfig", str(tmp_path / "kubeconfig")]
    for name in ("run", "uninstall", "extender"):
        arguments = [sys.executable, "-m", "fairburst", name, *chosen]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == errors.NO_CLUSTER
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert "127.0.0.1:9" in done.stderr


def test_progress_fits_80_columns_and_leaves_nothing_behind() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=200, color_system=None)
    with ProgressLine(console) as progress:
        progress(0.5, "a policy with a name that is much longer than the part of a line that is left for it, " * 2)
    assert console.width <= 80
    drawn = console.file.getvalue()  # type: ignore[attr-defined]
    assert " 50% " in drawn
    assert max(len(line) for line in re.sub(r"\x1b\[[0-9?]*[A-Za-z]", "\n", drawn).splitlines()) <= 80
    assert drawn.endswith("\x1b[2K")


def test_progress_is_silent_where_there_is_no_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=False)
    with ProgressLine(console) as progress:
        progress(0.5, "bopf")
    assert not console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize("arguments", ["config", "metrics --markdown", "--help", "--version"])
def test_a_closed_standard_output_is_one_line(arguments: str) -> None:
    command = f"{sys.executable} -m fairburst {arguments} >&-"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == errors.FAILED
    assert [line.partition(": ")[2] for line in done.stderr.splitlines()] == ["expected an open standard output, found a closed one"]


def test_without_any_output_the_status_says_that_it_failed() -> None:
    command = f"{sys.executable} -m fairburst config >&- 2>&-"
    assert subprocess.run(["/bin/sh", "-c", command], timeout=60, check=False).returncode == errors.FAILED


def test_crds_are_written_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["crds", "--save", str(tmp_path / "new")]) == 0
    assert capsys.readouterr().out.split() == [str(path) for path in sorted((tmp_path / "new").iterdir())]
    assert main(["crds", "--output", str(tmp_path / "other")]) == 0


def test_the_configuration_is_printed_with_its_defaults(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "fairburst.yaml"
    file.write_text("metrics: {port: 0}\n")
    assert main(["config", "--config", str(file)]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["metrics"] == {"host": "0.0.0.0", "port": 0}  # noqa: S104
    assert printed["pool"]["name"] == Config().pool.name


@pytest.mark.parametrize("name", ["config", "manifests", "run"])
def test_a_wrong_key_ends_the_command_with_the_right_one(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    file = tmp_path / "fairburst.yaml"
    file.write_text("metric: {port: 0}\n")
    assert main([name, "--config", str(file)]) == 1
    assert f"{file}: metric: no such key; did you mean metrics?" in capsys.readouterr().err


def test_a_missing_file_ends_the_command_with_its_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifests", "--config", str(tmp_path / "absent.yaml")]) == 1
    assert "absent.yaml: expected a readable YAML file" in capsys.readouterr().err


def test_every_command_is_listed_once() -> None:
    names = [(info.callback.__name__ if info.callback else "") for info in command.app.registered_commands]
    assert len(set(names)) == len(names)
