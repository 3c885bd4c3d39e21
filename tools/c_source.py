"""Reads C as the lint needs it: tokens with their lines, the definitions of a file, and the names that each uses.
No compiler and no build is needed.

In: the text of a .c, .h or .def file. Out: tokens, or definitions. Macros of the file itself are expanded, with rows
of .def files that it includes.
Invariants: both branches of an #if count. Not seen: calls through fields of structs, which are what lets a lower layer run
a higher one.
"""
import pathlib
import re
from collections import namedtuple

ROOT = pathlib.Path(__file__).resolve().parent.parent

Token = namedtuple("Token", "kind text line")  # kind: word, number, string, char, op, comment, newline, hash
# kind: function, variable, declaration (of either), macro (with parentheses), constant (a macro without)
# line: that of its name; uses: the words of its head and body that may name something of another file
Definition = namedtuple("Definition", "name kind static line end uses head body")

TOKEN = re.compile(
    r"""(?P<space>(?:[ \t\f\r]|\\\n)+)|(?P<newline>\n)|(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)"""
    r"""|(?P<string>(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")|(?P<char>[uUL]?'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<word>[A-Za-z_]\w*)|(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)"""
    r"""|(?P<op>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|\#\#|.)""",
    re.S | re.X)


def tokens(text, comments=False):
    """All tokens, newlines among them; a line that a backslash continues is one line."""
    line = 1
    for m in TOKEN.finditer(text):
        kind = m.lastgroup
        if kind != "space" and (comments or kind != "comment"):
            yield Token(kind, m.group(), line)
        line += m.group().count("\n") if kind in ("space", "newline", "comment") else 0


class Macro(namedtuple("Macro", "name params body line")):  # params: None of one without parentheses
    pass


def statements(text):
    """Yields ("code", [tokens of lines]) and ("#", [tokens of a directive]) in the order of the text."""
    line, directive = [], False
    for t in tokens(text):
        if t.kind == "newline":
            if directive:
                yield "#", line
                line, directive = [], False
        elif t.text == "#" and not directive and (not line or line[-1].line != t.line):
            if line:
                yield "code", line
            line, directive = [], True
        else:
            line.append(t)
    if line:
        yield "#" if directive else "code", line


def macro_of(line):
    """The macro of a #define, given the tokens after the `#`."""
    name, rest = line[1], line[2:]
    if not rest or rest[0].text != "(" or rest[0].line != name.line:
        return Macro(name.text, None, rest, name.line)
    close = next(i for i, t in enumerate(rest) if t.text == ")")
    return Macro(name.text, [t.text for t in rest[1:close] if t.text != ","], rest[close + 1:], name.line)


def arguments(line, at):
    """The arguments of a macro's call whose "(" is line[at], and what comes after its ")"."""
    depth, found = 0, [[]]
    for i in range(at, len(line)):
        text = line[i].text
        depth += (text in "([{") - (text in ")]}") if len(text) == 1 else 0
        if depth == 0:
            return found, i + 1
        if text == "," and depth == 1:
            found.append([])
        elif i > at:
            found[-1].append(line[i])
    return None, at


def fill(macro, given, macros, depth):
    """The body of a macro with its arguments in, words pasted; a # before an argument makes a string."""
    values = dict(zip(macro.params, given))
    if macro.params and macro.params[-1] == "...":
        rest = given[len(macro.params) - 1:]
        values["__VA_ARGS__"] = [t for i, a in enumerate(rest) for t in ([Token("op", ",", 0)] if i else []) + a]
    out, i, body = [], 0, macro.body
    while i < len(body):
        t = body[i]
        pastes = (i > 0 and body[i - 1].text == "##") or (i + 1 < len(body) and body[i + 1].text == "##")
        if t.text == "#" and i + 1 < len(body) and body[i + 1].text in values:
            out.append(Token("string", '""', t.line))
            i += 2
            continue
        if t.text == "##" and out and i + 1 < len(body):
            right = values.get(body[i + 1].text, [body[i + 1]])
            if right:
                out[-1] = Token("word", out[-1].text + right[0].text, t.line)
                out += right[1:]
            i += 2
            continue
        value = values.get(t.text, [t]) if t.kind == "word" else [t]
        out += value if pastes or t.text not in values else expand(value, macros, depth + 1)
        i += 1
    return out


def expand(line, macros, depth=0):
    """Calls of these macros replaced by what they stand for."""
    if depth > 8 or not macros:
        return line
    out, i = [], 0
    while i < len(line):
        t = line[i]
        macro = macros.get(t.text) if t.kind == "word" else None
        if macro and macro.params is not None and i + 1 < len(line) and line[i + 1].text == "(":
            given, after = arguments(line, i + 1)
            if given is not None:
                rest = {k: v for k, v in macros.items() if k != t.text}
                out += expand(fill(macro, given, rest, depth), rest, depth + 1)
                i = after
                continue
        out.append(t)
        i += 1
    return out


