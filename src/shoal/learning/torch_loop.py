"""Training any PyTorch module privately over permuted examples (``pip install torch``).

The loop of :mod:`shoal.learning.descent` with the gradient of each example by itself from
``torch.func``: the module sees one example at a time, vectorized over the batch, so that no layer
can mix examples. Each gradient, over all parameters together, is scaled down to the norm ``clip``;
normal noise from the secure source is added to their sum in double precision; what the optimizer
makes of the mean it may remember and combine as it likes, since it sees nothing else of the data.

Batches are cut from a fresh uniform permutation in every epoch, and the guarantee is one of
:func:`shoal.learning.account`, for permuted examples or for any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

from shoal import checks
from shoal.errors import InvalidArgumentError, MissingExtraError
from shoal.learning.accountant import LearningGuarantee
from shoal.learning.descent import shuffled, standard_normals
from shoal.randomness import Randomness, secure

if TYPE_CHECKING:
    import torch

    Tensor: TypeAlias = torch.Tensor
    Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
    Gradients: TypeAlias = dict[str, Tensor]

MODULE_CHOSEN_BLIND = (
    "the module (its outputs, one per class, and its first parameters), the loss and the optimizer "
    "were chosen without looking at the examples"
)
_LEAST_BYTES = 4  # of a parameter
_ROUNDING = 1.0001  # norms are rounded: what is clipped is a little shorter, never longer


@dataclass(frozen=True, kw_only=True, eq=False)
class ModuleFit:
    """A module that :func:`shoal.learning.torch_loop.train_module` trained, and its guarantee.

    Attributes:
        module: The module, trained in place.
        guarantee: The (ε, δ) of the training.

    References:
        :doc:`/theory/permuted-sgd`.
    """

    module: torch.nn.Module
    guarantee: LearningGuarantee


@dataclass(frozen=True, kw_only=True, eq=False)
class Learner:
    """A module and its loss: gradients of single examples, clipped sums of them."""

    module: torch.nn.Module
    loss: Loss

    def __post_init__(self) -> None:
        if find_spec("torch") is None:
            raise MissingExtraError("PyTorch training", "torch")
        from torch.nn.modules.batchnorm import _BatchNorm

        for name, part in self.module.named_modules():
            if isinstance(part, _BatchNorm) or getattr(part, "track_running_stats", False):
                where = f" ({name})" if name else ""
                expected = "layers that treat every example alone, such as GroupNorm or LayerNorm"
                raise InvalidArgumentError("module", f"{type(part).__name__}{where}", expected)
        expected = "a module with parameters that require gradients"
        checks.refuse(not self.parameters, expected, module=type(self.module).__name__)
        for name, parameter in self.parameters.items():
            expected = "parameters of single or double precision: norms need their digits"
            short = parameter.dtype.itemsize < _LEAST_BYTES
            checks.refuse(short, expected, module=f"{name} of {parameter.dtype}")

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        """What is trained, by name."""
        named = self.module.named_parameters()
        return {name: parameter for name, parameter in named if parameter.requires_grad}

    def gradients(self, examples: Tensor, answers: Tensor) -> Gradients:
        """One gradient per example: the examples come first in each array."""
        from torch.func import functional_call, grad, vmap

        # Handed over like the parameters: a module that writes to them writes to a copy.
        buffers = dict(self.module.named_buffers())

        def alone(parameters: Gradients, example: Tensor, answer: Tensor) -> Tensor:
            state = {**parameters, **buffers}
            outputs = functional_call(self.module, state, (example.unsqueeze(0),))
            lost = self.loss(outputs, answer.unsqueeze(0))
            expected = "a loss that is one number: reduction='mean' or 'sum'"
            checks.refuse(lost.ndim, expected, loss=f"array of shape {tuple(lost.shape)}")
            return lost

        # Dropout draws anew for every example.
        each = vmap(grad(alone), in_dims=(None, 0, 0), randomness="different")
        detached = {name: parameter.detach() for name, parameter in self.parameters.items()}
        gradients: Gradients = each(detached, examples, answers)
        return gradients

    def clipped_sum(self, examples: Tensor, answers: Tensor, *, clip: float) -> Gradients:
        """The sum of all gradients, each scaled down to the norm ``clip`` if it is longer.

        A gradient that is not finite counts as zero: that too is at most ``clip`` long.
        """
        import torch

        singly = self.gradients(examples, answers)
        rows = {name: gradient.flatten(1) for name, gradient in singly.items()}
        parts = []
        for gradient in rows.values():
            precision = torch.promote_types(gradient.dtype, torch.float32)
            parts.append(torch.linalg.vector_norm(gradient, dim=1, dtype=precision))
        norms = torch.linalg.vector_norm(torch.stack(parts), dim=0)
        strange = ~norms.isfinite()
        if strange.any():
            rows = {name: each.masked_fill(strange[:, None], 0.0) for name, each in rows.items()}
            norms = norms.masked_fill(strange, 0.0)
        factors = (clip / (_ROUNDING * norms)).clamp(max=1.0)  # one for a gradient of zero
        return {
            # In double precision: roundings of long sums must not outgrow what one example moves.
            name: (factors.double() @ each.double()).view(singly[name].shape[1:])
            for name, each in rows.items()
        }


def train_module(
    module: torch.nn.Module,
    loss: Loss,
    examples: Tensor,
    answers: Tensor,
    guarantee: LearningGuarantee,
    *,
    clip: float = 1.0,
    optimizer: torch.optim.Optimizer | None = None,
    rate: float = 0.1,
    at_once: int = 256,
    randomness: Randomness | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ModuleFit:
    """Train a module in place by noisy gradient steps over freshly permuted examples.

    The guarantee covers the parameters after every step, and is about real arithmetic.
    It assumes that the module owes nothing to the examples: one whose outputs are the
    classes found among the answers shows them. :doc:`/account/training` has an example.

    Args:
        module: A module of PyTorch. Layers that mix examples or remember them (batch
            normalization, running statistics) are refused.
        loss: ``loss(outputs, answers)`` is one number for a batch of one example, as
            ``CrossEntropyLoss()`` is.
        examples: A tensor, the examples along its first axis.
        answers: As many.
        guarantee: That of :func:`shoal.learning.account` for these examples, by
            permutation, or with sampling "fixed", which holds in any order. It says how
            much noise there is, how many epochs, and which batches.
        clip: The longest gradient of one example, > 0.
        optimizer: Any optimizer of the module's parameters; None for plain descent.
        rate: Length of a step of plain descent.
        at_once: Examples whose gradients are in memory together.
        randomness: That of a simulation; None is secure.
        progress: Called with the steps done and all.

    Returns:
        A :class:`shoal.learning.torch_loop.ModuleFit`.

    Raises:
        InvalidArgumentError: A layer, an optimizer or numbers that are refused, or a
            guarantee of another number of examples or another sampling.
        MissingExtraError: PyTorch is not installed.

    References:
        :doc:`/theory/permuted-sgd`.
    """
    learner = Learner(module=module, loss=loss)
    import torch

    checks.positive(clip=clip, rate=rate)
    at_once = checks.count(at_once=at_once)
    inputs, targets = torch.as_tensor(examples), torch.as_tensor(answers)
    alike = inputs.ndim and targets.ndim and len(inputs) == len(targets)
    shapes = f"shapes {tuple(inputs.shape)} and {tuple(targets.shape)}"
    expected = "as many examples as answers, along the first axis"
    checks.refuse(not alike, expected, examples=shapes)
    checks.refuse(not inputs.isfinite().all(), "finite numbers in examples", examples="nan or inf")
    guarantee.require_permuted(len(inputs))
    if optimizer is None:
        optimizer = torch.optim.SGD(learner.parameters.values(), lr=rate)
    # An optimizer of other parameters would step with gradients that nobody made private.
    own = {id(parameter) for parameter in learner.parameters.values()}
    if any(id(each) not in own for group in optimizer.param_groups for each in group["params"]):
        expected = "an optimizer of the module's trainable parameters and no others"
        raise InvalidArgumentError("optimizer", type(optimizer).__name__, expected)
    source = secure() if randomness is None else randomness
    noise, parameters = guarantee.noise_multiplier * clip, learner.parameters
    sizes = [parameter.numel() for parameter in parameters.values()]
    device = next(iter(parameters.values())).device
    orders = (shuffled(guarantee.n, guarantee.batch, source) for _ in range(guarantee.epochs))
    before = module.training
    module.train()  # its layers behave as in training, and afterwards as before
    try:
        for step, taken in enumerate(chain.from_iterable(orders), start=1):
            total = {
                name: torch.zeros_like(parameter, dtype=torch.float64)
                for name, parameter in parameters.items()
            }
            data = (rows[torch.from_numpy(taken)].split(at_once) for rows in (inputs, targets))
            for some, their_answers in zip(*data, strict=True):
                here = some.to(device), their_answers.to(device)
                for name, gradient in learner.clipped_sum(*here, clip=clip).items():
                    total[name] += gradient
            drawn = standard_normals(sum(sizes), randomness=source) * noise
            parts = torch.from_numpy(drawn).to(device).split(sizes)
            for (name, parameter), part in zip(parameters.items(), parts, strict=True):
                mean = (total[name] + part.view_as(parameter)) / guarantee.batch
                parameter.grad = mean.to(parameter.dtype)  # rounded with its noise
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if progress is not None:
                progress(step, guarantee.steps)
    finally:
        module.train(before)
    return ModuleFit(module=module, guarantee=guarantee.assuming(MODULE_CHOSEN_BLIND))
