#!/usr/bin/env python3
"""The API reference, from the comments of the public headers.

    make_reference.py DIR       writes into DIR what Doxygen reads (docs/Doxyfile): every header with each row of its tables as a plain declaration
    make_reference.py --check   says what the headers leave undocumented; exits 1 if there is anything
    make_reference.py --names   every documented name, one a line

How comments belong to declarations: a comment stands above a run of declarations without an empty line, and is of each of them; what follows a declaration on
its line is of that one alone, and in its place, or where the first of the run has such, too, beside it. A comment between a section's line, "// ---- Title ----", and an empty line is of the whole section.
Complete is what has a comment of its own and, with the section's: for what makes a tensor its shape, its type and an error; for what else can fail an error.
"""
import dataclasses
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import make_sites

INCLUDE = make_sites.INCLUDE
HEADERS = {"tc.h": "Tensors", "nn.h": "Models", "train.h": "Training", "amp.h": "Mixed precision", "compile.h": "Compiled functions", "io.h": "Files and other libraries", "program.h": "Compiled programs in files", "blas.h": "Direct products", "control.h": "Control flow", "backend.h": "Back ends"}  # dlpack.h is a copy of DLPack's own
SECTION = re.compile(r"// ---- (.*?) ----$")
SHAPE = re.compile(r"\[[^\]]*\]|\bshapes?\b|\bscalars?\b|\brank\b")
TYPE = re.compile(r"\btypes?\b|floating|integer|\bbools?\b|\b[ui]8\b|\bi(16|32|64)\b|\bb?f(16|32|64)\b")
ERROR = re.compile(r"TC_ERR_\w+")
HAND_OVER = ("tc_keep", "tc_retain", "tc_optimizer_param", "tc_nn_get")  # a tensor that is there already


@dataclasses.dataclass
class Section:
    title: str
    notes: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Item:
    kind: str  # function, op, macro, struct, enum or typedef
    name: str
    text: str  # as declared, without comments
    doc: list  # lines of the comment above
    own: list  # the comment on its line
    section: Section
    place: str
    members: list = dataclasses.field(default_factory=list)  # of a struct or an enum: (text, name, lines of its comment)

    def comment(self):
        return self.doc + self.own

    def with_section(self):
        return " ".join(self.comment() + self.section.notes)


def split_comment(line):
    """A line's code and its comment; None for no comment."""
    code, mark, comment = re.fullmatch(r'((?:"[^"]*"|(?!//)[^"])*)(//\s?)?(.*)', line).groups()
    return code.rstrip(), comment if mark else None


def declarators(text):
    """Of a field such as "double *a, b[3]": each as a declaration of its own, with its name."""
    pointer = re.search(r"\(\*(\w+)\)", text)
    if pointer:
        return [(text, pointer.group(1))]
    kind, rest = re.fullmatch(r"((?:const |struct |unsigned )*\w+ )(.*)", text).groups()
    return [(kind + one.strip(), re.findall(r"\w+", one.split("[")[0])[-1]) for one in rest.split(",")]


def members_of(kind, lines):
    """The members between the braces of a struct or an enum."""
    out, above, text, comments = [], [], "", []
    for line in lines:
        code, comment = split_comment(line.strip())
        if comment is not None and not code and not text:
            above.append(comment)
            continue
        text += " " + code
        comments += [comment] if comment is not None else []
        if not code.endswith("," if kind == "enum" else ";") and line is not lines[-1]:
            continue
        text = text.strip()
        doc = above + comments
        if kind == "enum":
            out += [(one.strip(), re.match(r"\s*(\w+)", one).group(1), doc) for one in text.split(",") if one.strip()]
        elif text:
            found = declarators(" ".join(text.rstrip(";").split()))
            parts = [[p.strip()] for p in " ".join(doc).split(";")]
            parts = parts if doc and len(parts) == len(found) else [doc] * len(found)
            out += [(one, name, part) for (one, name), part in zip(found, parts)]
        above, text, comments = [], "", []
    return out


def table_members(table):
    """The enumerators that a table of tc/ makes."""
    for name, columns, comment in re.findall(r"^TC_\w+?\((\w+),\s*(.*)\)\s*(?://\s*(.*))?$", (INCLUDE / table).read_text(), re.M):
        text = re.match(r'"(.*)"|\w+', columns)
        yield f"TC_{name}", f"TC_{name}", [f"{text.group(1) or text.group()}: {comment}"] if comment else []


