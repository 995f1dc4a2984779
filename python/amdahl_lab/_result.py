"""What a command returned: its JSON, its records, its run folder, as text, page and data frame."""
from __future__ import annotations

import gzip
import html
import json
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from ._error import Error
from ._program import run_program

_FRAME = '<iframe srcdoc="{}" style="width:100%;height:{}px;border:0" title="amdahl {}"></iframe>'
_FRAME_HEIGHT = 720


@dataclass(frozen=True)
class Series:
    """Samples of one quantity in its unit, such as "us" or "GB/s"."""
    name: str
    unit: str
    samples: list[float]


@dataclass(frozen=True)
class Record:
    """One measurement: docs/schema/record.schema.json.

    kind: such as "cell", "collective", "link". axes: what was varied, name to value. series: by name. provenance:
    command line, machine, versions. status: {"kind": "ok", "waived" or "failed", "reason"}. origin: measured, modelled
    and so on.
    """
    kind: str
    axes: dict[str, Any]
    series: dict[str, Series]
    provenance: dict[str, Any] = field(repr=False)
    status: dict[str, Any]
    origin: str = "measured"

    @property
    def ok(self) -> bool:
        return self.status.get("kind") == "ok"


def record_of(document: dict[str, Any], provenance: Optional[dict[str, Any]] = None) -> Record:
    series = {one["name"]: Series(one["name"], one.get("unit", ""), one.get("samples", []))
              for one in document.get("series", [])}
    return Record(document["kind"], document.get("axes", {}), series, document.get("provenance", provenance or {}),
                  document.get("status", {"kind": "ok"}), document.get("origin", "measured"))


class Result:
    """What a command of the program returned.

    json: its JSON as a dict ({} of a command that printed text). command; command_line: the words after `amdahl`.
    run_dir: the folder of the run, or None.
    """

    def __init__(self, command: str, json: dict[str, Any], printed: str, run_dir: Optional[str] = None,
                 command_line: Sequence[str] = ()):
        self.command = command
        self.json = json
        self.run_dir = run_dir
        self.command_line = list(command_line)
        self._printed = printed
        self._records: Optional[list[Record]] = None

    @property
    def records(self) -> list[Record]:
        """The records in the JSON, else those of the run folder; [] of a command without any."""
        if self._records is None:
            self._records = self._read_records()
        return self._records

    def _read_records(self) -> list[Record]:
        if isinstance(self.json.get("records"), list):
            return [record_of(one) for one in self.json["records"]]
        if self.run_dir:
            found = records_of_run(self.run_dir)
            if found:
                return found
        return [record_of(self.json)] if "kind" in self.json and "series" in self.json else []

    @property
    def text(self) -> str:
        """The program's text: of the run folder, `amdahl report DIR`; without a folder, what the command printed."""
        if not self.run_dir:
            return self._printed
        code, printed, _, error = run_program(["report", self.run_dir], echo=False)
        if error is not None:
            raise error
        return printed

    @property
    def verdict(self) -> str:
        """The sentence with the answer; "" of a command that gives none."""
        found = (self.json.get(key) for key in ("verdict", "conclusion", "why"))
        return next((text for text in found if isinstance(text, str)), "")

    def __repr__(self) -> str:
        where = f" in {self.run_dir}" if self.run_dir else ""
        verdict = f"; {self.verdict}" if self.verdict else ""
        return f"<amdahl {self.command}{where}: {len(self.records)} records{verdict}>"

    def _repr_html_(self) -> str:
        """The program's page of the run, in a frame; a table of the records when there is no folder."""
        if not self.run_dir:
            return self._table()
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "page.html")
            self._write_page(path)
            with open(path, encoding="utf-8") as file:
                return _FRAME.format(html.escape(file.read(), quote=True), _FRAME_HEIGHT, html.escape(self.command))

    def _write_page(self, path: str) -> None:
        _, _, _, error = run_program(["report", self.run_dir or "", f"--html={path}"], echo=False)
        if error is not None:
            raise error

    def _table(self) -> str:
        rows = self._rows()
        if not rows:
            return f"<pre>{html.escape(self._printed)}</pre>"
        columns = list(dict.fromkeys(name for row in rows for name in row))
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(_cell(row.get(name)))}</td>" for name in columns) + "</tr>"
                       for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    def _rows(self) -> list[dict[str, Any]]:
        return [{"kind": one.kind, **one.axes, "status": one.status.get("kind"),
                 **{series.name: series.samples[0] for series in one.series.values() if series.samples}}
                for one in self.records]

    def to_pandas(self) -> Any:
        """A pandas.DataFrame with one row per record: kind, the axes, status, and the first sample of each series; its
        attrs["units"] has the unit of each series. Error of cause environment-missing without pandas."""
        frame = frame_of(self._rows(), ".records")
        frame.attrs["units"] = {series.name: series.unit for one in self.records for series in one.series.values()}
        return frame

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes FILE.json, the program's JSON as it was, or FILE.html, the page that notebooks show."""
        name = os.fspath(path)
        if name.endswith(".json"):
            _write(name, self._printed if self.json else json.dumps(self.json) + "\n")
        elif name.endswith(".html"):
            if self.run_dir:
                self._write_page(name)
            else:
                _write(name, f"<!DOCTYPE html><meta charset=\"utf-8\"><title>amdahl {html.escape(self.command)}</title>"
                             f"{self._table()}\n")
        else:
            raise Error("usage", f"save() does not know the ending of {name}", "FILE.json or FILE.html", 2)


def frame_of(rows: list[dict[str, Any]], without: str) -> Any:
    """A pandas.DataFrame of the rows. Error of cause environment-missing without pandas, which names what does without."""
    try:
        import pandas
    except ImportError as error:
        raise Error("environment-missing", "to_pandas() needs pandas, which cannot be imported",
                    f"python3 -m pip install pandas, or {without}", 3) from error
    return pandas.DataFrame(rows)


def records_of_run(folder: Union[str, "os.PathLike[str]"]) -> list[Record]:
    """The records of a run folder, with the provenance that each refers to."""
    for name in ("records.jsonl", "records.jsonl.gz"):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            with (gzip.open if name.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
                return _records_of_lines(file)
    return []


def _records_of_lines(lines: Iterable[str]) -> list[Record]:
    provenances: dict[str, dict[str, Any]] = {}
    records = []
    for line in lines:
        try:
            document = json.loads(line)
        except ValueError:
            break  # the last line of a run that was killed
        if document.get("type") == "provenance":
            provenances[document["id"]] = document
        elif document.get("type") == "record":
            records.append(record_of({**document, "provenance": provenances.get(document.get("provenance"), {})}))
    return records


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
