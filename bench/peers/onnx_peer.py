#!/usr/bin/env python3
"""ONNX Runtime beside tc: onnx_peer.py BENCH CASE THREADS. Inference of the models, as graphs built here from cases.py's parameters.

Norms of convolutions are folded into their weights, as ONNX Runtime does itself; BERT goes through its transformer optimizer.
"""
import os
import sys
import tempfile

bench, case, threads = sys.argv[1:4]
os.environ["OMP_NUM_THREADS"] = threads
if bench not in ("resnet18_infer", "resnet50_infer", "bert_infer") or case.endswith("bf16"):
    sys.exit(3)

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime as ort  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import cases  # noqa: E402


class Graph:
    """Nodes and weights in the order they are added; every value is its name."""

    def __init__(self):
        self.nodes, self.weights, self.n = [], [], 0

    def op(self, kind, *inputs, **attributes):
        self.n += 1
        out = f"v{self.n}"
        self.nodes.append(helper.make_node(kind, list(inputs), [out], **attributes))
        return out

    def weight(self, value):
        self.n += 1
        name = f"w{self.n}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def model(self, x, y, dtype, shape, out_shape):
        inputs = [helper.make_tensor_value_info(x, dtype, shape)]
        outputs = [helper.make_tensor_value_info(y, TensorProto.FLOAT, out_shape)]
        graph = helper.make_graph(self.nodes, "model", inputs, outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# ---- ResNet ----


def conv(g, x, path, norm, c_in, c_out, window, stride):
    w = cases.parameter(path + ".weight", (c_out, c_in, window, window))
    scale, bias, mean, var = (cases.parameter(f"{norm}.{p}", (c_out,)) for p in ("weight", "bias", "running_mean", "running_var"))
    factor = scale / np.sqrt(var + np.float32(1e-5))
    w = (w * factor[:, None, None, None]).astype(np.float32)
    b = (bias - mean * factor).astype(np.float32)
    return g.op("Conv", x, g.weight(w), g.weight(b), strides=[stride] * 2, pads=[window // 2] * 4, kernel_shape=[window] * 2)


def resnet(depths, bottleneck, n, side):
    g = Graph()
    x = g.op("Relu", conv(g, "x", "conv1", "bn1", 3, 64, 7, 2))
    x = g.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    c_in = 64
    for stage, depth in enumerate(depths):
        c = 64 << stage
        c_out = 4 * c if bottleneck else c
        for i in range(depth):
            path, step = f"layer{stage + 1}.{i}.", 2 if stage and i == 0 else 1
            shapes = [(c_in, c, 1, 1), (c, c, 3, step), (c, c_out, 1, 1)] if bottleneck else [(c_in, c, 3, step), (c, c, 3, 1)]
            y = x
            for k, shape in enumerate(shapes, 1):
                y = conv(g, y, f"{path}conv{k}", f"{path}bn{k}", *shape)
                y = g.op("Relu", y) if k < len(shapes) else y
            if step != 1 or c_in != c_out:
                x = conv(g, x, path + "downsample.0", path + "downsample.1", c_in, c_out, 1, step)
            x, c_in = g.op("Relu", g.op("Add", y, x)), c_out
    x = g.op("Flatten", g.op("GlobalAveragePool", x))
    y = g.op("Gemm", x, g.weight(cases.parameter("fc.weight", (1000, c_in))), g.weight(cases.parameter("fc.bias", (1000,))), transB=1)
    return g.model("x", y, TensorProto.FLOAT, [n, 3, side, side], [n, 1000])


# ---- BERT ----


def dense(g, x, path, n_in, n_out):
    w = cases.parameter(path + ".weight", (n_out, n_in)).T
    return g.op("Add", g.op("MatMul", x, g.weight(w)), g.weight(cases.parameter(path + ".bias", (n_out,))))


def norm(g, x, path, dim):
    weight, bias = (g.weight(cases.parameter(f"{path}.{p}", (dim,))) for p in ("weight", "bias"))
    return g.op("LayerNormalization", x, weight, bias, axis=-1, epsilon=1e-12)


def bert(b, t, dim=768, heads=12, layers=12):
    g = Graph()
    f32 = np.float32
    words = cases.parameter("embeddings.word_embeddings.weight", (30522, dim))
    places = cases.parameter("embeddings.position_embeddings.weight", (512, dim))[:t]
    kind = cases.parameter("embeddings.token_type_embeddings.weight", (2, dim))[0]
    x = g.op("Add", g.op("Gather", g.weight(words), "ids"), g.weight(places + kind))
    x = norm(g, x, "embeddings.LayerNorm", dim)
    split, joined = g.weight(np.array([b, t, heads, dim // heads])), g.weight(np.array([b, t, dim]))
    root, half, one, scale = (g.weight(np.array(v, f32)) for v in (2**0.5, 0.5, 1, (dim // heads) ** 0.5))
    for i in range(layers):
        path = f"encoder.layer.{i}"
        q, k, v = (g.op("Reshape", dense(g, x, f"{path}.attention.self.{p}", dim, dim), split) for p in ("query", "key", "value"))
        q, k, v = g.op("Transpose", q, perm=[0, 2, 1, 3]), g.op("Transpose", k, perm=[0, 2, 3, 1]), g.op("Transpose", v, perm=[0, 2, 1, 3])
        y = g.op("MatMul", g.op("Softmax", g.op("Div", g.op("MatMul", q, k), scale), axis=-1), v)
        y = g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3]), joined)
        x = norm(g, g.op("Add", dense(g, y, f"{path}.attention.output.dense", dim, dim), x), f"{path}.attention.output.LayerNorm", dim)
        y = dense(g, x, f"{path}.intermediate.dense", dim, 4 * dim)
        y = g.op("Mul", g.op("Mul", y, g.op("Add", g.op("Erf", g.op("Div", y, root)), one)), half)
        x = norm(g, g.op("Add", dense(g, y, f"{path}.output.dense", 4 * dim, dim), x), f"{path}.output.LayerNorm", dim)
    return g.model("ids", x, TensorProto.INT64, [b, t], [b, t, dim])


# ---- Session ----

n, side = cases.shape_of(case)
if bench == "bert_infer":
    from onnxruntime.transformers import optimizer

    name, x = "ids", cases.ids(n, side, 30522)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "bert.onnx")
        onnx.save(bert(n, side), path)
        model = optimizer.optimize_model(path, model_type="bert", num_heads=12, hidden_size=768, opt_level=1).model
        if case.endswith("_int8"):
            from onnxruntime.quantization import quantize_dynamic

            onnx.save(model, path)
            quantize_dynamic(path, path + ".int8", per_channel=True, extra_options={"DefaultTensorType": TensorProto.FLOAT})
            model = onnx.load(path + ".int8")
else:
    name, x = "x", cases.floats((n, 3, side, side), 1)
    model = resnet([2, 2, 2, 2], False, n, side) if bench == "resnet18_infer" else resnet([3, 4, 6, 3], True, n, side)
options = ort.SessionOptions()
options.intra_op_num_threads = int(threads)
options.add_session_config_entry("session.intra_op.allow_spinning", "1")
options.add_session_config_entry("session.force_spinning_stop", "1")  # its threads sleep between slices, which are another's turn
session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
cases.report(lambda: session.run(None, {name: x}))
