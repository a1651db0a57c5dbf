"""Scripted target and drafter: real protocols over a toy vocabulary, exact to decide."""

from specproxy.testing.drafter import ScriptedDrafter
from specproxy.testing.faults import Break, CannedAnswer, Faults, ReceivedRequest, StreamFault
from specproxy.testing.language import Language, SamplingParams, generate
from specproxy.testing.ngram_pool import NgramPool
from specproxy.testing.polling import until
from specproxy.testing.target import ScriptedTarget
from specproxy.testing.vocabulary import ToyVocabulary

__all__ = [
    "Break",
    "CannedAnswer",
    "Faults",
    "Language",
    "NgramPool",
    "ReceivedRequest",
    "SamplingParams",
    "ScriptedDrafter",
    "ScriptedTarget",
    "StreamFault",
    "ToyVocabulary",
    "generate",
    "until",
]
