"""Makes lapse_client from the OpenAPI 3.0.3 document: openapi-python-client with the templates that stand beside this,
what is written by hand, and the version. Usage: python generate.py DOCUMENT"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PACKAGE = HERE / "lapse_client"
METHODS = ("get", "put", "post", "delete", "patch")


def main(source: str) -> None:
    document = json.loads(Path(source).read_text(encoding="utf-8"))
    kept = {path.name: path.read_bytes() for path in PACKAGE.iterdir() if path.is_file()}
    command = [Path(sys.executable).parent / "openapi-python-client", "generate", "--path", source, "--meta", "none"]
    command += ["--config", HERE / "config.yml", "--custom-template-path", HERE / "templates"]
    command += ["--output-path", PACKAGE, "--overwrite", "--fail-on-warning"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    for name, content in kept.items():
        (PACKAGE / name).write_bytes(content)
    (PACKAGE / "operations.py").write_text(operations(document), encoding="utf-8")
    project = HERE / "pyproject.toml"
    version = document["info"]["version"]
    project.write_text(re.sub(r'(?m)^version = ".*"$', f'version = "{version}"', project.read_text()))
    for cache in HERE.rglob("__pycache__"):
        shutil.rmtree(cache)
    for arguments in (["check", "--quiet", "--fix-only", "--extend-select", "I,F401"], ["format", "--quiet"]):
        ruff = [Path(sys.executable).parent / "ruff", *arguments, "--line-length", "120", "--config", NO_INIT, PACKAGE]
        subprocess.run(ruff, check=True)


# What a package gives out is no unused import.
NO_INIT = 'lint.per-file-ignores = {"lapse_client/__init__.py" = ["F401"], "lapse_client/models/__init__.py" = ["F401"]}'


def operations(document: dict) -> str:
    """What the document says of its calls beyond their types."""
    calls = [item[method] for item in document["paths"].values() for method in METHODS if method in item]
    safe = sorted(call["operationId"] for call in calls if call["x-lapse"]["idempotent"])
    return f'''"""Made from the OpenAPI document; not to be edited."""

VERSION = {json.dumps(document["info"]["version"])}

# Calls that may be sent again when no answer came.
IDEMPOTENT = frozenset(({"".join(json.dumps(id) + ", " for id in safe)}))
'''


if __name__ == "__main__":
    main(*sys.argv[1:])
