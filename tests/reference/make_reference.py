"""Writes the reference files of tests/reference.rs: PyTorch on the CPU in float64 with a fixed seed.

    python tests/reference/make_reference.py        (torch 2.13)

Fields are written as [.., lat, lon, channel], kernels as [4, hidden, in, k_lat, k_lon], gates in the order i, f, g, o.
"""

import json
import pathlib
import struct

import torch
import torch.nn.functional as F

HERE = pathlib.Path(__file__).parent
torch.set_default_dtype(torch.float64)


def save(name, tensors):
    """The safetensors format: length of the header, header, data."""
    header, data = {}, b""
    for key, tensor in tensors.items():
        raw = tensor.detach().contiguous().numpy().tobytes()
        header[key] = {"dtype": "F64", "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (HERE / f"{name}.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def last(x):
    """[.., channel, lat, lon] -> [.., lat, lon, channel]"""
    return x.movedim(-3, -1)


def first(x):
    return x.movedim(-1, -3)


def stencil(x, w):
    """x [n, in, lat, lon], w [4, hidden, in, k, k] -> [n, 4 hidden, lat, lon], edges replicated."""
    p = w.shape[-1] // 2
    return F.conv2d(F.pad(x, (p, p, p, p), mode="replicate") if p else x, w.flatten(0, 1))


def cell(x, h, c, q):
    """One ConvLSTM cell with the parameters q of one layer."""
    hidden = h.shape[1]
    a = stencil(x, q["input.weight"]) + stencil(h, q["hidden.weight"])
    gates = (a + q["bias"].flatten()[:, None, None]).unflatten(1, (4, hidden))
    if "norm.gain" in q:
        mean, variance = gates.mean(2, keepdim=True), gates.var(2, unbiased=False, keepdim=True)
        gates = (gates - mean) / torch.sqrt(variance + 1e-5)
        gates = gates * q["norm.gain"][:, :, None, None] + q["norm.shift"][:, :, None, None]
    i, f, g, o = gates.unbind(1)
    pi, pf, po = q["peephole"][:, :, None, None] if "peephole" in q else (0.0, 0.0, 0.0)
    c_next = torch.sigmoid(f + pf * c) * c + torch.sigmoid(i + pi * c) * torch.tanh(g)
    return torch.sigmoid(o + po * c_next) * torch.tanh(c_next), c_next


def leaf(*shape, scale=1.0, shift=0.0):
    return (torch.randn(*shape) * scale + shift).requires_grad_()


def layer(inputs, hidden, kernels, norm=False, peephole=False):
    q = {
        "input.weight": leaf(4, hidden, inputs, kernels[0], kernels[0], scale=0.3),
        "hidden.weight": leaf(4, hidden, hidden, kernels[1], kernels[1], scale=0.3),
        "bias": leaf(4, hidden, scale=0.5),
    }
    if norm:
        q |= {"norm.gain": leaf(4, hidden, scale=0.3, shift=1.0), "norm.shift": leaf(4, hidden, scale=0.3)}
    if peephole:
        q["peephole"] = leaf(3, hidden, scale=0.5)
    return q


def one_cell():
    """More units than one block of 16, kernels of two sizes, a state before, gradients of everything."""
    batch, rows, columns, inputs, hidden = 2, 3, 5, 2, 17
    q = layer(inputs, hidden, (3, 1), peephole=True)
    x, h, c = leaf(batch, inputs, rows, columns), leaf(batch, hidden, rows, columns), leaf(batch, hidden, rows, columns)
    h1, c1 = cell(x, h, c, q)
    dh1, dc1 = torch.randn_like(h1), torch.randn_like(c1)
    torch.autograd.backward([h1, c1], [dh1, dc1])
    fields = dict(x=x, h=h, c=c, h1=h1, c1=c1, dh1=dh1, dc1=dc1, dx=x.grad, dh=h.grad, dc=c.grad)
    out = {key: last(value) for key, value in fields.items()}
    for name, value in q.items():
        out |= {name: value, f"gradient.{name}": value.grad}
    save("cell", out)


def unroll(name, hidden, patch, norm, peephole):
    """Two analyses and two predictions (three steps) of two layers, with their loss."""
    batch, rows, columns, prognostic, frames, leads = 2, 5, 6, 2, 2, 2
    inputs = (prognostic + 2) * patch**2
    layers = [
        layer(inputs, hidden[0], (3, 3), norm, peephole),
        layer(hidden[0], hidden[1], (3, 3), norm, peephole),
    ]
    head, head_bias = leaf(prognostic * patch**2, hidden[1], 1, 1), leaf(prognostic * patch**2, scale=0.5)
    truth = torch.randn(frames + leads, batch, prognostic, rows, columns)
    statics = torch.randn(1, 1, rows, columns)
    forcings = torch.randn(frames + leads - 1, batch, 1, rows, columns)
    scale = torch.rand(prognostic) + 0.5
    sampling = torch.tensor([[1.0, 0.3]])  # [leads - 1, batch]

    padding = -rows % patch
    state = [None, None]
    predictions = []
    for t in range(frames + leads - 1):
        fed = truth[t]
        if t >= frames:
            share = sampling[t - frames][:, None, None, None]
            fed = share * truth[t] + (1 - share) * predictions[-1]
        z = torch.cat([fed, statics.expand(batch, -1, -1, -1), forcings[t]], 1)
        z = F.pixel_unshuffle(F.pad(z, (0, 0, 0, padding), mode="replicate"), patch)
        for l, q in enumerate(layers):
            zero = torch.zeros(batch, hidden[l], *z.shape[2:])
            state[l] = cell(z, *(state[l] or (zero, zero)), q)
            z = state[l][0]
        if t >= frames - 1:
            y = F.pixel_shuffle(F.conv2d(z, head, head_bias), patch)[:, :, :rows]
            predictions.append(fed + scale[:, None, None] * y)
            predictions[-1].retain_grad()
    row_weights, channel_weights, lead_weights = torch.rand(rows), torch.rand(prognostic), torch.rand(leads)
    stacked = torch.stack(predictions)
    error = (stacked - truth[frames:]) ** 2 * channel_weights[:, None, None] * row_weights[:, None]
    values = error.sum((1, 2, 3, 4)) / (batch * rows * columns)
    (values * lead_weights).sum().backward()

    out = dict(frames=last(truth), statics=last(statics[0]), forcings=last(forcings), predictions=last(stacked))
    out["prediction_gradients"] = last(torch.stack([p.grad for p in predictions]))
    out |= dict(tendency_scale=scale, sampling=sampling, values=values)
    out |= dict(row_weights=row_weights, channel_weights=channel_weights, lead_weights=lead_weights)
    named = {f"layers.{l}.{key}": value for l, q in enumerate(layers) for key, value in q.items()}
    for key, value in (named | {"head.weight": head, "head.bias": head_bias}).items():
        out |= {key: value, f"gradient.{key}": value.grad}
    save(name, out)


torch.manual_seed(1)
one_cell()
unroll("unroll", (4, 3), 1, norm=False, peephole=False)
unroll("unroll_norm_peephole_patch", (4, 3), 2, norm=True, peephole=True)
