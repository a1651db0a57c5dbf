"""Reading a YAML file, of settings or of a pool, without surprises.

PyYAML follows YAML 1.1: of equal keys it takes the last one without a word, and `off` and `no` are
booleans. Here a key that comes twice is an error, and the only booleans are `true` and `false`, as
in YAML 1.2.
"""

import re
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import ComposerError

from specproxy.errors import ConfigError

_BOOL = "tag:yaml.org,2002:bool"
_MERGE = "tag:yaml.org,2002:merge"


class _Loader(yaml.SafeLoader):
    """PyYAML's safe one, with the two differences."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Checked here, before `<<` is resolved: what that brings in may be said anew."""
        node = super().compose_mapping_node(anchor)
        said = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == _MERGE:
                continue
            if (key.tag, key.value) in said:
                raise ComposerError(None, None, f"the key {key.value} comes twice", key.start_mark)
            said.add((key.tag, key.value))
        return node


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != _BOOL]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    _BOOL, re.compile(r"(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


def read_yaml(path: Path, what: str, *, remedy: str) -> dict[str, Any]:
    """The file's keys; none where it is empty.

    Args:
        what: it is, as a message says it.

    Raises:
        ConfigError: it cannot be read, or holds something else.
    """
    try:
        with path.open(encoding="utf-8") as file:  # from a text, messages would quote secrets
            content = yaml.load(file, _Loader)
    except FileNotFoundError as error:
        raise ConfigError(f"There is no {what} {path}.", remedy=remedy) from error
    except OSError as error:
        raise ConfigError(
            f"The {what} {path} cannot be read: {error.strerror}.",
            remedy="It must be a file that this user may read.",
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"The {what} {path} cannot be read: {reason}.", remedy=remedy) from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise ConfigError(
            f"The {what} {path} cannot be read: it does not consist of named keys.", remedy=remedy
        )
    return content
