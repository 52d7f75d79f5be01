"""Kinds of values that a framework's option has, for options.py: "bool", "int", "float", "list", "dict", and words in quotes."""
import ast
import enum
import inspect

SCALARS = {"bool": "bool", "int": "int", "float": "float", "PositiveInt": "int", "NonNegativeInt": "int", "PositiveFloat": "float", "NonNegativeFloat": "float",
           "StrictBool": "bool", "StrictInt": "int"}
LISTS = {"list", "List", "tuple", "Tuple", "Sequence", "set", "Set"}
MAPS = {"dict", "Dict", "Mapping", "DictDefault"}


def quoted(value):
    return f"'{value}'" if isinstance(value, str) else "bool" if isinstance(value, bool) else "int"


class Unknown(Exception):
    """An annotation that says no kinds: a text, or a class that is not known."""


class Kinds:
    """Reads annotations of the files that it has seen."""

    def __init__(self):
        self.classes, self.names = {}, {}

    def see(self, tree):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                self.classes.setdefault(node.name, node)
            elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                self.names.setdefault(node.targets[0].id, node.value)

    def enumeration(self, node):
        """Words of an enumeration; nothing for another class."""
        if not any("Enum" in ast.unparse(base) for base in node.bases):
            return None
        values = [n.value for n in node.body if isinstance(n, ast.Assign)]
        if any(not isinstance(v, ast.Constant) or not isinstance(v.value, str) for v in values):
            raise Unknown
        return {quoted(v.value) for v in values}

    @staticmethod
    def is_group(node):
        """Whether a file has fields of the class where it has the class."""
        said = [ast.unparse(n) for n in [*node.bases, *node.decorator_list]]
        return any("BaseModel" in text or "dataclass" in text or text.endswith("Config") for text in said)

    def of_name(self, name):
        if name in SCALARS:
            return {SCALARS[name]}
        if name in ("None", "NoneType"):
            return set()
        if name in LISTS | MAPS:
            return {"list" if name in LISTS else "dict"}
        if name in self.classes:
            words = self.enumeration(self.classes[name])
            if words is None and not self.is_group(self.classes[name]):
                raise Unknown
            return {"dict"} if words is None else words
        alias = self.names.pop(name, None)
        if alias is None:
            raise Unknown
        try:
            return self.of(alias)
        finally:
            self.names[name] = alias

    def of(self, node):
        """Kinds of an annotation. Throws Unknown."""
        if isinstance(node, ast.Constant):
            return set() if node.value is None else self.of(ast.parse(node.value, mode="eval").body)
        if isinstance(node, ast.BinOp):
            return self.of(node.left) | self.of(node.right)
        if isinstance(node, ast.Attribute):
            return self.of_name(node.attr)
        if isinstance(node, ast.Name):
            return self.of_name(node.id)
        if not isinstance(node, ast.Subscript):
            raise Unknown
        outer = node.value.attr if isinstance(node.value, ast.Attribute) else node.value.id
        inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if outer == "Literal":
            if any(not isinstance(n, ast.Constant) for n in inner):
                raise Unknown
            return {quoted(n.value) for n in inner if n.value is not None}
        if outer in ("Optional", "Union"):
            return set().union(*(self.of(n) for n in inner))
        if outer == "Annotated":
            return self.of(inner[0])
        return self.of_name(outer)

    def known(self, node):
        """Kinds as a list; empty where any value may be right."""
        try:
            return sorted(self.of(node))
        except Unknown:
            return []


class InPlaceOfDefaults(ast.NodeTransformer):
    """A tree whose fields have their kinds as defaults."""

    def __init__(self, kinds):
        self.kinds = kinds

    def visit_AnnAssign(self, node):
        alias = [k for k in getattr(node.value, "keywords", []) if k.arg == "alias"]
        value = ast.parse(repr(self.kinds.known(node.annotation)), mode="eval").body
        node.value = ast.Call(ast.Name("Field"), [value], [ast.keyword("default", value), *alias]) if alias else value
        return node


def of_action(action):
    """Kinds of a parser's option."""
    if action.nargs == 0:
        return ["bool"]
    if action.nargs is not None:
        return []
    if action.choices:
        return sorted({quoted(c.name if isinstance(c, enum.Enum) else c) for c in action.choices})
    return [action.type.__name__] if inspect.isclass(action.type) and action.type.__name__ in ("int", "float") else []


def of_call(said, action):
    """Kinds of an option that a call adds: its keywords."""
    if action in ("store_true", "store_false"):
        return ["bool"]
    if "nargs" in said:
        return []
    if isinstance(said.get("choices"), ast.List):
        return sorted({quoted(c) for c in ast.literal_eval(said["choices"])})
    kind = getattr(said.get("type"), "id", "")
    return [kind] if kind in ("int", "float") else []


def of_value(value):
    """Kinds of a default or of an example's value: a whole number may stand where others are right, too."""
    return ["bool"] if isinstance(value, bool) else ["float"] if isinstance(value, (int, float)) else []


def joined(*several):
    """Kinds of an option that several files have."""
    return sorted({kind for some in several for kind in some or []})


def of_files(roots):
    """Kinds with all classes of the checkouts' files."""
    out = Kinds()
    for file in (f for root in roots for f in sorted(root.rglob("*.py")) if "test" not in f.parts and "tests" not in f.parts):
        try:
            out.see(ast.parse(file.read_text()))
        except (SyntaxError, UnicodeDecodeError):
            continue
    return out
