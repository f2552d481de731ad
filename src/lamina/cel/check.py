"""The limits of a profile, checked on the tree: whoever passes is cheap enough to run."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from lamina.cel import official
from lamina.cel.ast import AND, OR, Call, Const, Fold, Ident, ListOf, MapOf, Node, children, flat, negated, walk
from lamina.cel.complaints import at_position, complaint
from lamina.cel.decode import Decoded
from lamina.cel.folds import macro_of
from lamina.cel.profile import Profile
from lamina.cel.source import to_text
from lamina.errors import FilterError

_LABELS_MAX = 64
_DEPTH_SAFE = 8
"""Far below where the parser gives up, however it counts."""
_EXAMPLES = {"timestamp": '"2024-01-31T12:00:00Z"', "duration": '"36h", "90m" or "1.5s"'}


def check_text(text: str, profile: Profile) -> None:
    """What can be said about a text before it is parsed."""
    if "\0" in text:
        raise at_position(text, "a filter holds no NUL character", text.index("\0"))
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise at_position(text[: error.start], "a lone surrogate is not text", error.start) from None
    if size > profile.source_bytes_max:
        reason = f"the filter has {size} bytes, at most {profile.source_bytes_max} are allowed in a {profile.name}"
        raise complaint(text[:80].split("\n")[0] + "…", reason, 1, 1)


def check_tree(text: str, decoded: Decoded, type_name: str, profile: Profile) -> None:
    """FilterError, with its place, for the first limit that the tree does not keep."""
    if type_name != "BOOL":
        hint = 'compare it with something: labels["app"] == "dm"' if type_name == "STRING" else ""
        raise complaint(text, f"a filter is true or false, and this is {type_name.lower()}", 1, 1, hint)
    _Checker(text, decoded, profile).check(decoded.node)


class _Checker:
    def __init__(self, text: str, decoded: Decoded, profile: Profile) -> None:
        self.text, self.decoded, self.profile = text, decoded, profile

    def check(self, root: Node) -> None:
        for node in walk(root):
            self._check_node(node)
        name = self.profile.name
        if (count := _count(root)) > self.profile.nodes_max:
            raise self._refuse(root, f"the filter has {count} parts, at most {self.profile.nodes_max} in a {name}")
        if (depth := _depth(root)) > self.profile.depth_max:
            raise self._refuse(root, f"the filter is nested {depth} deep, at most {self.profile.depth_max} in a {name}")
        if depth > _DEPTH_SAFE:
            self._check_rewritable(root)
        if (steps := _steps(root)) > self.profile.steps_max:
            raise self._refuse(root, f"its macros take {steps} steps, at most {self.profile.steps_max} are allowed")

    def _check_rewritable(self, root: Node) -> None:
        """Parts of a filter are compiled again, negated perhaps, and must not be too deep for the parser then."""
        try:
            official.check(f"!({to_text(negated(root))})", has_strings=True)
        except official.Refused as refused:
            raise self._refuse(root, refused.reason) from None

    def _check_node(self, node: Node) -> None:
        profile = self.profile
        match node:
            case Const(_, str(value)) if "\0" in value:
                raise self._refuse(node, "no text of a message holds a NUL character, so none is equal to this")
            case Const("bytes", _) | Ident("key") if not profile.has_bytes:
                raise self._refuse(node, f"bytes, and so the key, are not part of a {profile.name}'s filter")
            case ListOf(items) if len(items) > profile.list_items_max:
                reason = f"a list of {len(items)} items, at most {profile.list_items_max} are allowed"
                raise self._refuse(node, reason)
            case MapOf(type_name, _) if type_name:
                raise self._refuse(node, f"{type_name} cannot be made in a filter")
            case Fold():
                self._check_macro(node)
            case Call("dyn", _, _) if not profile.has_dyn:
                raise self._refuse(node, f"dyn() is not part of a {profile.name}'s filter")
            case Call("matches", target, args):
                self._check_regex(node, args[-1] if target is not None else args[1])
            case Call() if _is_growing(node) and any(_is_growing(part) for part in _below(node)):
                reason = "calls that make a text longer (replace, join, quote) cannot be within each other"
                raise self._refuse(node, reason, "replace() of a literal by one that is no longer is not among them")
            case Call(function, None, (Const("string", _),)) if function in _EXAMPLES:
                self._check_time(node, function)

    def _check_macro(self, fold: Fold) -> None:
        name = macro_of(fold).name
        if not self.profile.has_macros:
            raise self._refuse(fold, f"{name}() is not part of a {self.profile.name}'s filter")
        over = fold.over
        is_constant = isinstance(over, ListOf) and all(isinstance(item, Const) for item in over.items)
        if over not in (Ident("labels"), Ident(".labels")) and not is_constant:
            raise self._refuse(fold, f"{name}() runs over labels or a list of literals only, not over {to_text(over)}")

    def _check_regex(self, node: Call, pattern: Node) -> None:
        if not (isinstance(pattern, Const) and isinstance(pattern.value, str)):
            raise self._refuse(node, "the pattern of matches() is a literal, so that it can be checked beforehand")
        if (size := len(pattern.value.encode())) > self.profile.regex_bytes_max:
            reason = f"the pattern has {size} bytes, at most {self.profile.regex_bytes_max} are allowed"
            raise self._refuse(pattern, reason)
        try:
            pc.match_substring_regex(pa.array([""]), pattern.value)
        except pa.ArrowInvalid as error:
            detail = str(error).removeprefix("Invalid regular expression: ")
            raise self._refuse(pattern, f"the pattern is no RE2 regular expression: {detail}") from None
        if official.constant(to_text(Call("matches", Const("string", ""), (pattern,)))) is None:
            raise self._refuse(pattern, "the pattern is no RE2 regular expression, or too large a one")

    def _check_time(self, node: Call, function: str) -> None:
        if official.constant(to_text(node)) is None:
            hint = f"{function}({_EXAMPLES[function]})" if function == "timestamp" else _EXAMPLES[function]
            raise self._refuse(node.args[0], f"this is no {function}", f"it looks like {hint}")

    def _refuse(self, node: Node, reason: str, hint: str = "") -> FilterError:
        return at_position(self.text, reason, self.decoded.position(node), hint)


def _is_growing(node: Node) -> bool:
    """Whether its text may be a product of other texts' lengths: a few of them within each other fill any memory."""
    match node:
        case Call("replace", _, (Const(_, str(old)), Const(_, str(new)), *_)):
            return len(new) > len(old) or not old
        case Call(function, _, _):
            return function in ("replace", "join", "strings.quote")
    return False


def _below(node: Node) -> Iterator[Node]:
    return (part for child in children(node) for part in walk(child))


def _parts(node: Node) -> list[Node]:
    """What is below a node as it was written: a macro's arguments, not what they were expanded to."""
    match node:
        case Fold():
            return [node.over, *macro_of(node).args]
        case Call(function, _, _) if function in (AND, OR):
            return flat(function, node)
        case ListOf(items):
            return [item for item in items if not isinstance(item, Const)]
    return list(children(node))


def _count(node: Node) -> int:
    return 1 + sum(map(_count, _parts(node)))


def _depth(node: Node) -> int:
    return 1 + max(map(_depth, _parts(node)), default=0)


def _steps(node: Node) -> int:
    if isinstance(node, Fold):
        items = len(node.over.items) if isinstance(node.over, ListOf) else _LABELS_MAX
        return items * (1 + sum(map(_steps, macro_of(node).args)))
    return sum(map(_steps, _parts(node)))
