"""A workload of somebody's own, as small as can be: tensors in a dict, no data, nothing to judge."""

from dataclasses import dataclass

from ablate.core.workload import WorkloadInfo, option


@dataclass(frozen=True, kw_only=True)
class Options:
    width: int = option(4, "Hidden width.", at_least=1)


INFO = WorkloadInfo(name="my/line", title="a line through noise", lr=0.01, options=Options)


def build(context):
    import torch
    from torch.utils.data import Dataset

    class Batches(Dataset):
        def __init__(self, num_steps, seed):
            self.num_steps, self.seed = num_steps, seed

        def __len__(self):
            return self.num_steps

        def __getitem__(self, index):
            generator = torch.Generator().manual_seed(1000 * self.seed + index)
            x = torch.randn(context.training.batch_size, 3, generator=generator)
            return {"x": x, "y": x.sum(dim=1)}

    class Line:
        model = torch.nn.Sequential(
            torch.nn.Linear(3, context.options.width), torch.nn.Dropout(0.1), torch.nn.Linear(context.options.width, 1)
        )

        def batches(self, num_steps, seed):
            return Batches(num_steps, seed)

        def loss(self, forward, batch):
            return torch.nn.functional.mse_loss(forward(batch["x"]).squeeze(1), batch["y"])

        def num_samples(self, batch):
            return len(batch["y"])

    return Line()
