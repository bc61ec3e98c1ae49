"""A report over recordings: used, lent and borrowed amounts add up, and equal those of a simulated minute."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from fairburst.cli.main import main
from fairburst.policy.model import Memory, PolicyConfig, QueueSpec
from fairburst.recording.lines import Outcome, RecordedRound
from fairburst.recording.usage import LONGEST_GAP_SECONDS, usage_report
from fairburst.whatif.rounds import DecidedRound
from tests.support import recordings
from tests.support.policy import snapshot, throughput


def recorded(now: float, used: list[float], queues: tuple[QueueSpec, ...]) -> RecordedRound:
    """A round in a pool of ten in which each queue uses so much and wants all of it."""
    one = DecidedRound.of(snapshot(queues, [10.0], [[10.0]] * len(queues), [[each] for each in used]), Memory(), PolicyConfig(), now)
    return RecordedRound(now, one.snapshot, None, Outcome.of(one.result))


TWO = (throughput("a/q", 0.0), throughput("b/q", 1.0))


def test_what_one_queue_lends_another_borrows() -> None:
    report = usage_report([recorded(0.0, [2.0, 8.0], TWO), recorded(100.0, [5.0, 5.0], TWO), recorded(200.0, [0.0, 0.0], TWO)])
    lender, borrower = report.queues["a/q"], report.queues["b/q"]
    assert (lender.used, lender.entitled, lender.lent, lender.borrowed) == pytest.approx((70.0, 100.0, 30.0, 0.0))
    assert (borrower.used, borrower.entitled, borrower.lent, borrower.borrowed) == pytest.approx((130.0, 100.0, 0.0, 30.0))


def test_what_no_one_takes_is_idle_and_not_lent() -> None:
    report = usage_report([recorded(0.0, [2.0, 6.0], TWO), recorded(10.0, [0.0, 0.0], TWO)])
    assert report.queues["a/q"].lent == pytest.approx(1.0), "3 of 5 were left, 1 of them was taken"


def test_a_gap_without_an_operator_counts_for_no_one() -> None:
    report = usage_report([recorded(0.0, [2.0, 6.0], TWO), recorded(LONGEST_GAP_SECONDS + 1, [2.0, 6.0], TWO)])
    assert report.unknown_seconds == LONGEST_GAP_SECONDS + 1
    assert report.queues["a/q"].seconds == 0


def test_only_the_last_days_count() -> None:
    rounds = [recorded(at, [5.0, 5.0], TWO) for at in (0.0, 100.0, 200.0)]
    assert usage_report(rounds, since=150.0).queues["a/q"].seconds == pytest.approx(50.0)


class TestCommand:
    @pytest.fixture
    def recording(self, tmp_path: Path) -> Path:
        path = tmp_path / "rounds.jsonl"
        recordings.record(path)
        return path

    def test_bursts_and_shares_of_a_busy_minute(self, recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert main(["report", str(recording), "-o", "json"]) == 0
        found = {one["queue"]: one for one in json.loads(capsys.readouterr().out)["queues"]}
        assert found["serving/q"]["met"] + found["serving/q"]["missed"] == 2
        assert found["two/q"]["entitled"] == pytest.approx(2 * found["one/q"]["entitled"])
        assert sum(one["used"] for one in found.values()) <= 1.0 + 1e-9
        assert sum(one["lent"] for one in found.values()) <= sum(one["borrowed"] for one in found.values()) + 1e-9

    def test_csv_and_the_page_say_the_same(self, recording: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        page = tmp_path / "report.html"
        assert main(["report", str(recording), "-o", "csv", "--html", str(page)]) == 0
        lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
        assert [line["queue"] for line in lines] == ["one/q", "serving/q", "two/q"]
        text = page.read_text()
        for line in lines:
            assert f"<td>{line['queue']}</td>" in text
            assert f"<td>{float(line['used']):.1%}</td>" in text
        assert "<script" not in text
        assert "http" not in text

    def test_several_files_are_read_in_order_of_time(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "rounds.jsonl"
        recordings.record(path, max_bytes=8_000, files=100)
        files = sorted(map(str, tmp_path.glob("rounds.jsonl*")))
        assert len(files) > 2
        whole = tmp_path / "whole.jsonl"
        recordings.record(whole)
        assert main(["report", *files, "-o", "csv"]) == 0
        parts = capsys.readouterr().out
        assert main(["report", str(whole), "-o", "csv"]) == 0
        assert parts == capsys.readouterr().out

    @pytest.mark.parametrize("form", ["table", "json", "csv"])
    def test_one_round_is_too_few(self, recording: Path, tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
        """A snapshot has one: all its queues had 0.0 hours and used 0 %."""
        one, page = tmp_path / "one.jsonl", tmp_path / "report.html"
        one.write_text("".join(recording.read_text().splitlines(keepends=True)[:2]))  # the header and a round
        assert main(["report", str(one), "-o", form, "--html", str(page)]) == 1
        printed = capsys.readouterr()
        (said,) = printed.err.splitlines()
        assert "expected two rounds or more, found one; a round counts for the time until the next one" in said
        assert not printed.out
        assert not page.exists()

    def test_a_broken_file_is_one_line(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "broken").write_text("{}\n")
        assert main(["report", str(tmp_path / "broken")]) == 1
        assert len(capsys.readouterr().err.splitlines()) == 1
        assert main(["report", str(tmp_path / "absent")]) == 2
