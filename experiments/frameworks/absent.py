"""Stands in for packages that need a GPU: importing them works, their classes do nothing."""
import abc
import importlib.abc
import importlib.machinery
import sys
import types
import typing

if not hasattr(typing, "override"):
    typing.override = lambda function: function  # Python 3.11 has none


class Nothing(abc.ABCMeta):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *arguments, **named: None


class Absent(types.ModuleType):
    __version__ = "2.12.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name[0].islower():
            made = Absent(f"{self.__name__}.{name}")
            setattr(self, name, made)
            return made
        made = Nothing(name, (), {"__init__": lambda self, *a, **k: None, "__module__": self.__name__, "__class_getitem__": classmethod(lambda cls, key: cls)})
        setattr(self, name, made)
        return made


    def __call__(self, *arguments, **named):
        return arguments[0] if arguments and callable(arguments[0]) else lambda one=None, *rest, **more: one


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if any(name == own or name.startswith(f"{own}.") for own in self.names) else None

    def create_module(self, spec):
        return Absent(spec.name)

    def exec_module(self, module):
        module.__path__ = []


def stand_in_for(*names):
    sys.meta_path.insert(0, Finder(names))
