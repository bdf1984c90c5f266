"""`attnjit.nn.replace_modules`."""

from torch import nn

from ._multihead_attention import MultiheadAttention


class Replacement:
    """What `replace_modules` changed: `names`, those of the modules in the model, and `count`, their number. remove(),
    or the end of a with statement, undoes it."""

    def __init__(self, modules: dict[str, nn.Module]):
        self.names = tuple(modules)
        self._modules = list(modules.values())
        for module in self._modules:
            module.__class__ = MultiheadAttention

    @property
    def count(self) -> int:
        return len(self.names)

    def remove(self) -> None:
        """Gives the modules the class of PyTorch back; a second call does nothing."""
        for module in self._modules:
            if type(module) is MultiheadAttention:  # the caller may have changed its class since
                module.__class__ = nn.MultiheadAttention
        self._modules = []

    def __enter__(self) -> "Replacement":
        return self

    def __exit__(self, *_) -> None:
        self.remove()


def replace_modules(model: nn.Module) -> Replacement:
    """Makes every torch.nn.MultiheadAttention of a model, itself included, an `attnjit.nn.MultiheadAttention`.

    The modules stay the same objects, with their parameters, hooks and mode, and get another class; so references to
    them hold, and the state dict stays as it is. Modules of a subclass are left alone.

    Returns:
        An object with the names and the number of the modules. Its remove() undoes the replacement, and it works in a
        with statement. Copies of the model that are made meanwhile stay as they are.

    PyTorch's TransformerEncoderLayer computes some calls without its module of attention: without gradients, in eval
    mode and with batch_first. torch.backends.mha.set_fastpath_enabled(False) gives these to the module, too.
    """
    return Replacement({name: m for name, m in model.named_modules() if type(m) is nn.MultiheadAttention})
