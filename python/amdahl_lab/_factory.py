"""Names a factory for other processes, and finds it there by this name."""
import importlib
import inspect
import os
import pickle
import runpy
import sys
import types

NAMES = ("batch", "device", "rank", "world_size")
MAIN = "__mp_main__"  # the name of a script that another process imports, as multiprocessing has it
PICKLE = "--pickle"
PATH = "--path"


class Refused(Exception):
    """(what, remedy): the factory cannot be used."""


def refer(factory):
    """(words, pickle): the words "MODULE:NAME" or "FILE.py:NAME" and where it is found; or none, and the factory's pickle."""
    check(factory)
    module, name = getattr(factory, "__module__", None), getattr(factory, "__qualname__", "")
    if isinstance(factory, types.FunctionType) and module and "<" not in name:
        main = sys.modules.get("__main__")
        file, spec = getattr(main, "__file__", None), getattr(main, "__spec__", None)
        if module != "__main__":
            return [f"{module}:{name}", *_path_of(sys.modules[module])], None
        if spec is not None and file:  # python -m
            return [f"{spec.name}:{name}", *_path_of(main)], None
        if file and os.path.exists(file):
            return [f"{os.path.abspath(file)}:{name}"], None
    return [], _pickle(factory, name)


def _path_of(module):
    """The folder that another process needs in its sys.path to import this module, if it has not got it."""
    file = getattr(module, "__file__", None)
    if not file:
        return []
    folder = os.path.dirname(os.path.abspath(file))
    depth = (module.__spec__.name if module.__spec__ is not None else module.__name__).count(".")
    for _ in range(depth + (os.path.basename(file) == "__init__.py")):
        folder = os.path.dirname(folder)
    known = [os.getcwd(), *(os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry)]
    installed = os.path.basename(folder) in ("site-packages", "dist-packages")
    return [] if folder in known or installed else [PATH, folder]


def check(factory):
    """A factory is a function that makes everything anew: an object would be shared between measurements."""
    if not callable(factory) or hasattr(factory, "parameters") or inspect.isclass(factory):
        name = factory.__name__ if inspect.isclass(factory) else type(factory).__name__
        raise Refused(f"measure() got {name}, not a function that makes a Training",
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


def find(words):
    """The factory that words of `refer`, or PICKLE and a file, name."""
    if len(words) == 2 and words[0] == PICKLE:
        with open(words[1], "rb") as file:
            return pickle.load(file)
    place, colon, name = words[0].rpartition(":") if words else ("", "", "")
    if not colon or not name or words[1:2] not in ([], [PATH]) or len(words) not in (1, 3):
        raise Refused(f"'{' '.join(words)}' names no factory", "MODULE:NAME or FILE.py:NAME")
    sys.path += words[2:]
    try:
        found = _import_script(place) if place.endswith(".py") else importlib.import_module(place)
        for part in name.split("."):
            found = getattr(found, part)
    except FileNotFoundError:
        raise Refused(f"there is no {place}", "the file of the factory") from None
    except AttributeError:
        raise Refused(f"{place} has no {name}", "the name of a function at the top of the file") from None
    except ModuleNotFoundError as problem:
        raise Refused(f"{place} cannot be imported: {problem}", "PYTHONPATH with its folder") from None
    check(found)
    return found


def _import_script(file):
    """The script as a module whose `if __name__ == "__main__"` is not run."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    module = types.ModuleType(MAIN)
    module.__dict__.update(runpy.run_path(file, run_name=MAIN))
    sys.modules[MAIN] = module
    return module


def _pickle(factory, name):
    try:
        import cloudpickle
    except ImportError:
        where = "inside another function, or without a name" if "<" in name or not name else "in a notebook"
        raise Refused(f"the factory {_name(factory)} is defined {where}: other processes cannot import it",
                      "pip install cloudpickle, or move it to a module") from None
    return cloudpickle.dumps(factory)


def _name(factory):
    return getattr(factory, "__qualname__", None) or type(factory).__name__