def stream(text, read, expanded=True):
    """The code of a file as one list of tokens, its own macros expanded, and its macros as definitions.

    read(name): the text of an included .def file, or None.
    """
    macros, code, defined = {}, [], []
    for kind, line in statements(text):
        if kind == "code":
            code += expand(line, macros)
        elif line and line[0].text == "define" and len(line) > 1:
            macro = macro_of(line)
            if expanded:
                macros[macro.name] = macro
            words = frozenset(t.text for t in macro.body if t.kind == "word") - set(macro.params or ())
            kind = "constant" if macro.params is None else "macro"
            defined.append(Definition(macro.name, kind, False, macro.line, line[-1].line, words, [], macro.body))
        elif line and line[0].text == "undef":
            macros.pop(line[1].text, None)
        elif line and line[0].text == "include":
            name = "".join(t.text for t in line[1:]).strip('"<>')
            rows = read(name) if expanded and name.endswith(".def") else None
            for part, row in statements(rows or ""):
                if part == "code":
                    code += expand(row, macros)
    return code, defined


QUALIFIERS = {"static", "extern", "inline", "const", "volatile", "typedef", "struct", "enum", "union",
              "__attribute__", "_Thread_local", "__thread", "_Alignas", "_Static_assert"}


def name_of(head):
    """(name, kind) of what a statement at file level defines or declares; (None, None) of a type."""
    depth, groups, equals = 0, [], None
    for i, t in enumerate(head):
        if t.text in ("(", "[", "{"):
            if depth == 0:
                groups.append((t.text, i))
            depth += 1
        elif t.text in (")", "]", "}"):
            depth -= 1
        elif t.text == "=" and depth == 0 and equals is None:
            equals = i
    before = head[:equals] if equals is not None else head
    parens = [i for g, i in groups if g == "(" and 0 < i < len(before) and before[i - 1].kind == "word"
              and before[i - 1].text not in QUALIFIERS]
    if equals is None and parens:
        named = before[parens[-1] + 1:]  # type (name)(parameters), which no macro of that name replaces
        if len(named) > 2 and named[0].kind == "word" and named[1].text == ")" and named[2].text == "(":
            return named[0].text, "function"
        return before[parens[-1] - 1].text, "function"
    square = [i for g, i in groups if g == "[" and i < len(before)]
    end = square[0] if square else len(before)
    if end > 1 and before[end - 1].kind == "word" and before[end - 1].text not in QUALIFIERS:
        return before[end - 1].text, "variable"
    return None, None


def names_of(head):
    """What a statement without a body defines or declares: several, where commas part them."""
    depth, parts = 0, [[]]
    for t in head:
        depth += (t.text in ("(", "[", "{")) - (t.text in (")", "]", "}"))
        if t.text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(t)
    for i, part in enumerate(parts):
        name, kind = name_of(part if i == 0 else parts[0][:1] + part)
        if name:
            yield name, kind


def uses_of(body):
    """Words of a body that may name a function, table or macro of another file: not fields or tags.

    Words without the prefix count where they are called.
    """
    found = set()
    for i, t in enumerate(body):
        if t.kind == "word" and (i == 0 or body[i - 1].text not in (".", "->", "struct", "enum", "union", "goto")):
            if t.text.startswith(("tc_", "TC_")) or (i + 1 < len(body) and body[i + 1].text == "("):
                found.add(t.text)
    return frozenset(found)


def line_of(head, name):
    return next((t.line for t in reversed(head) if t.text == name), head[0].line)


def definitions(text, read=lambda name: None, expanded=True):
    """Functions, variables and macros that a file defines or declares.

    expanded: with those that its own macros make, whose lines are those of the macros.
    """
    code, found = stream(text, read, expanded)
    depth, head, body = 0, [], []
    for t in code:
        if depth == 0 and t.text == ";":
            words = {h.text for h in head}
            for name, kind in names_of(head) if len(head) > 1 and not words & {"typedef", "_Static_assert"} else ():
                declared = kind == "function" or "extern" in words
                uses = frozenset() if declared else uses_of(head + body)
                kind = "declaration" if declared else kind
                found.append(Definition(name, kind, "static" in words, line_of(head, name), t.line, uses, head, body))
            head, body = [], []
            continue
        if depth == 0 and t.text == "{" and [h.kind for h in head] == ["word", "string"]:  # extern "C" {
            head = []
            continue
        if depth == 0 and t.text == "}":
            head = []
            continue
        if t.text == "{":
            depth += 1
        (body if depth else head).append(t)
        if t.text == "}":
            depth -= 1
            name, kind = name_of(head) if depth == 0 else (None, None)
            if kind == "function" and not any(h.text == "=" for h in head):
                static = any(h.text == "static" for h in head)
                line, uses = line_of(head, name), uses_of(head + body)
                found.append(Definition(name, kind, static, line, t.line, uses, head, body))
                head, body = [], []
    if depth:
        raise ValueError(f"braces do not close: {depth} are open at the end")
    return found


def sources(tops, suffixes=(".c", ".h", ".def")):
    """Paths from the root of the project, sorted, of the source files under these folders (or these files)."""
    for top in tops:
        where = ROOT / top
        for path in sorted(where.rglob("*")) if where.is_dir() else [where]:
            if path.suffix in suffixes and path.is_file():
                yield path.relative_to(ROOT).as_posix()
