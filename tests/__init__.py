import sys

# jsonschema loads this checker of addresses, if it is installed, and its grammars take seconds.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
