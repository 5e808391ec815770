"""Learning rates of the peers' trainings, as gpuhpc has them."""
import torch


def linear_schedule(optimizer, updates):
    """A tenth of the updates up to the optimizer's rate, the others in a line down to 0."""
    warm = round(.1 * updates)
    return torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: (step + 1) / (warm + 1) if step < warm else (updates - step) / max(1, updates - warm))