class Parser:
    """Reads one header, with the tables that it includes, into items."""

    def __init__(self, header):
        self.header, self.section, self.items, self.sections = header, Section(HEADERS[header]), [], []
        self.pending, self.run, self.run_heads, self.fresh = [], None, False, False
        self.sections.append(self.section)
        self.intro = self.read(INCLUDE / header)

    def add(self, kind, name, text, own, place, members=()):
        if self.pending:
            self.run, self.run_heads, self.pending = self.pending, bool(own), []
        self.fresh = False
        above = self.run if self.run and (self.run_heads or not own) else []
        self.items.append(Item(kind, name, " ".join(text.split()), above, own, self.section, place, list(members)))

    def read(self, path):
        lines = path.read_text().splitlines()
        intro = []
        while lines[len(intro)].startswith("//"):
            intro.append(lines[len(intro)][2:].removeprefix(" "))
        at = len(intro)
        while at < len(lines):
            at = self.take(path, lines, at)
        return intro

    def take(self, path, lines, at):
        """Takes what begins at a line; where the next thing begins."""
        line, place = lines[at], f"include/tc/{path.name}:{at + 1}"
        titled = SECTION.match(line)
        if titled:
            title, rest = re.fullmatch(r"(.+?)(?:(?:[:;.] | \()(.*))?", titled.group(1)).groups()
            self.section = Section(title, [titled.group(1) + "."] if rest else [])
            self.sections.append(self.section)
            self.pending, self.run, self.fresh = [], None, True
        elif not line.strip():
            if self.fresh:
                self.section.notes += self.pending
            self.pending, self.run, self.fresh = [], None, False
        elif line.startswith("//"):
            self.pending.append(line[2:].removeprefix(" "))
            self.run = None
        elif line.startswith("#include <tc/api.def>"):
            outer, self.pending, self.run = self.section, [], None
            self.read(INCLUDE / "api.def")
            self.section, self.run = outer, None
        elif line.startswith("#define TC_FN") or line.startswith("#undef"):
            while lines[at].endswith("\\"):
                at += 1
            self.pending, self.run = [], None
        else:
            return self.declaration(lines, at, place)
        return at + 1

    def declaration(self, lines, at, place):
        code, comment = split_comment(lines[at])
        own = [comment] if comment else []
        if code.startswith("#define "):
            name, params = re.match(r"#define (\w+)(\([^)]*\))?", code).groups()
            value = "" if params else code.removeprefix(f"#define {name}").strip()
            # Names that end in _, and switches of the headers themselves, are no part of the interface.
            if not name.endswith("_") and not name.endswith("_H") and name not in ("TC_API", "TC_MUST_USE", "TC_P", "TC_TYPE", "TC_STATUS", "TC_STR", "TC_STR2"):
                if not any(i.name == name for i in self.items):
                    self.add("macro", name, f"{name}{params or ''} {value}", own, place)
            while lines[at].endswith("\\"):
                at += 1
            return at + 1
        if code.startswith(("#", "extern", "}", "template", "inline")) or code == "TC_P params":
            return at + 1
        if code.startswith(("typedef struct", "typedef enum", "typedef union", "struct ", "enum ")) and "{" in code:
            return self.record(lines, at, place)
        text, end = code, at
        closes = r".*\)\)$" if code.startswith("TC_FN(") else r".*;$" if not code.startswith("static inline") else r".*\{$"
        while not re.match(closes, text):
            end += 1
            more, comment = split_comment(lines[end])
            text, own = text + " " + more.strip(), own + ([comment] if comment else [])
        if code.startswith("TC_FN("):
            name, params = re.fullmatch(r"TC_FN\((\w+), (\(.*\)), \(.*\)\)", " ".join(text.split())).groups()
            self.add("op", name, f"tc_tensor {name}{params}", own, place)
        elif code.startswith("static inline"):
            name = re.search(r"(\w+)\(", text).group(1)
            if not name.endswith("_"):
                self.add("function", name, text.rstrip("{ ").removeprefix("static inline "), own, place)
            while lines[end] != "}":
                end += 1
        elif code.startswith("TC_API"):
            text = re.sub(r" (TC_MUST_USE|__attribute__.*);$", ";", " ".join(text.split())).removeprefix("TC_API ").rstrip(";")
            self.add("function", re.search(r"(\w+)\(", text).group(1), text, own, place)
        elif code.startswith("typedef"):
            self.add("typedef", re.search(r"\(\*(\w+)\)|(\w+)(?:\([^()]*\))?;$", text).group(1) or re.search(r"(\w+)(?:\([^()]*\))?;$", text).group(1), text.rstrip(";"), own, place)
        return end + 1

    def record(self, lines, at, place):
        """A struct, an enum or a union, to its closing brace."""
        end, kind = at, re.search(r"struct|enum|union", lines[at]).group(0)
        while not re.search(r"\}[^}]*;", split_comment(lines[end])[0]):
            end += 1
        body = lines[at + 1:end]
        name = re.search(r"(?:struct|enum|union) (\w+)", lines[at]).group(1)
        table = [re.search(r"<tc/(\w+\.def)>", line) for line in body]
        if end == at:
            body = [re.search(r"\{(.*)\}", split_comment(lines[at])[0]).group(1)]
        comment = split_comment(lines[end])[1]
        if any(table):
            members = list(table_members(next(t for t in table if t).group(1)))
            members.append((body[-1].strip(), body[-1].strip(), ["How many there are; none of them."]))
        else:
            members = members_of(kind, body)
        self.add(kind, name, f"{'typedef ' if lines[at].startswith('typedef') else ''}{kind} {name}", [comment] if comment else [], place, members)
        return end + 1


