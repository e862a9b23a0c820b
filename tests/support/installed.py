"""The models inside installed packages (tests/requirements-models.txt).

The packages themselves are not imported: they are installed without what they depend on.
"""

import importlib.util
from pathlib import Path

PACKAGE_MODELS = {
    "rapidocr": "models/*.onnx",
    "silero_vad": "data/*.onnx",
    "magika": "models/*/*.onnx",
}


def package_models(package):
    """Paths of the .onnx files inside an installed package."""
    spec = importlib.util.find_spec(package)
    assert spec is not None, f"{package} is not installed (tests/requirements-models.txt)"
    found = sorted(Path(spec.submodule_search_locations[0]).glob(PACKAGE_MODELS[package]))
    assert found, f"{package} brings no models"
    return found


def package_model(package, part):
    """The one model of a package whose name has `part` in it."""
    [found] = [path for path in package_models(package) if part in path.name]
    return found
