"""torchvision, whose only import is here: it fails in many ways with a torch that it was not built for."""

from importlib import import_module
from typing import Any

from raysweep.errors import InputError


def torchvision() -> Any:
    """The package torchvision. InputError if it cannot be imported: one line that says what to install.

    Its compiled part belongs to one build of torch. With another one, for example the CUDA build with a torch
    for the CPU alone, it raises whatever torch or the loader meets first: RuntimeError (operator torchvision::nms does
    not exist; other major versions of CUDA), ImportError, OSError, and AttributeError at the second try.
    """
    try:
        return import_module("torchvision")
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        import torch

        build = torch.__version__.partition("+")[2] or ("cpu" if torch.version.cuda is None else "")
        message = " ".join(str(error).split())[:120]
        raise InputError(
            "torchvision",
            f"cannot be imported beside torch {torch.__version__} ({type(error).__name__}: {message}); install both "
            f"for {build or 'one build'}: pip install --force-reinstall torch torchvision, with the --index-url that "
            "PyTorch's own instructions name for it",
        ) from None
