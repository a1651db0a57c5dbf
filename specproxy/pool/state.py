"""What `pool up` has started: written down at once, so that `pool down` finds it in any case."""

import dataclasses
import json
from dataclasses import dataclass

from specproxy.errors import PoolError
from specproxy.llama.location import cache_folder
from specproxy.pool.machines import Machine, Started


@dataclass(frozen=True, slots=True)
class Running:
    """One process of a pool.

    Attributes:
        ssh: its machine; None: this one.
        argv: how it was started.
    """

    role: str
    name: str
    ssh: str | None
    argv: tuple[str, ...]
    url: str
    pid: int
    mark: str
    log: str

    @property
    def machine(self) -> Machine:
        return Machine(self.ssh)

    @property
    def started(self) -> Started:
        return Started(self.pid, self.mark, self.log)


class State:
    """The record of one pool on this machine."""

    def __init__(self, pool: str) -> None:
        self.path = cache_folder() / "pools" / pool / "state.json"

    def read(self) -> tuple[Running, ...]:
        """What was started and not taken down; nothing if there is no record.

        Raises:
            PoolError: the record cannot be read.
        """
        try:
            items = json.loads(self.path.read_text(encoding="utf-8"))
            return tuple(Running(**{**item, "argv": tuple(item["argv"])}) for item in items)
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise PoolError(
                f"The record {self.path} cannot be read: {error}.",
                remedy="End the pool's processes by hand and remove the file.",
            ) from error

    def begin(self) -> None:
        """Before anything is started: whatever will be can be written down.

        Raises:
            PoolError: it cannot.
        """
        self._write([])

    def add(self, process: Running) -> None:
        """Write down one more."""
        self._write([*self.read(), process])

    def remove(self, process: Running) -> None:
        """Strike one out; the record goes with the last."""
        rest = [each for each in self.read() if each != process]
        if rest:
            self._write(rest)
        else:
            self.path.unlink(missing_ok=True)

    def _write(self, processes: list[Running]) -> None:
        temporary = self.path.with_suffix(".new")
        text = json.dumps([dataclasses.asdict(each) for each in processes], indent=1)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(self.path)
        except OSError as error:
            raise PoolError(
                f"The record {self.path} cannot be written: {error.strerror}.",
                remedy="Set XDG_CACHE_HOME to a folder that you may write to.",
            ) from error
