"""Damage to bytes, to JSON documents and to plans. Everything follows from the random generator that is handed in."""
import copy
import json

STEERING = "\u001b]0;x\u0007\u001b[2J\u009b"
ODD = [None, True, False, 0, -1, 1, 2, 3, 7, 2**31, 2**53, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e-300, 1e300, "", "a", "0", "1e9", "80 GiB",
       "-3 us", "NaN", "../../x", "/dev/zero", STEERING, "x" * 3000, "\ud7ff\uffff", [], {}, [[]], [1, 2, 3], {"a": 1}, [None] * 50, {"value": 1}]


def bent_bytes(chance, data):
    """Bytes with one to three of: a byte changed, a piece taken out, put in, doubled or cut off."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(out) + 1)
        kind = chance.randrange(6)
        if kind == 0 and out:
            out[at - 1] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del out[at:at + chance.choice((1, 2, 20, 500))]
        elif kind == 2:
            out[at:at] = chance.randbytes(chance.choice((1, 3, 40)))
        elif kind == 3:
            out[at:at] = out[at:at + chance.randrange(1, 400)]
        elif kind == 4:
            del out[at:]
        elif out:
            out[at - 1] = chance.choice(b'"{}[],:0-9e.\\\x00\xff\x1b')
    return bytes(out)


def places(node, path=()):
    """Paths of all members and elements of a JSON document."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield (*path, key)
        yield from places(value, (*path, key))


def parent_of(document, path):
    for key in path[:-1]:
        document = document[key]
    return document


def near(chance, value):
    """A value that is nearly the one given."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return chance.choice((0, -value, value + 1, value - 1, value * 2, value * 1000, value / 3, str(value), 10**18, 1e-30))
    if isinstance(value, str) and value:
        at = chance.randrange(len(value))
        return chance.choice((value[:at], value[:at] + chance.choice("-xX0 /.\u001b") + value[at:], value.upper(), value * 400, value + STEERING))
    return chance.choice(ODD)


def bent_json(chance, document, times=None):
    """A document with one to four members changed, taken out, renamed, added or moved."""
    document = copy.deepcopy(document)
    for _ in range(times or chance.choice((1, 1, 1, 2, 4))):
        found = list(places(document))
        if not found:
            return chance.choice(ODD)
        path = chance.choice(found)
        parent, key, kind = parent_of(document, path), path[-1], chance.randrange(8)
        if kind <= 1:
            parent[key] = copy.deepcopy(chance.choice(ODD))
        elif kind <= 4:
            parent[key] = near(chance, parent[key])
        elif kind == 5:
            del parent[key]
        elif kind == 6 and isinstance(parent, dict):
            parent[near(chance, key) if isinstance(key, str) else key] = parent.pop(key)
            for name in [n for n in parent if not isinstance(n, str)]:
                parent[str(name)] = parent.pop(name)
        else:
            parent[key] = copy.deepcopy(parent_of(document, (*chance.choice(found), None)) if chance.random() < 0.5 else document)
    return document


def bent_text(chance, document):
    """A JSON file as bytes: mostly well-formed and wrong, at times not well-formed, nested too deep, huge or with a key given twice."""
    kind = chance.randrange(12)
    if kind < 8:
        return json.dumps(bent_json(chance, document), allow_nan=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    if kind < 10:
        return bent_bytes(chance, json.dumps(document).encode())
    text = json.dumps(document)
    at = chance.choice([i for i, c in enumerate(text) if c == "{"] or [0]) + 1
    if kind == 10:
        key = json.dumps(chance.choice(["name", "model", "a", "k" * 50_000, STEERING]))
        return (text[:at] + "".join(f'{key}: {i}, ' for i in range(chance.choice((1, 3)))) + text[at:]).encode()
    deep = chance.choice((70, 5000, 200_000))
    return (text[:at] + '"deep": ' + "[" * deep + "]" * deep + ", " + text[at:]).encode()


class Plans:
    """Plans made of what the schema of plans allows, and a little more."""

    def __init__(self, schema):
        self.fields = list(self._fields(schema, ()))

    def _fields(self, schema, path):
        for key, of in (schema.get("properties") or {}).items():
            options = [of, *of.get("anyOf", ()), *of.get("oneOf", ())]
            yield ((*path, key), [o for o in options if o])
            for option in options:
                yield from self._fields(option, (*path, key))

    def value(self, chance, options):
        option = chance.choice(options)
        if "enum" in option:
            return chance.choice(option["enum"])
        kind = option.get("type")
        if kind == "boolean":
            return chance.random() < 0.5
        if kind == "integer":
            return chance.choice((0, 1, 2, 2, 3, 4, 8, 16, 64, 1000, 2**20, 2**31, 10**12, -1))
        if kind == "number":
            return chance.choice((0, 0.1, 0.5, 1, 2, 1e-9, 1e9, -1))
        return copy.deepcopy(chance.choice(ODD))

    def bent(self, chance, plan):
        """A plan with a few fields set to values of their type or of none."""
        plan = copy.deepcopy(plan)
        for _ in range(chance.choice((1, 1, 2, 3, 6))):
            path, options = chance.choice(self.fields)
            place = plan
            for key in path[:-1]:
                if not isinstance(place.get(key), dict):
                    place[key] = {}
                place = place[key]
            place[path[-1]] = self.value(chance, options)
        return bent_json(chance, plan, 1) if chance.random() < 0.2 else plan
