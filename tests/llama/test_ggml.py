"""The part of ggml that the bindings leave out."""

import pytest

from specproxy.errors import SetupError
from specproxy.llama.ggml import Ggml, load_ggml
from specproxy.llama.library import load

pytestmark = pytest.mark.real


def test_it_is_the_ggml_of_the_bindings() -> None:
    ggml = load_ggml()
    assert ggml is load_ggml()
    assert ggml.dev_count() > 0
    with pytest.raises(AttributeError, match="ggml_backend_anything is not declared"):
        ggml.anything  # noqa: B018


def test_a_build_without_rpc_is_told_with_the_way_to_get_one() -> None:
    ggml = Ggml(load()._lib)
    ggml.reg_by_name = lambda name: None
    with pytest.raises(SetupError, match="built without RPC") as caught:
        ggml.add_rpc_server("127.0.0.1:50052")
    assert "GGML_RPC=ON" in caught.value.remedy
