"""Exports a layer of attention and compiles it for programs in C++: python export.py layer.pt2"""

import sys

import torch

import attnjit


class Layer(torch.nn.Module):
    """Causal attention of 8 heads of 32 columns, with a softcap."""

    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(256, 768)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (8, 32)).transpose(1, 2) for t in self.project(x).chunk(3, dim=-1))
        return attnjit.attention(q, k, v, causal="top-left", softcap=20.0).transpose(1, 2).flatten(2)


def main():
    torch.manual_seed(0)
    layer = Layer().to("cuda", torch.bfloat16)
    x = torch.linspace(-1, 1, 2 * 128 * 256, device="cuda").reshape(2, 128, 256).bfloat16()
    with torch.no_grad():
        program = torch.export.export(
            layer, (x,), dynamic_shapes={"x": {1: torch.export.Dim("length", max=4096)}}
        )
        torch._inductor.aoti_compile_and_package(program, package_path=sys.argv[1])
        print(f"mean of |out|: {layer(x).abs().float().mean().item():.6g}")


if __name__ == "__main__":
    main()