# ---- What is missing ----

def wrong_in(items):
    with_errors = {name for name in (i.name for i in items if i.kind in ("op", "function")) if name not in make_sites.WITHOUT}
    for i in items:
        if not i.comment():
            yield f"{i.place}: {i.name} has no comment"
            continue
        for _, name, doc in i.members:
            if not doc:
                yield f"{i.place}: {i.name}: {name} has no comment"
        text = i.with_section()
        makes = i.text.startswith("tc_tensor ") and i.name not in HAND_OVER
        if makes and not SHAPE.search(text):
            yield f"{i.place}: {i.name}: no shape is named"
        if makes and not TYPE.search(text):
            yield f"{i.place}: {i.name}: no type is named"
        if i.name in with_errors and "static" not in i.text and not i.name.startswith("tc_num_") and not i.name.startswith("tc_dims_") and not ERROR.search(text):
            yield f"{i.place}: {i.name}: no error is named"


# ---- For Doxygen ----

def escaped(text, names):
    """Text for Doxygen: what it would read as a command is itself, and known names are links."""
    out = []
    for word in re.split(r"(\b\w+\b)", text):
        if word in names:
            out.append(f'@ref {word} "{word}"')
        else:
            out.append(re.sub(r"([\\@&$#<>%\"*\[\]`|_])", r"\\\1", word) if not re.fullmatch(r"\w+", word) else word.replace("__", r"\_\_"))
    return "".join(out)


def paragraphs(lines, names):
    """Indented lines are code, the others one paragraph up to an empty line."""
    out, code = [], []
    for line in [*lines, ""]:
        if line.startswith("  "):
            code.append(line[2:])
            continue
        if code:
            out += ["", "@code{.c}", *code, "@endcode", ""]
            code = []
        out.append(escaped(line, names))
    return "\n".join(out).strip()


def item_text(i, names):
    own = [line if line.endswith(".") else line + "." for line in i.own]
    doc = paragraphs(own + i.doc, names)
    if i.section.notes and i.kind in ("op", "function"):
        doc += f"\n\n@par {escaped(i.section.title, {})}\n{paragraphs(i.section.notes, names)}"
    if i.kind == "op" or (i.kind == "function" and i.name not in make_sites.WITHOUT and "static" not in i.text and i.name + "_at" in SITED):
        doc += f"\n\n@par With a place\n{i.name}\\_at(.., tc\\_site site) is the same; errors then name that place."
    if i.name + "_num" in names:
        doc += f"\n\n@par With a number\nIn C {i.name}(a, 2.0) calls @ref {i.name}_num."
    if i.kind == "macro":
        return f"/** {doc} */\n#define {i.text}\n"
    if i.kind in ("op", "function", "typedef"):
        return f"/** {doc} */\n{i.text};\n"
    end = "," if i.kind == "enum" else ";"
    body = "".join(f"  /** {paragraphs(lines, names)} */\n  {text}{end}\n" for text, _, lines in i.members)
    return f"/** {doc} */\n{i.text} {{\n{body}}}{' ' + i.name if i.text.startswith('typedef') else ''};\n"


SITED = set()


def write(parsers, out):
    names = {i.name for p in parsers for i in p.items} | {name for p in parsers for i in p.items if i.kind == "enum" for _, name, _ in i.members}
    for header in make_sites.HEADERS:
        SITED.update(f"{name}_at" for _, name, _, _ in make_sites.functions(header))
    out.mkdir(parents=True, exist_ok=True)
    contents = "".join(f"- @ref {p.header} \"tc/{p.header}\": {HEADERS[p.header][0].lower()}{HEADERS[p.header][1:]}\n" for p in parsers)
    (out / "main.h").write_text(f"/** @mainpage tc\n{paragraphs(parsers[0].intro, names)}\n\n{contents}*/\n")
    for number, p in enumerate(parsers):
        text = [f"/** @file {p.header}\n{paragraphs(p.intro, names)}\n*/\n"]
        for k, section in enumerate(p.sections):
            items = [i for i in p.items if i.section is section]
            if not items:
                continue
            text.append(f"/** @defgroup g{number}_{k:02} {p.header}: {section.title}\n{paragraphs(section.notes, names)}\n@{{ */\n")
            text += [item_text(i, names) + "\n" for i in items]
            text.append("/** @} */\n\n")
        (out / p.header).write_text("".join(text))


def main():
    parsers = [Parser(header) for header in HEADERS]
    items = [i for p in parsers for i in p.items]
    if sys.argv[1:] == ["--names"]:
        print("\n".join(i.name for i in items))
        return 0
    if sys.argv[1:] != ["--check"]:
        write(parsers, pathlib.Path(sys.argv[1]))
        return 0
    wrong = list(wrong_in(items))
    print("".join(line + "\n" for line in wrong), end="")
    print(f"reference: {len(items)} declarations, {len(wrong)} things undocumented")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
