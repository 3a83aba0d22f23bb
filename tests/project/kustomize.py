"""A renderer of kustomizations, of what ours use and nothing else: a field that it does not know is an error.

`test_kubernetes.py` holds it against the real one where that is installed.
"""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

_FIELDS = {"apiVersion", "kind", "namespace", "labels", "resources", "components", "patches", "images"}
_KEYS = {"containers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath"}
"""Lists whose members a patch is merged into, by the name of the list; other lists are replaced."""


def render(folder: Path, *components: Path) -> list[Manifest]:
    """Return the manifests of a kustomization, with further components as if it named them last."""
    kustomization = _read(folder)
    found: list[Manifest] = []
    _add(folder, kustomization, found)
    for component in (*(folder / name for name in kustomization.get("components", ())), *components):
        inner = _read(component)
        assert inner["kind"] == "Component"
        _add(component, inner, found)
        _transform(component, inner, found)
    _transform(folder, kustomization, found)
    return found


def files(folder: Path) -> Iterator[Path]:
    """Yield all files that a kustomization reads, its own and those of others."""
    kustomization = _read(folder)
    yield folder / "kustomization.yaml"
    named = [*kustomization.get("resources", ()), *(patch["path"] for patch in kustomization.get("patches", ()))]
    for path in (folder / name for name in [*named, *kustomization.get("components", ())]):
        if path.is_dir():
            yield from files(path.resolve())
        else:
            yield path.resolve()


def _read(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
    assert set(found) <= _FIELDS, f"{folder}: this does not know {set(found) - _FIELDS}"
    return found


def _add(folder: Path, kustomization: dict[str, Any], found: list[Manifest]) -> None:
    for path in (folder / name for name in kustomization.get("resources", ())):
        more = render(path) if path.is_dir() else list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        known = [_identity(manifest) for manifest in found]
        assert not [one for one in more if _identity(one) in known], f"{path}: there already"
        found += more


def _transform(folder: Path, kustomization: dict[str, Any], found: list[Manifest]) -> None:
    for patch in kustomization.get("patches", ()):
        assert set(patch) == {"path"}
        for change in yaml.safe_load_all((folder / patch["path"]).read_text(encoding="utf-8")):
            (target,) = [one for one in found if _identity(one) == _identity(change)]
            if change.get("$patch") == "delete":
                found.remove(target)
            else:
                _merge(target, change)
    if "namespace" in kustomization:
        for manifest in found:
            if manifest["kind"] != "Namespace":
                manifest["metadata"]["namespace"] = kustomization["namespace"]
    for labels in kustomization.get("labels", ()):
        assert set(labels) == {"pairs"}
        for manifest in found:
            manifest["metadata"].setdefault("labels", {}).update(labels["pairs"])
    for image in kustomization.get("images", ()):
        assert set(image) == {"name", "newName", "newTag"}
        for one in (one for manifest in found for one in containers(manifest)):
            if one["image"].partition(":")[0] == image["name"]:
                one["image"] = f"{image['newName']}:{image['newTag']}"


def containers(manifest: Manifest) -> list[dict[str, Any]]:
    """Return the containers of what has a template of pods, none of anything else."""
    found: list[dict[str, Any]] = manifest.get("spec", {}).get("template", {}).get("spec", {}).get("containers", [])
    return found


def _identity(manifest: Manifest) -> tuple[str, str, str]:
    return manifest["apiVersion"], manifest["kind"], manifest["metadata"]["name"]


def _merge(target: dict[str, Any], change: dict[str, Any]) -> None:
    """Merge a strategic patch: maps into maps, lists of named things by name, a null takes away."""
    for name, value in change.items():
        assert not name.startswith("$"), f"this does not know {name}"
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict) and isinstance(target.get(name), dict):
            _merge(target[name], value)
        elif name in _KEYS and isinstance(target.get(name), list):
            key, new = _KEYS[name], []
            for item in value:
                known = [one for one in target[name] if one[key] == item[key]]
                if known:
                    _merge(known[0], item)
                else:
                    new.append(deepcopy(item))
            target[name] = new + target[name]
        else:
            target[name] = deepcopy(value)
