"""All errors that somebody branches on.

SpecproxyError            what went wrong, and how to mend it
+-- ConfigError           settings, files, flags: said at start, exit code 2
+-- SetupError            llama.cpp or a model could not be had
+-- PoolError             a worker, relay or llama-server did not come up or died
+-- RequestError          a client's request cannot be served as it is: 400
|   +-- UnknownModel         no route has the name it asks for: 404
|   +-- BodyTooLarge         its body is larger than its route takes: 413
|   +-- TooManyRequests      its route takes no more now: 429
+-- ClientGone            the client left, or reads nothing: nobody is there to be told
+-- CoordinatorError      the coordinator's engine is gone or failed
+-- TargetError           the llama-server behind the proxy
|   +-- TargetUnreachable    no connection, or none in time
|   +-- TargetBroken         the answer ended before it was complete
+-- DraftError            speculation stops, the answer goes on
    +-- DraftUnavailable     the draft model's thread or memory is gone
    +-- VocabularyMismatch   draft and target do not speak the same tokens
"""


class SpecproxyError(Exception):
    """An error with its remedy.

    Attributes:
        remedy: what the reader can do about it, as a sentence; may be empty.
    """

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy

    def __str__(self) -> str:
        message = super().__str__()
        return f"{message} {self.remedy}" if self.remedy else message


class ConfigError(SpecproxyError):
    """Settings, files or flags are wrong."""


class SetupError(SpecproxyError):
    """llama.cpp or a model could not be had."""


class PoolError(SpecproxyError):
    """A process of the pool did not come up, or died."""


class RequestError(SpecproxyError):
    """A client's request cannot be served as it is."""


class UnknownModel(RequestError):
    """No route that this client may use has the name that it asks for."""


class BodyTooLarge(RequestError):
    """The request's body is larger than its route takes."""


class TooManyRequests(RequestError):
    """The route has as many requests as it may."""


class ClientGone(SpecproxyError):
    """The client left, or has not read for too long; its answer ends here."""


class CoordinatorError(SpecproxyError):
    """The coordinator's engine is gone or failed; running answers cannot be completed."""


class TargetError(SpecproxyError):
    """The llama-server behind the proxy failed."""


class TargetUnreachable(TargetError):
    """No connection to the target, or no answer in time."""


class TargetBroken(TargetError):
    """The target's answer ended before it was complete."""


class DraftError(SpecproxyError):
    """Speculation failed; the answer goes on without it."""


class DraftUnavailable(DraftError):
    """The draft model's thread or memory is gone."""


class VocabularyMismatch(DraftError):
    """Draft and target do not share their vocabulary."""
