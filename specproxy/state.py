"""What a route has learned, kept in a small file across restarts, so that it starts warm.

One file for each route, draft and target model; written whole beside the old one, which it then
replaces. Invariant: a file that is missing, torn or of another version costs a cold start, no more.
"""

import asyncio
import hashlib
import json
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

from specproxy.core.acceptance import AcceptanceModel
from specproxy.core.observed import Observed
from specproxy.core.record import Record

log = structlog.get_logger(__name__)

VERSION = 1
MAX_BYTES = 1 << 20


class RouteState:
    """The acceptance model and the record of one route, and the file they are kept in.

    Args:
        folder: where the file is; None keeps nothing.
        acceptance, observed: filled by `recall`, read by `save`.
    """

    def __init__(
        self, folder: Path | None, route: str, acceptance: AcceptanceModel, observed: Observed
    ) -> None:
        self._folder = folder
        self._route = route
        self._acceptance = acceptance
        self._observed = observed
        self._models: tuple[str, str] | None = None
        self._num_saved = 0
        self._writing = threading.Lock()

    def __repr__(self) -> str:
        return f"<RouteState {self.path}>"

    @property
    def path(self) -> Path | None:
        """The file; None while the models are unknown, or nothing is kept."""
        if self._folder is None or self._models is None:
            return None
        key = hashlib.sha256("\0".join((self._route, *self._models)).encode()).hexdigest()[:12]
        name = re.sub(r"[^A-Za-z0-9._-]", "_", self._route)
        return self._folder / f"{name}-{key}.json"

    def recall(self, draft: str, target: str, now_s: float) -> None:
        """These are the models from now on: begin with what is known of them."""
        if self._models == (draft, target):
            return
        self.save()
        if self._models is not None:  # what was learned of others is none of theirs
            self._acceptance.restore(AcceptanceModel().saved())
            self._observed.record = Record()
        self._models = (draft, target)
        self._load(now_s)
        self._num_saved = self._observed.total.num_passes

    def _load(self, now_s: float) -> None:
        path = self.path
        if path is None:
            return
        try:
            with path.open("rb") as file:
                saved = json.loads(file.read(MAX_BYTES))
            if not isinstance(saved, dict) or saved.get("version") != VERSION:
                raise ValueError("it is of another version")
            record = Record.restored(saved.get("record"), self._observed.day_s(now_s))
            self._acceptance.restore(saved.get("acceptance"))
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError) as error:
            log.warning("what was learned cannot be read", path=str(path), reason=str(error))
            return
        self._observed.record = record
        log.info("what was learned is known again", path=str(path))

    @property
    def is_saved(self) -> bool:
        """Nothing has been learned since the file was written."""
        return self.path is None or self._observed.total.num_passes == self._num_saved

    def save(self) -> None:
        """Write the file, if there is anything new. Never raises."""
        path = self.path
        if path is not None and not self.is_saved:
            self._write(path, self._taken())

    async def save_aside(self) -> None:
        """As `save`, while a thread waits for the disk. What is written is read before: answers
        go on learning meanwhile."""
        path = self.path
        if path is not None and not self.is_saved:
            await asyncio.to_thread(self._write, path, self._taken())

    def _taken(self) -> str:
        """What is known now, as a text; it counts as saved."""
        self._num_saved = self._observed.total.num_passes
        return json.dumps(self._content(), separators=(",", ":"))

    def _write(self, path: Path, text: str) -> None:
        fresh = path.with_suffix(f".{os.getpid()}.new")
        try:
            with self._writing:  # a thread that nobody waits for any more may still be at it
                path.parent.mkdir(parents=True, exist_ok=True)
                fresh.write_text(text, encoding="utf-8")
                fresh.replace(path)
        except OSError as error:
            log.warning("what was learned cannot be kept", path=str(path), reason=str(error))

    def _content(self) -> Mapping[str, Any]:
        assert self._models is not None
        draft, target = self._models
        return {
            "version": VERSION,
            "route": self._route,
            "draft": draft,
            "target": target,
            "acceptance": self._acceptance.saved(),
            "record": self._observed.record.saved(),
        }
