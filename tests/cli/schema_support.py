"""Validation against docs/schema; says once that it is skipped where jsonschema is not installed."""
import json
import warnings

from harness import SOURCE

warnings.simplefilter("ignore", DeprecationWarning)  # RefResolver is what Debian 12 has
try:
    import jsonschema
except ImportError:
    jsonschema = None
    print("   skipped: validation against docs/schema, jsonschema is not installed (Debian: python3-jsonschema)")


def valid(name, document):
    if jsonschema is None:
        return
    folder = SOURCE / "docs" / "schema"
    schemas = {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}
    resolver = jsonschema.RefResolver(schemas[name]["$id"], schemas[name], store={s["$id"]: s for s in schemas.values()})
    jsonschema.Draft7Validator(schemas[name], resolver=resolver).validate(document)
