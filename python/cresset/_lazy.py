"""Names that a package has before its files are read, so that importing it takes no time."""
import importlib


def names(package, where, files):
    """The package's __getattr__ and __dir__. where: name -> the file that has it; files: files that are names
    themselves."""
    def find(name):
        if name in where:
            value = getattr(importlib.import_module(f"{package['__name__']}.{where[name]}"), name)
        elif name in files:
            value = importlib.import_module(f"{package['__name__']}.{name}")
        else:
            raise AttributeError(f"module '{package['__name__']}' has no attribute '{name}'")
        package[name] = value
        return value

    return find, lambda: sorted({*package, *where, *files})
