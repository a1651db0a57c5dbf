"""The model that a form names."""

import random

import pytest

from specproxy.server.forms import MAX_HEAD_BYTES, MAX_PARTS, is_form, model_of_form

BOUNDARY = "----x0y1"
TYPE = f"multipart/form-data; boundary={BOUNDARY}"


def part(name: str, value: bytes, more: str = "") -> bytes:
    head = f'Content-Disposition: form-data; name="{name}"{more}\r\n\r\n'
    return head.encode() + value + b"\r\n"


def form(*parts: bytes, boundary: str = BOUNDARY) -> bytes:
    mark = f"--{boundary}".encode()
    return b"".join(mark + b"\r\n" + one for one in parts) + mark + b"--\r\n"


MODEL = part("model", b"small")
FILE = part("file", bytes(range(256)) * 9 + b"\r\n\r\nmodel\r\n--", '; filename="a.wav"')
HEAD = b"Content-Disposition: form-data; name=model\r\n"


@pytest.mark.parametrize(
    ("raw", "model"),
    [
        (form(MODEL), "small"),
        (form(FILE, MODEL), "small"),
        (form(MODEL, FILE), "small"),
        (b"a word before\r\n" + form(FILE, MODEL), "small"),
        (form(part("models", b"a"), part("Model", b"b"), MODEL), "small"),
        (form(part("model", "модель".encode())), "модель"),
        (form(part("model", b"")), ""),
        (form(part("model", b"a\r\nb")), "a\r\nb"),
        (form(HEAD + b"Content-Type: text/plain\r\n\r\nsmall\r\n"), "small"),
        (form(b"content-disposition:form-data;\r\n name=model\r\n\r\nsmall\r\n"), "small"),
        (form(FILE), None),
        (form(MODEL, MODEL), None),
        (form(part("model", b"small", '; filename="m"')), None),
        (form(part("model", b"\xff")), None),
        (form(part("model", b"small"), boundary="another"), None),
        (form(b"\r\nsmall\r\n"), None),
        (form(b"X: " + b"x" * MAX_HEAD_BYTES + b"\r\n" + MODEL), None),
        (form(*[part("x", b"")] * MAX_PARTS, MODEL), None),
        (form(*[part("x", b"")] * (MAX_PARTS - 1), MODEL), "small"),
        (form(MODEL)[: -len(BOUNDARY) - 8], None),  # cut before the value has ended
        (form(), None),
        (b"", None),
        (b'{"model": "small"}', None),
    ],
)
def test_the_model(raw: bytes, model: str | None) -> None:
    assert model_of_form(TYPE, raw) == model


@pytest.mark.parametrize(
    ("content_type", "model"),
    [
        (f'multipart/form-data; boundary="{BOUNDARY}"', "small"),
        (f"Multipart/Form-Data; charset=utf-8; Boundary={BOUNDARY}", "small"),
        ("multipart/form-data", None),
        ("multipart/form-data; boundary=", None),
        ('multipart/form-data; boundary="', None),
        ("multipart/form-data; boundary=\udcff", None),
    ],
)
def test_the_boundary(content_type: str, model: str | None) -> None:
    assert is_form(content_type)
    assert model_of_form(content_type, form(FILE, MODEL)) == model


def test_what_is_no_form() -> None:
    assert not any(map(is_form, ["", "application/json", "multipart/mixed; boundary=x"]))


def test_broken_forms_name_no_other_model() -> None:
    rng = random.Random(0)
    whole = form(FILE, MODEL, part("language", b"en"))
    for _ in range(2000):
        raw = bytearray(whole)
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(raw))
            raw[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
        model_of_form(TYPE, bytes(raw))
        cut = bytes(whole[: rng.randrange(len(whole))])
        assert model_of_form(TYPE, cut) in (None, "small")
