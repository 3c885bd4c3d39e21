#!/usr/bin/env python3
"""Files and tensors to and from Python: io_python.py LIBTC, from the root of the sources. Whatever NumPy, safetensors or PyTorch is installed is tried
with the library opened by ctypes; without NumPy 2.1, the first that speaks DLPack 1.0, it exits 77.

Files written by either side are read by the other, in every type; DLPack carries tensors both ways without a copy, and no owner is lost or kept.
"""
import ctypes
import gc
import importlib.metadata
import importlib.util
import os
import sys
import tempfile


def has_numpy():
    return importlib.util.find_spec("numpy") is not None and tuple(map(int, importlib.metadata.version("numpy").split(".")[:2])) >= (2, 1)


if not has_numpy():
    python = os.path.abspath("build/venv/bin/python")
    if not os.path.exists(python) or sys.prefix != sys.base_prefix:
        print("NumPy 2.1 or newer is not installed")
        sys.exit(77)
    os.execv(python, [python, *sys.argv])

import numpy as np

TYPES = ["bool", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]


class Tensor(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_uint32), ("gen", ctypes.c_uint32)]


class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char_p), ("op", ctypes.c_char_p), ("site", ctypes.c_char_p)]


class Scope(ctypes.Structure):
    _fields_ = [("depth", ctypes.c_uint32), ("mark", ctypes.c_uint32)]


tc = ctypes.CDLL(sys.argv[1])
STRINGS, TENSORS = ctypes.POINTER(ctypes.c_char_p), ctypes.POINTER(Tensor)
for name, result, *args in [
        ("tc_last_error", ctypes.POINTER(Error)), ("tc_scope_begin", Scope), ("tc_scope_end", None, Scope),
        ("tc_to_dlpack", ctypes.c_void_p, Tensor), ("tc_to_dlpack_legacy", ctypes.c_void_p, Tensor),
        ("tc_from_dlpack", Tensor, ctypes.c_void_p), ("tc_from_dlpack_legacy", Tensor, ctypes.c_void_p), ("tc_sync", ctypes.c_int, ctypes.c_char_p),
        ("tc_safetensors_open", ctypes.c_void_p, ctypes.c_char_p), ("tc_npz_open", ctypes.c_void_p, ctypes.c_char_p),
        ("tc_archive_count", ctypes.c_int, ctypes.c_void_p), ("tc_archive_name", ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int),
        ("tc_archive_get", Tensor, ctypes.c_void_p, ctypes.c_char_p), ("tc_archive_close", None, ctypes.c_void_p),
        ("tc_safetensors_save", ctypes.c_int, ctypes.c_char_p, ctypes.c_int, STRINGS, TENSORS),
        ("tc_npz_save", ctypes.c_int, ctypes.c_char_p, ctypes.c_int, STRINGS, TENSORS)]:
    function = getattr(tc, name)
    function.restype, function.argtypes = result, args
api = ctypes.pythonapi
api.PyCapsule_New.restype, api.PyCapsule_New.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
VERSIONED, LEGACY = b"dltensor_versioned", b"dltensor"
USED = {VERSIONED: b"used_dltensor_versioned", LEGACY: b"used_dltensor"}  # PyCapsule_SetName keeps the pointer


def check(ok):
    assert ok, tc.tc_last_error().contents.message.decode()


class Lent:
    """A tensor as the protocol of from_dlpack asks for it."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, max_version=None, **_):
        versioned = max_version is not None and max_version[0] >= 1
        m = (tc.tc_to_dlpack if versioned else tc.tc_to_dlpack_legacy)(self.tensor)
        check(m)
        return api.PyCapsule_New(m, VERSIONED if versioned else LEGACY, None)


def to_tc(array, name=VERSIONED):
    capsule = array.__dlpack__(max_version=(1, 0)) if name == VERSIONED else array.__dlpack__()
    m = api.PyCapsule_GetPointer(capsule, name)
    api.PyCapsule_SetName(capsule, USED[name])
    return (tc.tc_from_dlpack if name == VERSIONED else tc.tc_from_dlpack_legacy)(m)


def read(open_archive, path):
    a = open_archive(path.encode())
    check(a)
    names = [tc.tc_archive_name(a, i) for i in range(tc.tc_archive_count(a))]
    arrays = {n.decode(): np.from_dlpack(Lent(tc.tc_archive_get(a, n))) for n in names}
    tc.tc_archive_close(a)
    return arrays


def write(save, path, arrays):
    names = (ctypes.c_char_p * len(arrays))(*[n.encode() for n in arrays])
    tensors = (Tensor * len(arrays))(*[to_tc(x) for x in arrays.values()])
    check(save(path.encode(), len(arrays), names, tensors) == 0)


def expect_same(got, want):
    assert got.keys() == want.keys(), (got.keys(), want.keys())
    for n, x in want.items():
        assert got[n].dtype == x.dtype and got[n].shape == x.shape and got[n].tobytes() == x.tobytes(), n


def samples():
    rng = np.random.default_rng(5)
    arrays = {}
    for t in TYPES:
        for shape in [(), (7,), (0, 3), (3, 5), (2, 1, 4)]:
            arrays["%s.%s" % (t, "x".join(map(str, shape)))] = np.asarray(rng.integers(0, 100, shape), dtype=t)
    arrays["ünicode \"name\""] = np.ones(3)
    return arrays


def files(directory):
    arrays = samples()
    path = os.path.join(directory, "x.npz")
    for save in (np.savez, np.savez_compressed):
        save(path, **arrays)
        expect_same(read(tc.tc_npz_open, path), arrays)
    write(tc.tc_npz_save, path, arrays)
    expect_same(dict(np.load(path)), arrays)
    print("npz: %d arrays both ways" % len(arrays))
    if importlib.util.find_spec("safetensors") is None:
        print("safetensors is not installed")
        return
    from safetensors.numpy import load_file, save_file
    path = os.path.join(directory, "x.safetensors")
    save_file(arrays, path)
    expect_same(read(tc.tc_safetensors_open, path), arrays)
    write(tc.tc_safetensors_save, path, arrays)
    expect_same(load_file(path), arrays)
    print("safetensors: %d arrays both ways" % len(arrays))


def numpy_both_ways():
    for name in (VERSIONED, LEGACY):
        scope = tc.tc_scope_begin()
        x = np.arange(12, dtype="f4").reshape(3, 4)
        held = sys.getrefcount(x)
        back = np.from_dlpack(Lent(to_tc(x, name)))
        assert back.ctypes.data == x.ctypes.data and (back == x).all() and not back.flags.writeable
        turned = np.from_dlpack(Lent(to_tc(x.T, name)))
        assert turned.ctypes.data != x.ctypes.data and (turned == x.T).all()
        assert sys.getrefcount(x) > held
        tc.tc_scope_end(scope)
        check(tc.tc_sync(None) == 0)
        assert (back == x).all()
        del back, turned
        gc.collect()
        assert sys.getrefcount(x) == held, (sys.getrefcount(x), held)
    print("NumPy: DLPack both ways")


def torch_both_ways():
    if importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed")
        return
    import torch
    x = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    back = torch.from_dlpack(Lent(to_tc(x, LEGACY)))
    assert back.data_ptr() == x.data_ptr() and back.dtype == torch.bfloat16 and torch.equal(back, x)
    print("PyTorch: DLPack both ways")


with tempfile.TemporaryDirectory() as directory:
    files(directory)
numpy_both_ways()
torch_both_ways()
