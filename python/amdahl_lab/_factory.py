"""Sends a factory to other processes by reference, and finds it there."""
import base64
import importlib
import inspect
import json
import os
import pickle
import runpy
import sys
import types

VARIABLE = "AMDAHL_LAB_FACTORY"
NAMES = ("batch", "device", "rank", "world_size")
MAIN = "__mp_main__"  # the name of a script that another process imports, as multiprocessing has it


class Refused(Exception):
    """(what, remedy): the factory cannot be used."""


def refer(factory):
    """A JSON value that `find` turns into the factory in another process."""
    check(factory)
    reference = {"path": [entry for entry in sys.path if entry], "folder": os.getcwd()}
    module, name = getattr(factory, "__module__", None), getattr(factory, "__qualname__", "")
    plain = isinstance(factory, types.FunctionType) and module and "<" not in name
    if plain and module != "__main__":
        return {**reference, "kind": "module", "module": module, "name": name}
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if plain and file and os.path.exists(file):
        spec = getattr(main, "__spec__", None)
        if spec is not None and spec.name not in ("__main__", ""):
            return {**reference, "kind": "main module", "module": spec.name, "name": name}
        return {**reference, "kind": "script", "file": os.path.abspath(file), "name": name}
    return {**reference, "kind": "pickle", "pickle": _pickle(factory, name)}


def check(factory):
    """A factory is a function that makes everything anew: an object would be shared between measurements."""
    if not callable(factory) or hasattr(factory, "parameters") or inspect.isclass(factory) and factory.__name__ == "Training":
        raise Refused(f"measure() got {_article(factory)}, not a function that makes one",
                      "def make(batch, device): ... return amdahl_lab.Training(model, loss, optimizer, batches)")
    arguments(factory, dict.fromkeys(NAMES))


def arguments(factory, values):
    """Those of `values` that the factory takes."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return values
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return values
    unknown = [p.name for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL and p.name not in values]
    if unknown:
        raise Refused(f"the factory {_name(factory)} takes '{unknown[0]}', which measure() does not give",
                      f"take any of {', '.join(NAMES)}, or give '{unknown[0]}' a default")
    return {p.name: values[p.name] for p in parameters if p.name in values}


def find(path):
    """The factory that a file refers to."""
    try:
        with open(path, encoding="utf-8") as file:
            reference = json.load(file)
    except (OSError, ValueError) as problem:
        raise Refused(f"{VARIABLE}={path} cannot be read ({problem})", "call amdahl_lab.measure()") from None
    sys.path += [entry for entry in reference["path"] if entry not in sys.path]
    kind = reference["kind"]
    if kind == "pickle":
        return pickle.loads(base64.b64decode(reference["pickle"]))
    if kind == "module":
        found = importlib.import_module(reference["module"])
    else:
        found = _import_main(reference)
    for part in reference["name"].split("."):
        found = getattr(found, part)
    return found


def _import_main(reference):
    """The script's or module's code as a module whose `if __name__ == "__main__"` is not run."""
    module = types.ModuleType(MAIN)
    if reference["kind"] == "script":
        sys.path.insert(0, os.path.dirname(reference["file"]))
        content = runpy.run_path(reference["file"], run_name=MAIN)
    else:
        content = runpy.run_module(reference["module"], run_name=MAIN, alter_sys=True)
    module.__dict__.update(content)
    sys.modules[MAIN] = module
    return module


def _pickle(factory, name):
    try:
        import cloudpickle
    except ImportError:
        where = "in a notebook or typed" if name and "<" not in name else "inside another function, or no function by name"
        raise Refused(f"the factory {_name(factory)} is defined {where}: other processes cannot import it",
                      "pip install cloudpickle, or move it to a module") from None
    return base64.b64encode(cloudpickle.dumps(factory)).decode()


def _name(factory):
    return getattr(factory, "__qualname__", None) or type(factory).__name__


def _article(value):
    name = value.__name__ if inspect.isclass(value) else type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
