"""Which family a chat template belongs to, by the literals it writes."""

from specproxy.coordinator.tools.harmony import HarmonyFormat
from specproxy.coordinator.tools.hermes import HermesFormat
from specproxy.coordinator.tools.llama3 import Llama3Format
from specproxy.coordinator.tools.mistral import MistralFormat
from specproxy.coordinator.tools.protocol import ToolFormat

_OTHER_CALLS = ("<function=", "<arg_key>", "<invoke name=", "<|tool_call_begin|>", "<parameter=")
"""What families write that use one of the known tags, and something else inside."""


def parser_for(template_source: str) -> ToolFormat | None:
    """The format of `template_source`; None: no tools, or none that is known here."""
    if "<|channel|>" in template_source:
        return HarmonyFormat()
    if any(literal in template_source for literal in _OTHER_CALLS):
        return None
    if "[TOOL_CALLS]" in template_source:
        return MistralFormat("[ARGS]" in template_source, "[CALL_ID]" in template_source)
    if "<tool_call>" in template_source:
        return HermesFormat()
    if "<|start_header_id|>" in template_source and '"parameters"' in template_source:
        return Llama3Format()
    return None
