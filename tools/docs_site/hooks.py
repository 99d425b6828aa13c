"""Hooks of mkdocs.yml: adds pages from outside docs/, and rewrites links to repository files.

README.md becomes the index page, and CONTRIBUTING.md, SECURITY.md and CHANGELOG.md become pages. A source file that a
page links to becomes a page that shows it. A link to a folder becomes text. The Markdown files keep links relative to
the repository, so the links also work outside the site, for example on GitHub.
"""
import pathlib
import posixpath
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FROM_ROOT = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md",
             "CHANGELOG.md": "changelog.md"}
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
LANGUAGES = {".h": "cpp", ".cu": "cpp", ".cuh": "cpp", ".cpp": "cpp", ".c": "c", ".py": "python"}


def repository_path(page):
    """Returns the repository path of a page: README.md for index.md, docs/plan.md for plan.md."""
    return next((path for path, name in FROM_ROOT.items() if name == page), f"docs/{page}")


def site_path(path):
    """Returns the site path of the page or file that shows a repository file. Returns None for a path outside docs/
    that is a folder or does not exist."""
    if path in FROM_ROOT:
        return FROM_ROOT[path]
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}.md" if (ROOT / path).is_file() else None


def linked_path(page, target):
    return posixpath.normpath(posixpath.join(posixpath.dirname(repository_path(page)), target))


def source_page(path):
    text = (ROOT / path).read_text()
    fence = "`" * 6
    return f"---\nsearch: {{exclude: true}}\nhide: [toc]\n---\n# {path}\n\n{fence}{LANGUAGES.get(pathlib.Path(path).suffix, 'text')}\n{text}{fence}\n"


def on_files(files, config):
    for path, name in FROM_ROOT.items():
        files.append(File.generated(config, name, content=(ROOT / path).read_text()))
    linked = set()
    for file in files.documentation_pages():
        for _, target in LINK.findall(file.content_string):
            if ":" not in target and not target.startswith("#"):
                linked.add(linked_path(file.src_uri, target.partition("#")[0]))
    for path in sorted(linked):
        name = site_path(path)
        if name and name.startswith("source/"):
            files.append(File.generated(config, name, content=source_page(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    def rewritten(match):
        text, (target, mark, anchor) = match[1], match[2].partition("#")
        if ":" in target or not target:
            return match[0]
        name = site_path(linked_path(page.file.src_uri, target))
        if name is None:
            return text
        return f"[{text}]({posixpath.relpath(name, posixpath.dirname(page.file.src_uri) or '.')}{mark}{anchor})"

    if page.file.src_uri.startswith("source/"):
        return markdown
    markdown = re.sub(r"^(```+\w+) run$", r"\1", markdown, flags=re.M)  # drop `run`, by which tools/check-docs finds the blocks to execute
    markdown = re.sub(r"`[^`\n]*`", lambda code: code[0].replace("\\|", "|"), markdown)  # inline code: \| becomes |, as GitHub renders it in tables
    return re.sub(r"(!\[[^\]]*\]\()docs/", r"\1", LINK.sub(rewritten, markdown)) if page.file.src_uri == "index.md" else LINK.sub(
        rewritten, markdown)
